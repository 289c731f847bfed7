"""Cron schedules, in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import pytest

from modelyard.local.apiserver.builtin.schedules import schedule_problem, validate_time_zone


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * *",
        "*/5 0-12/2 1,15 JAN-MAR mon-FRI",
        "@daily",
        "@every 1h30m",
        "? ? ? ? ?",
        "0 0 31 12 6",
        "5/10 * * * *",
    ],
)
def test_good_schedules(schedule: str) -> None:
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("x", "expected exactly 5 fields, found 1: [x]"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("@foo", "unrecognized descriptor: @foo"),
        ("@every 1", 'failed to parse duration @every 1: time: missing unit in duration "1"'),
    ],
)
def test_bad_schedules(schedule: str, problem: str) -> None:
    assert schedule_problem(schedule) == problem


@pytest.mark.parametrize(
    ("zone", "details"),
    [
        (None, []),
        ("Europe/Berlin", []),
        ("UTC", []),
        ("", ["timeZone must be nil or non-empty string"]),
        ("Mars/One", ["unknown time zone Mars/One"]),
        ("../x", ["unknown time zone ../x"]),
        (
            "local",
            [
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                "unknown time zone local",
            ],
        ),
    ],
)
def test_time_zones(zone: str | None, details: list[str]) -> None:
    found = [cause.message.split(": ", 2)[2] for cause in validate_time_zone(zone)]
    assert found == details
