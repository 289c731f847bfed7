"""Runs the parts of a laptop cluster as processes: starts them, restarts what crashes, stops them in order."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_FIRST_DELAY, _LAST_DELAY = 0.5, 15.0
_STEADY = 30.0
"""A part that ran this long starts its back-off anew."""
STOP_SECONDS = 40.0
READY_VARIABLE = "MODELYARD_READY_FD"


@dataclass
class Part:
    """One process of the cluster. It says that it is ready with `notify_ready`."""

    name: str
    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    pid: int = 0
    restarts: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)


Report = Callable[[str, str], None]
"""`(part, what happened)`."""


def notify_ready() -> None:
    """Called by a part once it serves; without a supervisor it does nothing."""
    descriptor = os.environ.pop(READY_VARIABLE, "")
    if descriptor:
        os.write(int(descriptor), b"ready\n")
        os.close(int(descriptor))


class Supervisor:
    """`async with Supervisor(...)`: the parts run until the block ends."""

    def __init__(self, parts: Sequence[Part], logs: Path, report: Report) -> None:
        self.parts = list(parts)
        self._logs = logs
        self._report = report
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def __aenter__(self) -> Supervisor:
        self._tasks = [asyncio.create_task(self._keep(part), name=f"part-{part.name}") for part in self.parts]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def wait_ready(self) -> None:
        await asyncio.gather(*(part.ready.wait() for part in self.parts))

    async def stop(self) -> None:
        """Last started, first stopped: the API server outlives those that talk to it."""
        self._stopping = True
        for part in reversed(self.parts):
            process = self._processes.get(part.name)
            if process is None or process.returncode is not None:
                continue
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._report(part.name, f"did not stop within {STOP_SECONDS:.0f} s and was killed")
                process.kill()
                await process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, part: Part) -> None:
        delay, loop = _FIRST_DELAY, asyncio.get_running_loop()
        while not self._stopping:
            started = loop.time()
            code = await self._run_once(part)
            if self._stopping:
                return
            part.ready.clear()
            part.restarts += 1
            if loop.time() - started > _STEADY:
                delay = _FIRST_DELAY
            self._report(
                part.name,
                f"ended with {describe_exit(code)}; starting it again in {delay:g} s (log: {self._log(part)})",
            )
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LAST_DELAY)

    async def _run_once(self, part: Part) -> int:
        reader, writer = os.pipe()
        try:
            with self._log(part).open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *part.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **part.env, READY_VARIABLE: str(writer)},
                    pass_fds=(writer,),
                    start_new_session=True,
                    preexec_fn=_die_with_parent(os.getpid()),
                )
        finally:
            os.close(writer)
        self._processes[part.name] = process
        part.pid = process.pid
        watcher = asyncio.create_task(self._watch_ready(part, reader))
        try:
            return await process.wait()
        finally:
            watcher.cancel()
            part.pid = 0

    async def _watch_ready(self, part: Part, reader: int) -> None:
        loop = asyncio.get_running_loop()
        stream = asyncio.StreamReader()
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
            try:
                if await stream.readline() == b"ready\n":
                    part.ready.set()
                    self._report(part.name, "ready")
            finally:
                transport.close()

    def _log(self, part: Part) -> Path:
        return self._logs / f"{part.name}.log"


def describe_exit(code: int) -> str:
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit code {code}"


def _die_with_parent(parent: int) -> Callable[[], None]:
    """The kernel ends a part when its supervisor dies, however it dies."""
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def python(*arguments: str) -> list[str]:
    """A module of ours as a process of its own."""
    return [sys.executable, "-m", *arguments]
