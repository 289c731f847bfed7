"""Whether a CronJob's schedule and time zone make sense, in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import re
from functools import lru_cache

from modelyard.kube.kinds import Object
from modelyard.kube.schedules import ScheduleError, is_time_zone, parse_schedule
from modelyard.local.apiserver.requests.problems import Cause, invalid_value

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
    if zone != "Local" and not is_time_zone(zone):
        found.append(invalid_value(field, zone, f"unknown time zone {zone}"))
    return found


@lru_cache(maxsize=1024)
def schedule_problem(schedule: str) -> str:
    """What is wrong with a schedule; empty when nothing is."""
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        return str(error)
    return ""
