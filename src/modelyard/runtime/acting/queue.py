"""The work queue: keys without duplicates, in order, after delays, with growing pauses for a key that fails."""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY = 0.05
LONGEST_RETRY = 300.0


class QueueMetrics(Protocol):
    """Is told what happens in a queue."""

    def depth(self, ready: int) -> None: ...

    def added(self) -> None: ...

    def waited(self, seconds: float) -> None:
        """From being ready to being handed out."""
        ...

    def worked(self, seconds: float) -> None:
        """From being handed out to being done."""
        ...

    def retried(self) -> None: ...


class QueueClosed(Exception):
    """The queue hands out no more keys."""


class _Silence:
    """Metrics for nobody."""

    def depth(self, ready: int) -> None: ...

    def added(self) -> None: ...

    def waited(self, seconds: float) -> None: ...

    def worked(self, seconds: float) -> None: ...

    def retried(self) -> None: ...


class Queue(Generic[K]):
    """A key is in at most one place: delayed, ready, or in work. One in work is not handed out again before `done`;
    if it is added meanwhile, it comes again after that. A key that becomes ready needs no delayed wake-up any more.
    """

    def __init__(
        self,
        *,
        first_retry: float = FIRST_RETRY,
        longest_retry: float = LONGEST_RETRY,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._first_retry = first_retry
        self._longest_retry = longest_retry
        self._metrics: QueueMetrics = metrics or _Silence()
        self._ready: OrderedDict[K, float] = OrderedDict()  # key -> ready since, the oldest first
        self._delayed: dict[K, float] = {}  # key -> due
        self._timers: list[tuple[float, int, K]] = []  # a heap; what does not agree with `_delayed` any more is skipped
        self._working: dict[K, float] = {}
        self._again: set[K] = set()  # added while in work
        self._failures: dict[K, int] = {}
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """How many keys are ready."""
        return len(self._ready)

    def __contains__(self, key: K) -> bool:
        return key in self._ready or key in self._delayed or key in self._working

    @property
    def delayed(self) -> int:
        return len(self._delayed)

    @property
    def working(self) -> dict[K, float]:
        """The keys in work, and for how many seconds each."""
        now = asyncio.get_running_loop().time()
        return {key: now - since for key, since in self._working.items()}

    def is_in_work(self, key: K) -> bool:
        return key in self._working

    @property
    def idle(self) -> bool:
        """Nothing is ready and nothing in work (delayed keys may be there)."""
        return not self._ready and not self._working

    def next_due(self) -> float | None:
        """When the next delayed key becomes ready, on the loop's clock."""
        self._skip_stale_timers()
        return self._timers[0][0] if self._timers else None

    def add(self, key: K) -> None:
        """Makes a key ready now, behind those that are ready already."""
        if self._closed:
            return
        self._delayed.pop(key, None)
        if key in self._working:
            if key not in self._again:
                self._metrics.added()
            self._again.add(key)
        elif key not in self._ready:
            self._metrics.added()
            self._push(key, asyncio.get_running_loop().time())

    def add_after(self, key: K, delay: float) -> None:
        """Makes a key ready after `delay` seconds, unless it is ready before or due earlier."""
        if delay <= 0:
            self.add(key)
            return
        if self._closed or key in self._ready:
            return
        due = asyncio.get_running_loop().time() + delay
        known = self._delayed.get(key)
        if known is None or due < known:
            self._delayed[key] = due
            self._sequence += 1
            heapq.heappush(self._timers, (due, self._sequence, key))
            self._set_timer()

    def add_rate_limited(self, key: K) -> float:
        """Makes a key that failed ready again after a pause that doubles with each failure; gives the pause."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.retried()
        delay: float = min(self._first_retry * 2.0 ** min(failures, 60), self._longest_retry)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key is well: its next failure counts as the first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def discard(self, key: K) -> None:
        """Takes a key out wherever it waits; one in work stays there and does not come again."""
        self._ready.pop(key, None)
        self._delayed.pop(key, None)
        self._again.discard(key)
        self._failures.pop(key, None)
        self._metrics.depth(len(self._ready))

    async def get(self) -> K:
        """The next key, as soon as there is one. `done(key)` must follow. Raises `QueueClosed` after `close`."""
        while True:
            key = self.get_nowait()
            if key is not None:
                return key
            if self._closed:
                raise QueueClosed
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # A wake-up that hit a cancelled worker belongs to the next one.
                if getter.done() and not getter.cancelled():
                    self._wake()
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise

    def get_nowait(self) -> K | None:
        """The next key if one is ready."""
        if not self._ready:
            return None
        key, since = self._ready.popitem(last=False)
        now = asyncio.get_running_loop().time()
        self._working[key] = now
        self._metrics.waited(now - since)
        self._metrics.depth(len(self._ready))
        return key

    def done(self, key: K) -> None:
        """The work on a key is over; if it was added meanwhile, it is ready again."""
        now = asyncio.get_running_loop().time()
        self._metrics.worked(now - self._working.pop(key))
        if key in self._again and not self._closed:
            self._again.remove(key)
            self._push(key, now)

    def close(self) -> None:
        """Hands out no more: waiting workers get `QueueClosed`, keys in work are finished by theirs."""
        self._closed = True
        self._ready.clear()
        self._delayed.clear()
        self._timers.clear()
        self._again.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    def _push(self, key: K, since: float) -> None:
        self._ready[key] = since
        self._metrics.depth(len(self._ready))
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _skip_stale_timers(self) -> None:
        while self._timers:
            due, _, key = self._timers[0]
            if self._delayed.get(key) == due:
                return
            heapq.heappop(self._timers)

    def _set_timer(self) -> None:
        self._skip_stale_timers()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timers:
            self._timer = asyncio.get_running_loop().call_at(self._timers[0][0], self._release)

    def _release(self) -> None:
        """Makes ready what is due."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        while True:
            self._skip_stale_timers()
            # The loop's clock may call a little early, within its resolution.
            if not self._timers or self._timers[0][0] > now + 0.001:
                break
            key = heapq.heappop(self._timers)[2]
            self.add(key)
        self._set_timer()
