"""Exponential back-off per key, as the kubelet counts it: from 10 s, doubling to 300 s, forgotten after twice the maximum."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

INITIAL = timedelta(seconds=10)
MAXIMUM = timedelta(seconds=300)


@dataclass(slots=True)
class _Entry:
    delay: timedelta
    updated: datetime


class BackOff:
    def __init__(self, initial: timedelta = INITIAL, maximum: timedelta = MAXIMUM) -> None:
        self._initial = initial
        self._maximum = maximum
        self._entries: dict[str, _Entry] = {}

    def delay(self, key: str) -> timedelta:
        entry = self._entries.get(key)
        return entry.delay if entry else timedelta(0)

    def until(self, key: str, since: datetime) -> datetime | None:
        """When the wait that began at `since` is over; None if there is none to observe."""
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, since):
            return None
        return since + entry.delay

    def next(self, key: str, event: datetime, now: datetime) -> None:
        """Another attempt begins: the wait after it is twice as long."""
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, event):
            self._entries[key] = _Entry(self._initial, now)
        else:
            self._entries[key] = _Entry(min(entry.delay * 2, self._maximum), now)

    def reset(self, key: str) -> None:
        self._entries.pop(key, None)

    def _expired(self, entry: _Entry, event: datetime) -> bool:
        return event - entry.updated > 2 * self._maximum


def duration(delay: timedelta) -> str:
    """A duration as Go prints it: `10s`, `1m20s`, `5m0s`."""
    seconds = int(delay.total_seconds())
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
