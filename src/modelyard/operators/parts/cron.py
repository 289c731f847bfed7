"""What is wrong with the schedule of a CronJob, said before the API server refuses it. Pure."""

from __future__ import annotations

from modelyard.kube.schedules import ScheduleError, parse_schedule


def schedule_problem(schedule: str) -> str | None:
    """What is wrong with a schedule, in words; None where nothing is."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        return "a time zone cannot be part of the schedule"
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        return f"{error.field}: {error}" if error.field else str(error)
    return None
