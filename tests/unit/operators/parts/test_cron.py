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
        ("", "it has 0 fields"),
        ("0 2 * *", "it has 4 fields"),
        ("60 * * * *", "minute 60: not between 0 and 59"),
        ("0 2 * * 7", "day of week 7: not between 0 and 6"),
        ("0 2 0 * *", "day of month 0: not between 1 and 31"),
        ("0 2 * xyz *", "month xyz: not a number"),
        ("0 5-2 * * *", "hour 5-2: the range ends before it begins"),
        ("*/0 * * * *", "minute */0: a step is a number above 0"),
        ("@sometimes", "@sometimes is not a known word"),
        ("TZ=UTC 0 2 * * *", "a time zone cannot be part of the schedule"),
    ],
)
def test_bad_schedules_are_explained(schedule: str, said: str) -> None:
    assert said in (schedule_problem(schedule) or "")
