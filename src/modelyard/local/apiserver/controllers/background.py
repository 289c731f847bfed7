"""A queue of keys worked off by one task, for the server's own controllers: failures come again, later and later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K")

_FIRST_DELAY = 0.05
_LONGEST_DELAY = 30.0


class Worker(Generic[K]):
    """Calls `work` for each key that was added, one at a time; a key added twice before its turn is worked on once."""

    def __init__(self, name: str, work: Callable[[K], Awaitable[None]]) -> None:
        self._name = name
        self._work = work
        self._queue: dict[K, None] = {}
        self._failures: dict[K, int] = {}
        self._retries: set[asyncio.TimerHandle] = set()
        self._wake: asyncio.Future[None] | None = None
        self._working = False
        self._task: asyncio.Task[None] | None = None

    def add(self, key: K) -> None:
        self._queue[key] = None
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    @property
    def busy(self) -> bool:
        """Whether there is work that can be done now; what waits for its next try does not count."""
        return self._working or bool(self._queue)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        for handle in self._retries:
            handle.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while self._queue:
                key = next(iter(self._queue))
                del self._queue[key]
                self._working = True
                try:
                    await self._work(key)
                    self._failures.pop(key, None)
                except Exception as error:
                    self._later(key, error)
                finally:
                    self._working = False
            self._wake = loop.create_future()
            await self._wake

    def _later(self, key: K, error: Exception) -> None:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(_FIRST_DELAY * 2**count, _LONGEST_DELAY)
        log.warning("%s: %s failed, next try in %.1f s: %s", self._name, key, delay, error)
        handle: asyncio.TimerHandle

        def again() -> None:
            self._retries.discard(handle)
            self.add(key)

        handle = asyncio.get_running_loop().call_later(delay, again)
        self._retries.add(handle)
