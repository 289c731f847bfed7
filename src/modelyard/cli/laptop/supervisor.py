"""Runs the parts of a laptop cluster as processes: starts them, restarts what crashes, stops them in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelyard.cli.laptop.forking import fork

_FIRST_DELAY, _LAST_DELAY = 0.5, 15.0
_STEADY = 30.0
"""A part that ran this long starts its back-off anew."""
STOP_SECONDS = 40.0
READY_VARIABLE = "MODELYARD_READY_FD"


@dataclass
class Part:
    """One process of the cluster. It says that it is ready with `notify_ready`."""

    name: str
    main: Callable[[], int]
    """What the process does; what it returns is its exit code."""
    env: dict[str, str] = field(default_factory=dict)
    pid: int = 0
    restarts: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


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
            if not part.pid:
                continue
            os.kill(part.pid, signal.SIGTERM)
            try:
                await asyncio.wait_for(part.ended.wait(), STOP_SECONDS)
            except TimeoutError:
                self._report(part.name, f"did not stop within {STOP_SECONDS:.0f} s and was killed")
                os.kill(part.pid, signal.SIGKILL)
                await part.ended.wait()
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
        part.ended.clear()
        try:
            part.pid = fork(
                lambda: _run(part, writer), self._log(part), name=part.name, keep=writer, die_with_parent=True
            )
        finally:
            os.close(writer)
        watcher = asyncio.create_task(self._watch_ready(part, reader))
        try:
            return await _end_of(part.pid)
        finally:
            watcher.cancel()
            part.pid = 0
            part.ended.set()

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


def _run(part: Part, ready: int) -> int:
    os.environ.update(part.env)
    os.environ[READY_VARIABLE] = str(ready)
    return part.main()


async def _end_of(process: int) -> int:
    """The exit code of a child, when it has ended; of one that a signal ended, that signal's number below zero."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    handle = os.pidfd_open(process)
    try:
        loop.add_reader(handle, _resolve, over)
        await over
        return _reap(process)
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _resolve(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _reap(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def python(*arguments: str) -> list[str]:
    """A module of ours as a process of its own."""
    return [sys.executable, "-m", *arguments]
