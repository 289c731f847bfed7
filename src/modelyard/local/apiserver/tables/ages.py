"""Spans of time as kubectl shows them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from modelyard.kube.times import parse_time

UNKNOWN = "<unknown>"


class Ages:
    """Ages of things, by an injected clock."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    def since(self, timestamp: str | None) -> str:
        """How long ago; `<unknown>` without a time."""
        if not timestamp:
            return UNKNOWN
        return human_duration(self._clock() - parse_time(timestamp))

    def span(self, start: str, end: str | None) -> str:
        """How long something took, or has taken so far."""
        return human_duration((parse_time(end) if end else self._clock()) - parse_time(start))


def human_duration(span: timedelta) -> str:
    """Two or three significant digits: `45s`, `3m20s`, `5h`, `12d`."""
    total = span.total_seconds()
    seconds = int(total)
    if seconds < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
