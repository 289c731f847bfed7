"""Cron schedules: what Kubernetes takes, and what is wrong with the rest."""

from __future__ import annotations

import pytest

from modelyard.operators.parts.cron import schedule_problem


@pytest.mark.parametrize(
    "schedule",
    ["0 2 * * 0", "*/5 * * * *", "0 0,12 1-15/2 jan-MAR mon", "? ? ? ? ?", "@daily", "@every 1h30m", " 0  2 * * 6 "],
)
def test_good_schedules(schedule: str) -> None:
    assert schedule_problem(schedule) is None


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("", "expected exactly 5 fields, found 0"),
        ("0 2 * *", "expected exactly 5 fields, found 4"),
        ("60 * * * *", "minute: end of range (60) above maximum (59): 60"),
        ("0 2 * * 7", "day of week: end of range (7) above maximum (6): 7"),
        ("0 2 0 * *", "day of month: beginning of range (0) below minimum (1): 0"),
        ("0 2 * xyz *", "month: failed to parse int from xyz"),
        ("0 5-2 * * *", "hour: beginning of range (5) beyond end of range (2): 5-2"),
        ("*/0 * * * *", "minute: step of range should be a positive number: */0"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        (" @daily", "expected exactly 5 fields, found 1: [@daily]"),
        ("TZ=UTC 0 2 * * *", "a time zone cannot be part of the schedule"),
    ],
)
def test_bad_schedules_are_explained(schedule: str, said: str) -> None:
    assert said in (schedule_problem(schedule) or "")
