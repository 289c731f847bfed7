"""Cron schedules as Kubernetes reads them: five fields or `@daily` and the like, in a time zone. Pure.

What is wrong with one is said in the words of the parser that Kubernetes uses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from modelyard.kube.gotext import go_quote
from modelyard.kube.times import later

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_DURATION = re.compile(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST_DIGITS = 19
_MOST_SECONDS = 2**63 / 1e9
"""What a duration can hold."""
_HORIZON = timedelta(days=366 * 5)


class ScheduleError(ValueError):
    """The text is not a schedule; `field` is the part that is wrong, for example `minute`."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    words: Sequence[str] = ()

    def number(self, text: str) -> int:
        if text.lower() in self.words:
            return self.words.index(text.lower()) + self.low
        return self.plain_number(text)

    def plain_number(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            why = f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax"
            raise ScheduleError(f"failed to parse int from {text}: {why}", self.name)
        if len(text) > _MOST_DIGITS:
            why = f"strconv.Atoi: parsing {go_quote(text)}: value out of range"
            raise ScheduleError(f"failed to parse int from {text}: {why}", self.name)
        if int(text) < 0:
            raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}", self.name)
        return int(text)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _DAYS),
)


@dataclass(frozen=True)
class Schedule:
    """When something is due; `next_after` speaks in UTC."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Day of month or day of week is `*`: both must fit; else one of them is enough."""
    zone: ZoneInfo | None = None
    every: timedelta | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time later than this moment; None if there is none within five years (30 February)."""
        if self.every is not None:
            return later(moment.replace(microsecond=0), self.every.total_seconds())
        zone = self.zone or UTC
        local = moment.astimezone(zone).replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
        end = local + _HORIZON
        while local < end:
            if local.month not in self.months:
                local = (local.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._fits_day(local):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in self.hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in self.minutes:
                local += timedelta(minutes=1)
            else:
                found = local.replace(tzinfo=zone).astimezone(UTC)
                # A wall-clock time that the change to summer time skips does not exist: it maps back to another one.
                if found > moment and found.astimezone(zone).replace(tzinfo=None) == local:
                    return found
                local += timedelta(minutes=1)
        return None

    def _fits_day(self, local: datetime) -> bool:
        day = local.day in self.days
        weekday = (local.isoweekday() % 7) in self.weekdays
        return (day and weekday) if self.any_day else (day or weekday)


def parse_schedule(text: str, zone: str | None = None) -> Schedule:
    """Raises ScheduleError. A time zone at the beginning of the text goes before the one that is given."""
    found = _zone(zone) if zone else None
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, text = text.partition(" ")
        if not text:
            raise ScheduleError("invalid schedule format: the time zone is followed by nothing")
        found = _zone(prefix.split("=", 1)[1] or "UTC")
        text = text.strip()
    if text.startswith(_EVERY):
        return Schedule(*(frozenset[int](),) * 5, any_day=True, zone=found, every=_every(text))
    if text.startswith("@") and text not in _NAMED:
        raise ScheduleError(f"unrecognized descriptor: {text}")
    parts = _NAMED.get(text, text).split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = map(_values, parts, _FIELDS)
    return Schedule(minutes, hours, days, months, weekdays, any_day or any_weekday, found)


def is_time_zone(name: str) -> bool:
    """Is this a zone that the IANA database has?"""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _zone(name: str) -> ZoneInfo:
    if not is_time_zone(name):
        raise ScheduleError(f"provided bad location {name}: unknown time zone {name}")
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _values(text: str, field: _Field) -> tuple[frozenset[int], bool]:
    """The values of a field, and whether it leaves them open."""
    values: set[int] = set()
    is_open = False
    for part in filter(None, text.split(",")):
        span, step = _range(part, field)
        values.update(range(span[0], span[1] + 1, step))
        is_open = is_open or (part[0] in "*?" and step == 1)
    return frozenset(values), is_open


def _range(text: str, field: _Field) -> tuple[tuple[int, int], int]:
    span, *steps = text.split("/")
    first, *rest = span.split("-")
    is_open = first in ("*", "?")
    if is_open:
        start, end = field.low, field.high
    else:
        start = end = field.number(first)
        if len(rest) > 1:
            raise ScheduleError(f"too many hyphens: {text}", field.name)
        if rest:
            end = field.number(rest[0])
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}", field.name)
    step = field.plain_number(steps[0]) if steps else 1
    if steps and not rest and not is_open:
        end = field.high
    if start < field.low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({field.low}): {text}", field.name)
    if end > field.high:
        raise ScheduleError(f"end of range ({end}) above maximum ({field.high}): {text}", field.name)
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}", field.name)
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}", field.name)
    return (start, end), step


def _every(text: str) -> timedelta:
    """Whole seconds, at least one."""
    duration = text.removeprefix(_EVERY)
    if duration != "0" and not _DURATION.fullmatch(duration):
        has_no_unit = re.fullmatch(r"[-+]?\d+(\.\d*)?", duration)
        why = f"time: {'missing unit in' if has_no_unit else 'invalid'} duration {go_quote(duration)}"
        raise ScheduleError(f"failed to parse duration {text}: {why}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(duration))
    if seconds >= _MOST_SECONDS:
        raise ScheduleError(f"failed to parse duration {text}: time: invalid duration {go_quote(duration)}")
    return timedelta(seconds=1 if duration.startswith("-") else max(1, int(seconds)))
