"""Times as the API writes them (RFC 3339, always UTC)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)


def parse_time(text: str) -> datetime:
    """The moment that an RFC 3339 text names; finer than a microsecond is cut off."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time; write it like 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second, fraction, _, sign, offset_hours, offset_minutes = match.groups()
    zone: timezone = UTC
    if sign:
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes))
        zone = timezone(offset if sign == "+" else -offset)
    micros = int((fraction or "").ljust(6, "0")[:6])
    try:
        # A leap second is the last one that datetime can name.
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), min(int(second), 59), micros, zone)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time: {error}") from None
    return moment.astimezone(UTC)


def format_time(moment: datetime) -> str:
    """As `metav1.Time` is written: whole seconds."""
    return _utc(moment).isoformat(timespec="seconds")[:-6] + "Z"


def format_micro_time(moment: datetime) -> str:
    """As `metav1.MicroTime` is written (Leases, Events): with microseconds."""
    return _utc(moment).isoformat(timespec="microseconds")[:-6] + "Z"


def later(moment: datetime, seconds: float) -> datetime:
    """So many seconds after the moment. Users may ask for more than there are: it is the last moment that can be written, then."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        end = datetime.max if seconds > 0 else datetime.min
        return end.replace(microsecond=0, tzinfo=UTC)


def utc_now() -> datetime:
    """The wall clock; code that must be testable takes a clock like this one as a parameter."""
    return datetime.now(UTC)


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None:
        raise ValueError("a time without a zone cannot be written; use datetime.now(UTC)")
    return moment.astimezone(UTC)
