"""Durations as Go writes and reads them: `1m30s`, `1.5h`, `300ms`. Pure."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"([-+]?)((?:{_PART.pattern})+)", re.ASCII)


def parse(text: str) -> float:
    """Seconds; `ValueError` for what is no duration."""
    if text.lstrip("+-") == "0":
        return 0.0
    match = _WHOLE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write it like 90s, 1m30s or 1.5h")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(match[2]))
    return -seconds if match[1] == "-" else seconds


def text(seconds: float) -> str:
    """As Go prints it: `5m0s`, `168h0m0s`, `0s`."""
    if seconds == 0:
        return "0s"
    if seconds < 0:
        return f"-{text(-seconds)}"
    if seconds < 1:
        for unit, size in (("ms", 1e-3), ("µs", 1e-6)):
            if seconds >= size:
                return f"{_number(seconds / size)}{unit}"
        return f"{round(seconds * 1e9)}ns"
    hours, rest = divmod(round(seconds, 9), 3600)
    minutes, left = divmod(rest, 60)
    shown = f"{_number(left)}s"
    if hours or minutes:
        shown = f"{int(minutes)}m{shown}"
    return f"{int(hours)}h{shown}" if hours else shown


def _number(value: float) -> str:
    return f"{round(value, 9):.9f}".rstrip("0").rstrip(".")
