"""How a part of the laptop cluster finds its API server, which is started at the same moment."""

from __future__ import annotations

import asyncio

from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.local.laptop.layout import Layout


async def link(layout: Layout) -> Client:
    """A client, once the server answers."""
    while not layout.kubeconfig.exists():
        await asyncio.sleep(0.02)
    client = connect(layout.kubeconfig)
    while True:
        try:
            await client.request("GET", "/readyz")
            return client
        except (ApiError, Unreachable):
            await asyncio.sleep(0.05)
