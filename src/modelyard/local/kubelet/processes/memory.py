"""Memory limits by looking: no cgroups are needed, and how often is looked depends on how near the limit is."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_MUCH_SHARED = 16 << 20
_FASTEST_GROWTH = 512 << 20
"""Bytes a second a program is assumed to take at most: the distance to the limit divided by it is the next look."""
_SHORTEST, _LONGEST = 0.2, 2.0


@dataclass(slots=True)
class _Watched:
    pid: int
    limit: int
    exceeded: Callable[[], None]
    due: float
    last: int = 0
    calm: int = 0


class MemoryWatch:
    """One task for all containers with a limit."""

    def __init__(self, measure: Callable[[int], int] | None = None) -> None:
        self._measure = measure or resident
        self._watched: dict[str, _Watched] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="memory-watch")

    def add(self, key: str, pid: int, limit: int, exceeded: Callable[[], None]) -> None:
        self._watched[key] = _Watched(pid, limit, exceeded, asyncio.get_running_loop().time())
        self._wake.set()

    def remove(self, key: str) -> None:
        self._watched.pop(key, None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            for key, item in list(self._watched.items()):
                if item.due <= now:
                    self._look(key, item, now)
            self._wake.clear()
            next_due = min((item.due for item in self._watched.values()), default=None)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(
                    self._wake.wait(), None if next_due is None else max(0.02, next_due - loop.time())
                )

    def _look(self, key: str, item: _Watched, now: float) -> None:
        used = self._measure(item.pid)
        if used > item.limit:
            del self._watched[key]
            item.exceeded()
            return
        # A container that has not moved for a while is looked at less often.
        item.calm = item.calm + 1 if abs(used - item.last) <= used // 50 else 0
        item.last = used
        wait = min(_LONGEST, max(_SHORTEST, (item.limit - used) / _FASTEST_GROWTH))
        item.due = now + (min(_LONGEST, max(wait, 1.0)) if item.calm >= 10 else wait)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    pending = [pid]
    while pending:
        current = pending.pop()
        yield current
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{current}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{current}/task/{task}/children") as file:
                    pending += [int(word) for word in file.read().split()]


def resident(pid: int) -> int:
    """Bytes of memory that a process and its descendants hold: their own, what they share, and what is in their /dev/shm."""
    members = list(tree(pid))
    own = shared = 0
    for current in members:
        fields = _fields(current)
        own += fields.get("RssAnon", 0)
        shared += fields.get("RssShmem", 0)
    files = _shared_files(pid)
    # The sum counts a page once for each process that has it; only if there is much of it is it worth a closer look.
    if shared > _MUCH_SHARED and len(members) > 1:
        shared = sum(_proportional_shared(current) for current in members)
    # Files in /dev/shm may be mapped as well; what is counted twice that way is small, as /dev/shm is.
    return own + max(shared, files)


def _fields(pid: int) -> dict[str, int]:
    found = {}
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("RssAnon", "RssShmem"):
                found[name] = int(value.split()[0]) * 1024
    return found


def _proportional_shared(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss_Shmem:"):
                return int(line.split()[1]) * 1024
    return _fields(pid).get("RssShmem", 0)


def _shared_files(pid: int) -> int:
    """What is in a container's own /dev/shm; the machine's is nobody's in particular."""
    with contextlib.suppress(OSError):
        inside, outside = f"/proc/{pid}/root/dev/shm", "/dev/shm"
        if os.stat(inside).st_dev != os.stat(outside).st_dev:
            found = os.statvfs(inside)
            if found.f_blocks and os.stat(inside).st_dev != os.stat(f"/proc/{pid}/root").st_dev:
                return (found.f_blocks - found.f_bfree) * found.f_frsize
    return 0
