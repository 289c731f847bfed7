"""Events are kept for an hour after they were last written."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from modelyard.kube.builtin import Event
from modelyard.local.apiserver.storage.store import Change, Stale, Store

EVENT_SECONDS = 3600.0


class EventExpiry:
    """Follows the events, oldest write first, and drops each when its time is over."""

    def __init__(self, store: Store, seconds: float = EVENT_SECONDS) -> None:
        self._store = store
        self._seconds = seconds
        self._due: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._removing: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] = lambda: None

    @property
    def busy(self) -> bool:
        return self._removing is not None

    def start(self) -> None:
        # Nobody knows how long those from an earlier life were kept; they get the full time again.
        for stored in self._store.items(Event.resource):
            self._note((stored.namespace, stored.name))
        self._stop_listening = self._store.listen(self._changed, Event.resource)

    async def stop(self) -> None:
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        if self._removing is not None:
            self._removing.cancel()
            await asyncio.gather(self._removing, return_exceptions=True)

    def _changed(self, change: Change) -> None:
        key = (change.subject.namespace, change.subject.name)
        if change.new is None:
            self._due.pop(key, None)
        else:
            self._note(key)

    def _note(self, key: tuple[str, str]) -> None:
        self._due[key] = asyncio.get_running_loop().time() + self._seconds
        self._due.move_to_end(key)
        if self._timer is None and self._removing is None:
            self._set_timer(self._due[key])

    def _set_timer(self, when: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(when, self._wake, when)

    def _wake(self, until: float) -> None:
        self._timer = None
        self._removing = asyncio.create_task(self._remove(until), name="expiry of events")

    async def _remove(self, until: float) -> None:
        # A loop may call a little early by its own clock: what the timer was set for is due all the same.
        now = max(until, asyncio.get_running_loop().time())
        try:
            while self._due:
                key, due = next(iter(self._due.items()))
                if due > now:
                    self._set_timer(due)
                    return
                del self._due[key]
                stored = self._store.get(Event.resource, *key)
                if stored is not None:
                    try:
                        await self._store.remove(stored)
                    except Stale:
                        # It was written again just now, and is noted with a new time.
                        continue
        finally:
            self._removing = None
