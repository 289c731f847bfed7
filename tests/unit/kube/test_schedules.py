"""Cron schedules: when they are due, and what is wrong with them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from modelyard.kube.schedules import ScheduleError, parse_schedule


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "expected"),
    [
        ("0 9 * * 1-5", None, "2026-01-02T10:00:00", "2026-01-05T09:00:00"),
        ("0 0 1 * *", None, "2026-01-31T00:00:00", "2026-02-01T00:00:00"),
        ("@hourly", None, "2026-01-01T00:30:00", "2026-01-01T01:00:00"),
        ("0 0 29 2 *", None, "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00", "2026-03-30T00:30:00"),
        ("0 12 * * *", "America/New_York", "2026-01-01T00:00:00", "2026-01-01T17:00:00"),
        ("0 0 13 * 5", None, "2026-01-01T12:00:00", "2026-01-02T00:00:00"),
        ("5/20 * * * *", None, "2026-01-01T00:06:00", "2026-01-01T00:25:00"),
        ("@every 1h30m", None, "2026-01-01T00:00:00", "2026-01-01T01:30:00"),
        ("@every 90.5s", None, "2026-01-01T00:00:00", "2026-01-01T00:01:30"),
        ("@every -5m", None, "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
        ("CRON_TZ=Europe/Berlin 0 12 * * *", None, "2026-01-01T00:00:00", "2026-01-01T11:00:00"),
        # A step closes the field: every second day, and Mondays as well.
        ("0 0 */2 * 1", None, "2026-01-03T00:00:00", "2026-01-05T00:00:00"),
        ("0 0 */2 * 1", None, "2026-01-11T00:00:00", "2026-01-12T00:00:00"),
        ("0 0 1,,3 * *", None, "2026-01-01T00:00:00", "2026-01-03T00:00:00"),
    ],
)
def test_schedules(schedule: str, zone: str | None, after: str, expected: str) -> None:
    found = parse_schedule(schedule, zone).next_after(datetime.fromisoformat(after).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_a_day_that_never_comes_gives_nothing() -> None:
    assert parse_schedule("0 0 30 2 *").next_after(datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("schedule", "part"),
    [
        ("* * * *", "exactly 5 fields"),
        ("61 * * * *", "above maximum"),
        ("* * * foo *", "int from foo"),
        ("5-1 * * * *", "beyond end of range"),
        ("@every soon", 'invalid duration "soon"'),
        ("TZ=Mars/One 0 0 * * *", "unknown time zone Mars/One"),
    ],
)
def test_a_bad_schedule_says_what_is_wrong(schedule: str, part: str) -> None:
    with pytest.raises(ScheduleError, match=part):
        parse_schedule(schedule)
