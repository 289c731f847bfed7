"""CronJob: a Job at each time of its schedule, as its concurrency policy allows."""

from __future__ import annotations

from datetime import datetime

from modelyard.kube.builtin import CronJob, Job
from modelyard.kube.conditions import is_true
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.schedules import Schedule, parse_schedule
from modelyard.kube.times import format_time, later, parse_time
from modelyard.runtime.declaring.controller import Controller, Owns
from modelyard.runtime.declaring.desired import Desired, EventNote, Live
from modelyard.runtime.declaring.world import World

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TOO_MANY = 100


def cronjob_controller() -> Controller:
    controller = Controller("cronjob", CronJob, owns=[Owns(Job)])
    controller.reconcile(reconcile)
    return controller


def reconcile(cronjob: Object, world: World) -> Desired:
    spec = cronjob["spec"]
    jobs = world.owned(Job)
    active = [job for job in jobs if not _over(job)]
    old = _beyond_history(
        jobs, int(spec.get("successfulJobsHistoryLimit", 3)), int(spec.get("failedJobsHistoryLimit", 1))
    )
    status = _status(cronjob, jobs, active)
    delete = [_key(job) for job in old]
    try:
        schedule = parse_schedule(spec["schedule"], spec.get("timeZone"))
    except ValueError as error:
        note = EventNote("UnparseableSchedule", f"unparseable schedule: {spec['schedule']!r} : {error}", "Warning")
        return Desired(delete=delete, prune=False, status=status, events=[note])
    if spec.get("suspend"):
        return Desired(delete=delete, prune=False, status=status)

    due, events = _due(cronjob, schedule, world.now)
    wait = _seconds_to_next(schedule, world.now)
    if due is None:
        return Desired(delete=delete, prune=False, status=status, requeue_after=wait, events=events)
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy == "Forbid" and active:
        note = EventNote(
            "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        return Desired(delete=delete, prune=False, status=status, requeue_after=wait, events=[*events, note])
    if policy == "Replace":
        delete += [_key(job) for job in active]
        active = []
    made = _job(cronjob, due)
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": made["metadata"]["namespace"],
        "name": made["metadata"]["name"],
    }

    def after(current: Object, live: Live) -> Object:
        found = live.get(Job, made["metadata"]["namespace"], made["metadata"]["name"])
        if found is None:
            return status
        return {
            **status,
            "active": [*(_reference(job) for job in active), {**reference, "uid": found["metadata"].get("uid", "")}],
            "lastScheduleTime": format_time(due),
        }

    return Desired(
        children=[made],
        delete=delete,
        prune=False,
        status=after,
        events=[*events, EventNote("SuccessfulCreate", f"Created job {made['metadata']['name']}")],
        requeue_after=wait,
    )


def _due(cronjob: Object, schedule: Schedule, now: datetime) -> tuple[datetime | None, list[EventNote]]:
    """The latest scheduled time that has come and has had no Job yet."""
    spec, status = cronjob["spec"], cronjob.get("status") or {}
    since = parse_time(status.get("lastScheduleTime") or cronjob["metadata"]["creationTimestamp"])
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, later(now, -int(deadline)))
    latest, missed, moment = None, 0, since
    while (following := schedule.next_after(moment)) is not None and following <= now:
        latest, moment, missed = following, following, missed + 1
        if missed > _TOO_MANY:
            # Far behind (a laptop that slept): only the last time counts; find it from close by.
            moment = max(moment, now - (following - since) / missed * 2)
            missed = 1
    events = []
    if missed > 1 and status.get("lastScheduleTime"):
        events.append(
            EventNote("MissSchedule", f"Missed {missed - 1} scheduled times before {format_time(now)}", "Warning")
        )
    return latest, events


def _seconds_to_next(schedule: Schedule, now: datetime) -> float | None:
    following = schedule.next_after(now)
    return (following - now).total_seconds() + 0.1 if following else None


def _job(cronjob: Object, due: datetime) -> Object:
    template = cronjob["spec"]["jobTemplate"]
    meta = template.get("metadata") or {}
    name, minute = cronjob["metadata"]["name"], int(due.timestamp()) // 60
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{name}-{minute}",
            "namespace": cronjob["metadata"]["namespace"],
            "labels": meta.get("labels") or {},
            "annotations": {**(meta.get("annotations") or {}), SCHEDULED: format_time(due)},
        },
        "spec": template["spec"],
    }


def _status(cronjob: Object, jobs: list[Object], active: list[Object]) -> Object:
    before = cronjob.get("status") or {}
    status = {k: before[k] for k in ("lastScheduleTime", "lastSuccessfulTime") if before.get(k)}
    if active:
        status["active"] = [_reference(job) for job in active]
    done = [job["status"]["completionTime"] for job in jobs if (job.get("status") or {}).get("completionTime")]
    if done:
        status["lastSuccessfulTime"] = max(
            [*done, *([before["lastSuccessfulTime"]] if before.get("lastSuccessfulTime") else [])]
        )
    return status


def _reference(job: Object) -> Object:
    meta = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
    }


def _over(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions")
    return is_true(conditions, "Complete") or is_true(conditions, "Failed")


def _beyond_history(jobs: list[Object], successes: int, failures: int) -> list[Object]:
    gone: list[Object] = []
    for kind, limit in (("Complete", successes), ("Failed", failures)):
        ended = [job for job in jobs if is_true((job.get("status") or {}).get("conditions"), kind)]
        ended.sort(key=lambda job: (job["status"].get("startTime") or "", job["metadata"]["name"]))
        gone += ended[: max(len(ended) - limit, 0)]
    return gone


def _key(job: Object) -> tuple[Kind, Key]:
    return (Job, Key(job["metadata"]["namespace"], job["metadata"]["name"]))
