"""Which cluster a command talks to: a kubeconfig, or the laptop cluster."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from modelyard.cli.laptop.layout import Layout, default_directory
from modelyard.cli.output import Failed
from modelyard.kube.client import Client
from modelyard.kube.config import ConfigError, connect
from modelyard.kube.errors import ApiError, Unreachable

T = TypeVar("T")


def connection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig", type=Path, help="default: $KUBECONFIG, ~/.kube/config, else the laptop cluster that runs here"
    )
    parser.add_argument("--context", help="a context of the kubeconfig (default: its current one)")
    parser.add_argument("--dir", type=Path, help="use the laptop cluster in this folder")


def open_client(args: argparse.Namespace) -> Client:
    """A client for what the arguments say; a laptop cluster that runs is preferred over nothing, never over a kubeconfig named."""
    kubeconfig: Path | None = args.kubeconfig
    if args.dir is not None:
        layout = Layout(args.dir)
        layout.require_running()
        kubeconfig = layout.kubeconfig
    try:
        return connect(kubeconfig, args.context)
    except ConfigError as error:
        laptop = Layout(default_directory())
        if kubeconfig is None and laptop.is_running():
            return connect(laptop.kubeconfig)
        raise Failed(str(error)) from None


def with_client(args: argparse.Namespace, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs work on a connection and turns what the API says into a sentence."""

    async def run() -> T:
        client = open_client(args)
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except (ApiError, Unreachable) as error:
        raise Failed(str(error)) from None
