"""Cron schedules as Kubernetes reads them: what is wrong with one, said before the API server has to."""

from __future__ import annotations

import re

_MONTHS = {
    name: n
    for n, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_DAYS = {name: n for n, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)
_WORDS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_EVERY = re.compile(r"@every ([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+")


def schedule_problem(schedule: str) -> str | None:
    """What is wrong with a schedule, in words; None where nothing is."""
    text = schedule.strip()
    if text.startswith(("TZ=", "CRON_TZ=")):
        return "a time zone cannot be part of the schedule"
    if text.startswith("@"):
        return None if text in _WORDS or _EVERY.fullmatch(text) else f"{text} is not a known word such as @daily"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"it has {len(fields)} fields, not minute, hour, day of month, month and day of week"
    for value, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        if problem := _field_problem(value, low, high, words):
            return f"{name} {value}: {problem}"
    return None


def _field_problem(value: str, low: int, high: int, words: dict[str, int]) -> str | None:
    for part in value.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isascii() and step.isdigit() and int(step) > 0):
            return "a step is a number above 0"
        if span in ("*", "?"):
            continue
        first, dash, last = span.partition("-")
        ends = [_number(first, words), _number(last, words)] if dash else [_number(first, words)]
        for end in ends:
            if end is None:
                return "not a number"
            if not low <= end <= high:
                return f"not between {low} and {high}"
        if dash and (ends[0] or 0) > (ends[1] or 0):
            return "the range ends before it begins"
    return None


def _number(text: str, words: dict[str, int]) -> int | None:
    if text.lower() in words:
        return words[text.lower()]
    return int(text) if text.isascii() and text.isdigit() else None
