"""What all containers of a node share: the runtime they run on, and everything that helps with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import aiohttp

from modelyard.local.kubelet import probes
from modelyard.local.kubelet.backoff import BackOff
from modelyard.local.kubelet.events import Tell
from modelyard.local.kubelet.launch import Machine
from modelyard.local.kubelet.processes.memory import MemoryWatch
from modelyard.local.kubelet.processes.runtime import Launch, Process
from modelyard.local.kubelet.pulling import Puller


class Offload(Protocol):
    def __call__(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


class ContainerRuntime(Protocol):
    """What runs processes: the keeper, or a fake."""

    async def start(self, launch: Launch) -> Process: ...

    async def signal(self, identity: str, number: int = ...) -> None: ...

    async def kill(self, identity: str) -> None: ...

    async def forget(self, identity: str) -> None: ...

    async def execute(
        self, container: str, argv: Sequence[str], stdin: int, stdout: int, stderr: int
    ) -> asyncio.Future[int]: ...

    async def abandon(self, done: asyncio.Future[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What all containers of a node share."""

    runtime: ContainerRuntime
    puller: Puller
    machine: Machine
    backoff: BackOff
    memory: MemoryWatch
    tell: Tell
    clock: Callable[[], datetime]
    session: aiohttp.ClientSession
    prober: probes.Prober = probes.check
    offload: Offload = asyncio.to_thread
    """Runs blocking work (files of a container) beside the loop."""
