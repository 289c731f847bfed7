"""Whether a CronJob's schedule and time zone make sense, in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import re
from functools import lru_cache

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.problems import Cause, go_quote, invalid_value

_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {
    3: {name: index + 1 for index, name in enumerate(_MONTHS)},
    4: {name: index for index, name in enumerate(_DAYS)},
}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DURATION = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+")
_ZONE_PART = re.compile(r"[A-Za-z0-9._+-]{1,14}|[A-Za-z0-9._+-]+")


def validate_schedule(spec: Object, old: Object | None) -> list[Cause]:
    schedule, field = spec["schedule"], "spec.schedule"
    wrong = schedule_problem(schedule)
    found = [invalid_value(field, schedule, wrong)] if wrong else []
    zone_was_inside = old is not None and "TZ" in old.get("schedule", "")
    if "TZ" in schedule:
        if not zone_was_inside:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            found.append(invalid_value(field, schedule, detail))
        elif spec.get("timeZone") is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            found.append(invalid_value(field, schedule, detail))
    return found


def validate_time_zone(zone: str | None) -> list[Cause]:
    field = "spec.timeZone"
    if zone is None:
        return []
    if not zone:
        return [invalid_value(field, zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            return [invalid_value(field, zone, f"unknown time zone {zone}")]
    found: list[Cause] = []
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        found.append(invalid_value(field, zone, detail))
    if zone != "Local" and not _known(zone):
        found.append(invalid_value(field, zone, f"unknown time zone {zone}"))
    return found


@lru_cache(maxsize=256)
def _known(zone: str) -> bool:
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@lru_cache(maxsize=1024)
def schedule_problem(schedule: str) -> str:
    """What is wrong with a schedule; empty when nothing is."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition(" ")
        name = zone.split("=", 1)[1]
        if not schedule:
            return "invalid schedule format: the time zone is followed by nothing"
        if not _known(name or "UTC"):
            return f"provided bad location {name}: unknown time zone {name}"
        schedule = schedule.strip()
    if schedule.startswith("@"):
        return _descriptor_problem(schedule)
    fields = schedule.split()
    if len(fields) != 5:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for index, field in enumerate(fields):
        for part in field.split(","):
            if part and (wrong := _range_problem(part, index)):
                return wrong
    return ""


def _descriptor_problem(text: str) -> str:
    if text in _DESCRIPTORS:
        return ""
    if text.startswith("@every "):
        duration = text.removeprefix("@every ")
        if _DURATION.fullmatch(duration) or duration == "0":
            return ""
        if re.fullmatch(r"[-+]?\d+(\.\d*)?", duration):
            why = f"time: missing unit in duration {go_quote(duration)}"
        else:
            why = f"time: invalid duration {go_quote(duration)}"
        return f"failed to parse duration {text}: {why}"
    return f"unrecognized descriptor: {text}"


def _range_problem(text: str, index: int) -> str:
    low, high = _BOUNDS[index]
    steps = text.split("/")
    ends = steps[0].split("-")
    start = end = 0
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        value, wrong = _number(ends[0], index)
        if wrong:
            return wrong
        start = end = value
        if len(ends) == 2:
            end, wrong = _number(ends[1], index)
            if wrong:
                return wrong
        elif len(ends) > 2:
            return f"too many hyphens: {text}"
    step = 1
    if len(steps) == 2:
        step, wrong = _plain_number(steps[1])
        if wrong:
            return wrong
        if len(ends) == 1 and ends[0] not in ("*", "?"):
            end = high
    elif len(steps) > 2:
        return f"too many slashes: {text}"
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {text}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {text}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {text}"
    if step == 0:
        return f"step of range should be a positive number: {text}"
    return ""


def _number(text: str, index: int) -> tuple[int, str]:
    named = _NAMES.get(index, {}).get(text.lower())
    return (named, "") if named is not None else _plain_number(text)


def _plain_number(text: str) -> tuple[int, str]:
    if re.fullmatch(r"[+-]?[0-9]+", text):
        value = int(text)
        return (value, "") if value >= 0 else (0, f"negative number ({value}) not allowed: {text}")
    return 0, f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: invalid syntax"
