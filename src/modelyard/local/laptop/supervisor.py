"""Runs the parts of a laptop cluster as processes: starts them, restarts what crashes, stops them in order."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from modelyard.local.laptop.forking import fork

_FIRST_DELAY, _LAST_DELAY = 0.5, 15.0
_STEADY = 30.0
"""After a run of this length, a part's back-off starts from the first delay."""
_TRIES = 3
"""A part that ends so often before it was ever ready cannot start."""
_LAST_BYTES = 8192
_LOG_BYTES, _LOG_LOOK = 20 << 20, 30.0
"""A log that is longer than this begins again; so often it is looked at."""
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
    cause: str = ""
    """Why it ended last, in a sentence; empty while it is ready."""
    was_ready: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


Report = Callable[[str, str], None]
"""`(part, what happened)`."""


class CannotStart(Exception):
    """A part ended again and again before it was ready; the text says which and why."""


def notify_ready() -> None:
    """Called by a part once it serves; without a supervisor it does nothing."""
    descriptor = os.environ.pop(READY_VARIABLE, "")
    if descriptor:
        os.write(int(descriptor), b"ready\n")


class Supervisor:
    """`async with Supervisor(...)`: the parts run until the block ends."""

    def __init__(self, parts: Sequence[Part], logs: Path, report: Report) -> None:
        self.parts = list(parts)
        self._logs = logs
        self._report = report
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._given_up = asyncio.Event()

    async def __aenter__(self) -> Supervisor:
        self._tasks = [asyncio.create_task(self._keep(part), name=f"part-{part.name}") for part in self.parts]
        self._tasks.append(asyncio.create_task(self._keep_logs_short(), name="logs"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def wait_ready(self) -> None:
        """Raises `CannotStart` as soon as one part will not become ready."""
        ready = asyncio.create_task(self._all_ready())
        given_up = asyncio.create_task(self._given_up.wait())
        try:
            await asyncio.wait({ready, given_up}, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                failed = next(part for part in self.parts if not part.was_ready and part.restarts >= _TRIES)
                raise CannotStart(f"{failed.name} cannot start: {failed.cause} (log: {self._log(failed)})")
        finally:
            ready.cancel()
            given_up.cancel()

    async def _all_ready(self) -> bool:
        return all([await part.ready.wait() for part in self.parts])

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
            await self._run_once(part)
            if self._stopping:
                return
            part.ready.clear()
            part.restarts += 1
            if loop.time() - started > _STEADY:
                delay = _FIRST_DELAY
            if not part.was_ready and part.restarts >= _TRIES:
                self._given_up.set()
                return
            ending, _, why = part.cause.partition(": ")
            said = f"{ending}; starting it again in {delay:g} s (log: {self._log(part)})"
            self._report(part.name, f"{said}: {why}" if why else said)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LAST_DELAY)

    async def _keep_logs_short(self) -> None:
        while True:
            for log in self._logs.glob("*.log"):
                await asyncio.to_thread(shorten, log)
            await asyncio.sleep(_LOG_LOOK)

    async def _run_once(self, part: Part) -> None:
        reader, writer = os.pipe()
        part.ended.clear()
        said: list[str] = []
        log = self._log(part)
        begin = log.stat().st_size if log.exists() else 0
        try:
            part.pid = fork(
                lambda: _run(part, writer), self._log(part), name=part.name, keep=writer, die_with_parent=True
            )
        finally:
            os.close(writer)
        watcher = asyncio.create_task(self._listen(part, reader, said))
        try:
            code = await _end_of(part.pid)
            # Its last words are in the pipe; a process that it left behind may hold that open.
            await asyncio.wait([watcher], timeout=1.0)
            part.cause = f"ended with {describe_exit(code)}"
            why = said[-1] if said else last_line(log, begin)
            part.cause += f": {why}" if why else ""
        finally:
            watcher.cancel()
            part.pid = 0
            part.ended.set()

    async def _listen(self, part: Part, reader: int, said: list[str]) -> None:
        loop = asyncio.get_running_loop()
        stream = asyncio.StreamReader()
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
            try:
                while line := (await stream.readline()).decode(errors="replace").rstrip("\n"):
                    if line != "ready":
                        said.append(line)
                        continue
                    part.was_ready, part.cause = True, ""
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


def last_line(log: Path, begin: int = 0) -> str:
    """What was written last, after the first bytes; of a traceback that is the exception."""
    try:
        with log.open("rb") as source:
            end = source.seek(0, os.SEEK_END)
            source.seek(max(begin if begin <= end else 0, end - _LAST_BYTES))
            lines = source.read(_LAST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def shorten(log: Path, most: int = _LOG_BYTES) -> None:
    """A log that has become too long goes on as an empty one, and what it held is kept beside it once. Whoever writes it has it
    open for appending, so nobody needs to open it again."""
    before = log.with_name(f"{log.name}.1")
    with suppress(FileNotFoundError):
        if log.stat().st_size <= most:
            return
        try:
            shutil.copy(log, before)
        except OSError:
            before.unlink(missing_ok=True)  # The disk is full: space counts more than old lines.
        os.truncate(log, 0)


def explain(error: BaseException) -> str:
    """An error in one sentence, with the remedy where there is one that we know."""
    text = " ".join(str(error).split())
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or "disk is full" in text:
        return (
            "the disk is full: free some space, then start it again "
            "(`modelyard images prune` deletes built programs that are not needed any more)"
        )
    ours = type(error).__module__.startswith("modelyard.")
    return text if ours and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _run(part: Part, ready: int) -> int:
    os.environ.update(part.env)
    os.environ[READY_VARIABLE] = str(ready)
    try:
        return part.main()
    except Exception as error:
        # Not by the log alone: the disk may be full.
        os.write(ready, f"{explain(error)}\n".encode())
        raise


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
