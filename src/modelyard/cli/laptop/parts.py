"""The processes of a laptop cluster: what each of them does, and what all of them share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from importlib import import_module

from modelyard.local.laptop.layout import Layout
from modelyard.operators.registry import SHARED, modules
from modelyard.runtime.process.footprint import keep_small
from modelyard.runtime.process.logs import configure

PARTS = {
    "apiserver": "modelyard.local.laptop.api",
    "controllers": "modelyard.cli.laptop.controllers",
    "kubelet": "modelyard.cli.laptop.node",
}
_SOON_NEEDED = (
    "modelyard.runtime.tls.certificates",
    "modelyard.local.apiserver.server",
    "modelyard.local.apiserver.sockets.http",
)


def preload(operators: Sequence[str]) -> None:
    """Loads what the parts need: once, before they are started, and not in each of them again."""
    for module in (*PARTS.values(), *modules(operators), *SHARED.values(), *_SOON_NEEDED):
        import_module(module)


def run_part(name: str, layout: Layout) -> int:
    keep_small()
    configure(json=False)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    asyncio.run(import_module(PARTS[name]).run(layout))
    return 0
