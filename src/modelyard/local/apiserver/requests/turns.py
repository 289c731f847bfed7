"""A share for each client: requests take turns, and long work is done one piece a client at a time. Nobody's flood stops the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar
from weakref import WeakValueDictionary

_SLICE = 0.005
"""For so many seconds of one turn of the event loop a client's requests are begun; the rest of them wait for the next turn."""
_MOST_BEGUN = 16

_Answer = TypeVar("_Answer")


class Turns:
    """Who is first, is begun at once. Only a client of whom more comes than the server can do in a turn has to wait."""

    def __init__(self) -> None:
        self._had: set[str] = set()
        self._begun = 0
        self._since = 0.0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def take(self, who: str) -> asyncio.Future[None] | None:
        """None: go on. Else what to wait for before anything is done for this request."""
        if not self._had and not self._waiting:
            self._since = monotonic()
            asyncio.get_running_loop().call_soon(self._next)
        elif who in self._waiting or (who in self._had and monotonic() - self._since > _SLICE):
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(who, deque()).append(mine)
            return mine
        self._had.add(who)
        self._begun += 1
        return None

    def _next(self) -> None:
        """The turn of the loop is over."""
        now = monotonic()
        each = (now - self._since) / max(1, self._begun)
        self._since, self._begun = now, 0
        self._had.clear()
        if not self._waiting:
            return
        most = max(1, min(_MOST_BEGUN, int(_SLICE / max(each, 1e-6))))
        for who, queue in list(self._waiting.items()):
            self._begin(who, queue, most)
            if not queue:
                del self._waiting[who]
        asyncio.get_running_loop().call_soon(self._next)

    def _begin(self, who: str, queue: deque[asyncio.Future[None]], most: int) -> None:
        left = most
        while queue and left:
            waiter = queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._had.add(who)
                self._begun += 1
                left -= 1


class LongWork:
    """One thread beside the event loop. The store's own threads are not used: whoever filled them would stop all writes."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def do(self, who: str, work: Callable[[], _Answer]) -> _Answer:
        """One piece of each client is under way or in line, so clients take turns, however much one of them sends."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, "long-work")
        lock = self._locks.get(who)
        if lock is None:
            lock = self._locks[who] = asyncio.Lock()
        async with lock:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
