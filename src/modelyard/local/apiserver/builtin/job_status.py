"""How a Job's status may move: what a finished Job must have, and what may never go back."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.requests.problems import Cause, invalid_value, required

_CONDITIONS = "status.conditions"


class _Facts:
    """What the rules ask of one status."""

    def __init__(self, obj: Object) -> None:
        status = obj.get("status") or {}
        true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
        self.complete = "Complete" in true
        self.failed = "Failed" in true
        self.failing = "FailureTarget" in true
        self.succeeding = "SuccessCriteriaMet" in true
        self.suspended = "Suspended" in true
        self.finished = self.complete or self.failed
        self.true = true
        self.active = status.get("active", 0)
        self.start, self.end = status.get("startTime"), status.get("completionTime")
        self.completed_indexes = status.get("completedIndexes", "")
        self.failed_indexes = status.get("failedIndexes")
        self.uncounted = status.get("uncountedTerminatedPods") or {}
        self.terminating = status.get("terminating")
        self.ready = status.get("ready")
        self.status = status


def _conflict(detail: str) -> Cause:
    return Cause(_CONDITIONS, "FieldValueInvalid", f"Invalid value: {detail}")


def job_status(new: Object, old: Object) -> list[Cause]:
    now, was = _Facts(new), _Facts(old)
    found: list[Cause] = []
    for name in ("active", "succeeded", "failed", "ready", "terminating"):
        found += checks.not_negative_if_set(now.status, name, "status")
    found += _ending(now, was)
    found += _finished(new, now, was)
    found += _indexes(new, now, was)
    if now.terminating and now.finished and (now.finished != was.finished or now.terminating != was.terminating):
        found.append(invalid_value("status.terminating", now.terminating, "terminating>0 is invalid for finished job"))
    if now.ready is not None and now.ready > now.active and (now.ready != was.ready or now.active != was.active):
        found.append(invalid_value("status.ready", now.ready, "cannot set more ready pods than active"))
    if now.succeeding and now.failed:
        found.append(_conflict("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if now.succeeding and now.failing:
        found.append(_conflict("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if new["spec"].get("successPolicy") is not None and not now.succeeding and now.complete:
        found.append(_conflict("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"))
    return found + _transition(new, now, was)


def _ending(now: _Facts, was: _Facts) -> list[Cause]:
    found: list[Cause] = []
    complete_moved = now.complete != was.complete
    end_moved = complete_moved or now.end != was.end
    if now.complete and now.failed and (complete_moved or now.failed != was.failed):
        found.append(_conflict("cannot set Complete=True and Failed=true conditions"))
    if now.complete and now.failing and (complete_moved or now.failing != was.failing):
        found.append(_conflict("cannot set Complete=True and FailureTarget=true conditions"))
    if now.end and not now.complete and end_moved:
        detail = "cannot set completionTime when there is no Complete=True condition"
        found.append(invalid_value("status.completionTime", now.end, detail))
    if now.complete and not now.end and end_moved:
        found.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if now.start and now.end and now.end < now.start and (now.start != was.start or now.end != was.end):
        found.append(invalid_value("status.completionTime", now.end, "must be equal to or after `startTime`"))
    if now.failed and not now.failing and (now.failed != was.failed or now.failed_indexes != was.failed_indexes):
        found.append(_conflict("cannot set Failed=True condition without the FailureTarget=true condition"))
    if now.complete and not now.succeeding and (complete_moved or now.succeeding != was.succeeding):
        found.append(_conflict("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
    return found


def _finished(new: Object, now: _Facts, was: _Facts) -> list[Cause]:
    if not now.finished:
        return []
    found: list[Cause] = []
    moved = now.finished != was.finished
    if now.active > 0 and (moved or now.active != was.active):
        found.append(invalid_value("status.active", now.active, "active>0 is invalid for finished job"))
    never_ran = new["spec"].get("suspend") is True and new["spec"].get("completions") == 0
    if not now.start and (moved or now.start != was.start) and not never_ran:
        found.append(required("status.startTime", "startTime is required for finished job"))
    if (now.uncounted.get("succeeded") or now.uncounted.get("failed")) and (moved or now.uncounted != was.uncounted):
        detail = "must be empty for finished job"
        found.append(invalid_value("status.uncountedTerminatedPods", now.uncounted, detail))
    return found


def _indexes(new: Object, now: _Facts, was: _Facts) -> list[Cause]:
    found: list[Cause] = []
    indexed = new["spec"].get("completionMode") == "Indexed"
    if now.completed_indexes and not indexed and now.completed_indexes != was.completed_indexes:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.append(invalid_value("status.completedIndexes", now.completed_indexes, detail))
    limited = new["spec"].get("backoffLimitPerIndex") is not None
    if now.failed_indexes is not None and not limited and now.failed_indexes != was.failed_indexes:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.append(invalid_value("status.failedIndexes", now.failed_indexes, detail))
    return found


def _transition(new: Object, now: _Facts, was: _Facts) -> list[Cause]:
    found = [
        _conflict(f"cannot disable the terminal {name}=True condition")
        for name in ("Failed", "Complete", "FailureTarget")
        if name in was.true and name not in now.true
    ]
    if now.status.get("failed", 0) < was.status.get("failed", 0):
        found.append(invalid_value("status.failed", now.status.get("failed", 0), "cannot decrease the failed counter"))
    spec = new["spec"]
    scalable = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not scalable and now.status.get("succeeded", 0) < was.status.get("succeeded", 0):
        detail = "cannot decrease the succeeded counter"
        found.append(invalid_value("status.succeeded", now.status.get("succeeded", 0), detail))
    if now.end and was.end and now.end != was.end:
        found.append(invalid_value("status.completionTime", now.end, checks.IMMUTABLE))
    resuming = was.suspended and not now.suspended
    if was.start and now.start != was.start and not spec.get("suspend") and not resuming:
        detail = "field is immutable for unsuspended job once set"
        found.append(invalid_value("status.startTime", now.start, detail))
    if was.succeeding and not now.succeeding:
        found.append(_conflict("cannot disable the SuccessCriteriaMet=True condition"))
    if was.complete and not was.succeeding and now.succeeding:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        found.append(_conflict(detail))
    return found
