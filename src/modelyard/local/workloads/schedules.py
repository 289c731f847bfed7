"""Cron schedules: five fields or `@daily` and the like, in a time zone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[str, int, int, Sequence[str]], ...] = (
    ("minute", 0, 59, ()), ("hour", 0, 23, ()), ("day of month", 1, 31, ()), ("month", 1, 12, _MONTHS), ("day of week", 0, 7, _DAYS),
)  # fmt: skip
_HORIZON = timedelta(days=366 * 5)


@dataclass(frozen=True)
class Schedule:
    """When something is due; `next_after` and `latest` speak in UTC."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Day of month and day of week are both open or one is `*`: both must fit; else one of them is enough."""
    zone: ZoneInfo | None = None
    every: timedelta | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time later than this moment; None if there is none within five years (30 February)."""
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
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
    """Raises ValueError with what is wrong and where."""
    found = _zone(zone)
    text = text.strip()
    for prefix in ("TZ=", "CRON_TZ="):
        if text.startswith(prefix):
            name, _, text = text.removeprefix(prefix).partition(" ")
            found = _zone(name)
    if text.startswith("@every "):
        return Schedule(
            *(frozenset[int](),) * 5, any_day=True, zone=found, every=_duration(text.removeprefix("@every "))
        )
    parts = _NAMED.get(text, text).split()
    if len(parts) != 5:
        raise ValueError(
            f"schedule {text!r} must have 5 fields (minute hour day-of-month month day-of-week), it has {len(parts)}"
        )
    sets = [_field(part, name, low, high, words) for part, (name, low, high, words) in zip(parts, _FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in sets[4])
    any_day = parts[2][0] in "*?" or parts[4][0] in "*?"
    return Schedule(sets[0], sets[1], sets[2], sets[3], weekdays, any_day, found)


def _zone(name: str | None) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def _field(text: str, name: str, low: int, high: int, words: Sequence[str]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        step = _number(step_text, name, (), 1, high) if step_text else 1
        if span in ("*", "?"):
            first, last = low, high if name != "day of week" else 6
        elif "-" in span:
            first_text, _, last_text = span.partition("-")
            first, last = _number(first_text, name, words, low, high), _number(last_text, name, words, low, high)
        else:
            first = _number(span, name, words, low, high)
            last = high if step_text else first
        if first > last:
            raise ValueError(f"{name} {part!r}: the beginning of the range is beyond its end")
        values.update(range(first, last + 1, step))
    return frozenset(values)


def _number(text: str, name: str, words: Sequence[str], low: int, high: int) -> int:
    if text.lower() in words:
        return list(words).index(text.lower()) + (1 if name == "month" else 0)
    if not text.isdecimal():
        raise ValueError(f"{name} {text!r} is not a number")
    if not low <= int(text) <= high:
        raise ValueError(f"{name} {text} is not between {low} and {high}")
    return int(text)


def _duration(text: str) -> timedelta:
    units = {"h": 3600, "m": 60, "s": 1}
    seconds, number = 0, ""
    for char in text.strip():
        if char.isdecimal():
            number += char
        elif char in units and number:
            seconds += int(number) * units[char]
            number = ""
        else:
            raise ValueError(f"@every {text!r} is no duration; write it like 1h30m")
    if number or seconds <= 0:
        raise ValueError(f"@every {text!r} is no duration; write it like 1h30m")
    return timedelta(seconds=seconds)
