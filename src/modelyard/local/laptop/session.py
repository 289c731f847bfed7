"""How commands reach the gateway of a running laptop cluster, above all for links that log a browser in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp

from modelyard.failure import Failed
from modelyard.kube.client import Client
from modelyard.kube.config import connect, resolve
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.local.laptop.layout import Layout
from modelyard.local.network.gateway import Control
from modelyard.local.network.pages import OWN

T = TypeVar("T")


def with_laptop(layout: Layout, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs work on the laptop cluster of this folder; what goes wrong is said in a sentence."""
    layout.require_running()

    async def run() -> T:
        client = connect(layout.kubeconfig)
        try:
            return await work(client)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except (ApiError, Unreachable) as error:
        raise Failed(str(error)) from None


async def login_link(layout: Layout, source: str = "", path: str = "") -> str:
    """A link that logs a browser in to a service (`Kind/namespace/name`) or, without one, to the start page; it works once."""
    control = Control.read(layout.kubelet)
    if control is None:
        raise Failed(f"the gateway of {layout.directory} does not run; see `modelyard logs kubelet`")
    trust = ssl.create_default_context(cadata=authority(layout))
    try:
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {control.secret}"}
            body = {"to": source, "next": path}
            where = f"{control.url}{OWN}/links"
            async with session.post(where, json=body, headers=headers, ssl=trust) as answer:
                if answer.status != 200:
                    raise Failed(f"the gateway made no link: {answer.status} {(await answer.text()).strip()}")
                return str((await answer.json())["url"])
    except aiohttp.ClientError as error:
        raise Failed(f"the gateway at {urlsplit(control.url).netloc} does not answer: {error}") from None


def gateway_url(layout: Layout) -> str:
    control = Control.read(layout.kubelet)
    if control is None:
        raise Failed(f"the gateway of {layout.directory} does not run; see `modelyard logs kubelet`")
    return control.url


def authority(layout: Layout) -> str:
    """The certificate (PEM) that clients trust: one CA signs for the API server and for the gateway."""
    return resolve(layout.kubeconfig).endpoint.ca
