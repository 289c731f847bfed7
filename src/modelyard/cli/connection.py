"""Which cluster a command talks to: a kubeconfig, or the laptop cluster; and how the plane there is set."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from modelyard.cli.installation import LABELS
from modelyard.failure import Failed
from modelyard.kube.builtin import Deployment
from modelyard.kube.client import Client
from modelyard.kube.config import ConfigError, connect, resolve
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.objects import namespace_of
from modelyard.local.laptop.layout import Layout, default_directory, here, known_clusters, other_clusters

T = TypeVar("T")


def connection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="default: the laptop cluster in $MODELYARD_DIR if that is set, else $KUBECONFIG, "
        "else the laptop cluster in .up of this folder if it runs, else ~/.kube/config, else the user's laptop cluster",
    )
    parser.add_argument("--context", help="a context of the kubeconfig (default: its current one)")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="use the laptop cluster in this folder")


def open_client(args: argparse.Namespace) -> Client:
    """A client for what the arguments say. What is named goes before what is found."""
    try:
        return connect(_kubeconfig(args), args.context)
    except ConfigError as error:
        raise Failed(str(error)) from None


def _kubeconfig(args: argparse.Namespace) -> Path | None:
    if args.dir is not None:
        layout = Layout(args.dir)
        layout.require_running()
        return _of_laptop(layout)
    if args.kubeconfig is not None or args.context is not None:
        named: Path | None = args.kubeconfig
        return named
    laptop = Layout(default_directory())
    chosen = os.environ.get("MODELYARD_DIR") or (here() is not None and not os.environ.get("KUBECONFIG"))
    if chosen and laptop.is_running():
        return _of_laptop(laptop)
    try:
        resolve()
    except ConfigError as error:
        if laptop.is_running():
            return _of_laptop(laptop)
        raise ConfigError(f"{error}{other_clusters()}") from None
    return None


def _of_laptop(laptop: Layout) -> Path:
    if not laptop.kubeconfig.exists():
        raise Failed("; ".join(laptop.broken_parts()) or f"the laptop cluster in {laptop.directory} is still starting")
    return laptop.kubeconfig


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
    except ApiError as error:
        raise Failed(str(error)) from None
    except Unreachable as error:
        laptop = _laptop_of(args)
        if laptop is not None:
            laptop.require_running()
            # A cluster on a full disk cannot even write down what is wrong with it.
            laptop.require_space()
        raise Failed(str(error)) from None


async def plane_settings(client: Client, args: argparse.Namespace) -> Mapping[str, str]:
    """The settings of the plane on that cluster, so that a plan is what *it* would do; those of this shell go before them."""
    laptop = laptop_behind(args)
    if laptop is not None:
        from modelyard.cli.laptop.controllers import laptop_settings

        state = laptop.read_state()
        port = urlsplit(state.gateway).port if state is not None else None
        found = laptop_settings({"MODELYARD_GATEWAY_PORT": str(port)} if port else {})
    else:
        found = await _deployed_settings(client)
    return {**found, **os.environ}


def laptop_behind(args: argparse.Namespace) -> Layout | None:
    """The laptop cluster that a command is connected to, also by way of a kubeconfig that names it."""
    layout = _laptop_of(args)
    # An API server alone has a folder like that too; only `up` says what it is.
    return layout if layout is not None and layout.read_state() is not None and layout.is_running() else None


def _laptop_of(args: argparse.Namespace) -> Layout | None:
    """The laptop cluster that the kubeconfig is of, whether it runs or not."""
    try:
        chosen = _kubeconfig(args)
        server = resolve(chosen, args.context).endpoint.server
    except ConfigError:
        return None
    folders = [args.dir, default_directory(), chosen.parent if chosen else None]
    folders += [Path(part).parent for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    for folder in (*folders, *(layout.directory for layout in known_clusters())):
        if folder is None:
            continue
        layout = Layout(folder)
        if layout.exists() and _server_of(layout) == server:
            return layout
    return None


def _server_of(layout: Layout) -> str:
    try:
        return resolve(layout.kubeconfig).endpoint.server
    except ConfigError:
        return ""


async def _deployed_settings(client: Client) -> dict[str, str]:
    """From the Deployment that `modelyard manifests` made, if we may see it."""
    labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
    try:
        items = (await client.list(Deployment, labels=labels)).items
    except ApiError:
        return {}
    if not items:
        return {}
    (container, *_) = items[0]["spec"]["template"]["spec"]["containers"]
    found = {each["name"]: each["value"] for each in container.get("env") or () if each.get("value") is not None}
    return found | {"POD_NAMESPACE": namespace_of(items[0])}
