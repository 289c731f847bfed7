"""The life of an AppWrapper as one table: for each phase, the first row whose condition holds says what comes next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from types import MappingProxyType

from modelyard.kube import conditions
from modelyard.kube.conditions import condition, find_condition
from modelyard.kube.kinds import Object
from modelyard.kube.times import parse_time
from modelyard.operators.codeflare.appwrapper import durations
from modelyard.operators.codeflare.appwrapper.api import (
    DELETING_RESOURCES,
    PODS_READY,
    QUOTA_RESERVED,
    RESOURCES_DEPLOYED,
    UNHEALTHY,
    Phase,
)
from modelyard.operators.codeflare.appwrapper.config import DELETION_ON_FAILURE, Tolerance
from modelyard.operators.codeflare.appwrapper.observe import PodSummary
from modelyard.runtime.declaring.desired import EventNote

SOON, DELETION_POLL, RUNNING_POLL = 1.0, 5.0, 60.0


@dataclass(frozen=True)
class Creation:
    """What came of the attempt to create the components."""

    done: bool = False
    error: str = ""
    fatal: bool = False
    """Another try would end the same way."""


@dataclass(frozen=True)
class Observation:
    """All that the table looks at."""

    now: datetime
    tolerance: Tolerance
    suspended: bool = False
    conditions: Sequence[Object] = ()
    resets: int = 0
    components: int = 0
    deployed: int = 0
    failed_components: int = 0
    expected_pods: int = 0
    pods_to_succeed: int = 0
    pods: PodSummary = field(default_factory=PodSummary)
    left: int = 0
    """Objects and pods of ours that are still there; counted only where they are to go."""
    creation: Creation | None = None
    """Known only after the attempt."""

    def holds(self, type: str) -> bool:
        return conditions.is_true(self.conditions, type)

    def age(self, type: str) -> float:
        """Seconds since a condition became what it is; none: it is new."""
        found = find_condition(self.conditions, type)
        since = (found or {}).get("lastTransitionTime")
        return (self.now - parse_time(since)).total_seconds() if since else 0.0

    def reason(self, type: str) -> str:
        return str((find_condition(self.conditions, type) or {}).get("reason") or "")

    @property
    def has_resources(self) -> bool:
        """May there be objects of ours?"""
        return self.holds(RESOURCES_DEPLOYED)

    @property
    def has_left(self) -> bool:
        return self.has_resources and self.left > 0

    @property
    def force(self) -> bool:
        """Has deletion taken so long that nothing waits any more?"""
        return self.holds(DELETING_RESOURCES) and self.age(DELETING_RESOURCES) > self.tolerance.forceful_deletion

    @property
    def readiness_grace(self) -> float:
        """How much longer pods may take to run, in seconds: counted from the start, or from when they were last ready."""
        present = self.pods.pending + self.pods.running + self.pods.succeeded
        grace = self.tolerance.warmup if present >= self.expected_pods else self.tolerance.admission
        waited = self.age(RESOURCES_DEPLOYED)
        if self.reason(PODS_READY) == "InsufficientPodsReady":
            waited = min(waited, self.age(PODS_READY))
        elif self.holds(PODS_READY):
            waited = 0.0
        return grace - waited


class Act(Enum):
    """What is to be done besides writing the status."""

    NOTHING = "nothing"
    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True)
class Step:
    """What comes next."""

    phase: Phase
    conditions: Sequence[Object] = ()
    """Those that change."""
    act: Act = Act.NOTHING
    events: Sequence[EventNote] = ()
    again: float | None = None
    """Look again after so many seconds."""
    resets: int = 0
    """So many more resets count against the limit."""
    released: bool = False
    """Nothing is left: the AppWrapper may go."""


@dataclass(frozen=True)
class Row:
    """One transition."""

    when: Callable[[Observation], bool]
    then: Callable[[Observation], Step]


def always(seen: Observation) -> bool:
    return True


def step(phase: Phase, seen: Observation) -> Step:
    """The first row of the phase whose condition holds."""
    return next(row.then(seen) for row in TABLE[phase] if row.when(seen))


def _unhealthy(reason: str, message: str = "") -> Object:
    return condition(UNHEALTHY, True, reason, message)


def _told(message: str) -> list[EventNote]:
    return [EventNote("Unhealthy", message)]


def _cleared(seen: Observation, type: str, reason: str) -> list[Object]:
    return [condition(type, False, reason)] if seen.holds(type) else []


def _reset_or_fail(
    seen: Observation, reason: str, message: str, event: str, *, terminal: bool = False, count: int = 1
) -> Step:
    """Another try while the limit allows it."""
    again = not terminal and seen.resets < seen.tolerance.retry_limit
    return Step(
        Phase.RESETTING if again else Phase.FAILED,
        [_unhealthy(reason, message)],
        events=_told(event),
        resets=count if again else 0,
    )


# Suspended, Resuming


def _record(seen: Observation) -> Step:
    return Step(Phase.SUSPENDED)


def _stay(phase: Phase) -> Callable[[Observation], Step]:
    return lambda seen: Step(phase)


def _resume(seen: Observation) -> Step:
    states = {QUOTA_RESERVED: True, RESOURCES_DEPLOYED: True, PODS_READY: False, UNHEALTHY: False}
    marks = [condition(type, state, "Resuming", "Suspend is false") for type, state in states.items()]
    return Step(Phase.RESUMING, marks)


def _suspend(phase: Phase) -> Callable[[Observation], Step]:
    note = EventNote("Suspending", f"Externally suspended while in the {phase} phase")
    return lambda seen: Step(Phase.SUSPENDING, events=[note])


def _create(seen: Observation) -> Step:
    return Step(Phase.RESUMING, act=Act.CREATE)


def _within_admission(seen: Observation) -> bool:
    return seen.age(RESOURCES_DEPLOYED) < seen.tolerance.admission


def _creation_failed(seen: Observation) -> Step:
    assert seen.creation is not None
    said = f"error creating components: {seen.creation.error}"
    # A fatal error uses no try: none would help.
    return _reset_or_fail(seen, "CreateFailed", said, f"CreateFailed: {said}", terminal=seen.creation.fatal)


# Running


def _component_missing(seen: Observation) -> Step:
    said = f"Only found {seen.deployed} deployed components, but was expecting {seen.components}"
    return Step(Phase.FAILED, [_unhealthy("MissingComponent", said)], events=_told(f"MissingComponent: {said}"))


def _component_failed(seen: Observation) -> Step:
    said = f"Found {seen.failed_components} failed components"
    terminal = seen.pods.terminal_failure
    return _reset_or_fail(seen, "FailedComponent", said, f"FailedComponent: {said}", terminal=terminal)


def _has_succeeded(seen: Observation) -> bool:
    pods = seen.pods
    return 0 < seen.pods_to_succeed <= pods.succeeded and not (pods.pending or pods.running or pods.failed)


def _succeed(seen: Observation) -> Step:
    said = f"{seen.pods.succeeded} pods succeeded and no running, pending, or failed pods"
    marks = [
        condition(QUOTA_RESERVED, False, "Succeeded", said),
        condition(RESOURCES_DEPLOYED, True, "Succeeded", said),
    ]
    return Step(Phase.SUCCEEDED, marks)


def _failure_grace(seen: Observation) -> float:
    """How much longer failed pods may stay without a reset."""
    is_known = seen.holds(UNHEALTHY) and seen.reason(UNHEALTHY) == "FoundFailedPods"
    return seen.tolerance.failure - (seen.age(UNHEALTHY) if is_known else 0.0)


def _await_recovery(seen: Observation) -> Step:
    return Step(Phase.RUNNING, [_unhealthy("FoundFailedPods")], again=_failure_grace(seen))


def _pods_failed(seen: Observation) -> Step:
    said, terminal = f"FoundFailedPods: {seen.pods.failed} failed pods", seen.pods.terminal_failure
    return _reset_or_fail(seen, "FoundFailedPods", "", said, terminal=terminal)


def _leave_nodes(seen: Observation) -> Step:
    nodes = " ".join(seen.pods.no_execute_nodes)
    said = f"Workload contains pods using NoExecute resources on Nodes: {nodes}"
    return _reset_or_fail(seen, "AutopilotNoExecute", said, said, count=0)


def _ready(seen: Observation) -> bool:
    return seen.pods.running + seen.pods.succeeded >= seen.expected_pods


def _run(seen: Observation) -> Step:
    said = f"{seen.pods.running} pods running; {seen.pods.succeeded} pods succeeded"
    marks = [
        *_cleared(seen, UNHEALTHY, "FoundNoFailedPods"),
        condition(PODS_READY, True, "SufficientPodsReady", said),
    ]
    return Step(Phase.RUNNING, marks, again=RUNNING_POLL)


def _await_pods(seen: Observation) -> Step:
    marks = _cleared(seen, UNHEALTHY, "FoundNoFailedPods")
    if seen.holds(PODS_READY):
        marks.append(condition(PODS_READY, False, "InsufficientPodsReady", str(seen.pods)))
    return Step(Phase.RUNNING, marks, again=min(DELETION_POLL, seen.readiness_grace))


def _pods_late(seen: Observation) -> Step:
    said, terminal = str(seen.pods), seen.pods.terminal_failure
    return _reset_or_fail(seen, "InsufficientPodsReady", said, f"InsufficientPodsReady: {said}", terminal=terminal)


# What is to go


def _delete(phase: Phase, *types: str) -> Callable[[Observation], Step]:
    """Deletes what is left. Of these conditions, those that hold no longer do, for the reason that names the phase."""

    def then(seen: Observation) -> Step:
        marks = [each for type in types for each in _cleared(seen, type, phase)]
        marks.append(condition(DELETING_RESOURCES, True, "DeletionInitiated"))
        return Step(phase, marks, Act.DELETE, again=DELETION_POLL)

    return then


_DELETED = condition(DELETING_RESOURCES, False, "DeletionComplete")


def _gone(seen: Observation, reason: str, message: str) -> list[Object]:
    """Nothing is left of what was deployed."""
    if not seen.has_resources:
        return _cleared(seen, DELETING_RESOURCES, "DeletionComplete")
    # Also where a pass that deleted was cut off before it could say so.
    return [_DELETED, condition(RESOURCES_DEPLOYED, False, reason, message)]


def _suspended(seen: Observation) -> Step:
    marks = [
        *_gone(seen, "Suspended", "Suspend is true"),
        condition(QUOTA_RESERVED, False, "Suspended", "Suspend is true"),
        *_cleared(seen, PODS_READY, "Suspended"),
        *_cleared(seen, UNHEALTHY, "Suspended"),
    ]
    return Step(Phase.SUSPENDED, marks)


def _pause(seen: Observation) -> float:
    """How much longer a reset pauses: counted from when all was deleted."""
    waited = 0.0 if seen.has_resources else seen.age(RESOURCES_DEPLOYED)
    return seen.tolerance.retry_pause - waited


def _await_retry(seen: Observation) -> Step:
    marks = [
        *_cleared(seen, PODS_READY, "Resetting"),
        *_gone(seen, "Resetting", "Resources deleted for resetting AppWrapper"),
    ]
    return Step(Phase.RESETTING, marks, again=_pause(seen))


def _retry(seen: Observation) -> Step:
    said = "Reset complete; resuming"
    marks = [
        *_cleared(seen, PODS_READY, "Resetting"),
        _DELETED,
        condition(RESOURCES_DEPLOYED, True, "Resuming", said),
        # The next failure is one of its own, with its own grace.
        condition(UNHEALTHY, False, "Resuming", said),
    ]
    return Step(Phase.RESUMING, marks)


def _may_stay(seen: Observation) -> bool:
    """After a failure, are objects kept for people to look at? Not once their deletion has begun."""
    return (
        seen.tolerance.deletion_on_failure > 0
        and not seen.suspended
        and seen.has_resources
        and not seen.holds(DELETING_RESOURCES)
        and _kept_for(seen) > 0
    )


def _kept_for(seen: Observation) -> float:
    paused = seen.reason(DELETING_RESOURCES) == "DeletionPaused"
    return seen.tolerance.deletion_on_failure - (seen.age(DELETING_RESOURCES) if paused else 0.0)


def _keep(seen: Observation) -> Step:
    said = f"{DELETION_ON_FAILURE} has value {durations.text(seen.tolerance.deletion_on_failure)}"
    mark = condition(DELETING_RESOURCES, False, "DeletionPaused", said)
    return Step(Phase.FAILED, [mark], again=_kept_for(seen))


def _failed(seen: Observation) -> Step:
    forced = seen.tolerance.deletion_on_failure > 0 and seen.suspended
    said = (
        "Kueue forced resource deletion by suspending AppWrapper"
        if forced
        else "Resources deleted for failed AppWrapper"
    )
    mark = condition(QUOTA_RESERVED, False, "Failed", "No resources deployed")
    return Step(Phase.FAILED, [*_gone(seen, "Failed", said), mark])


def _time_to_live(seen: Observation) -> float:
    """How much longer the objects of a success stay: counted from the success, when the quota was given back."""
    return seen.tolerance.success_ttl - seen.age(QUOTA_RESERVED)


def _expired(seen: Observation) -> Step:
    ttl = durations.text(seen.tolerance.success_ttl)
    return Step(Phase.SUCCEEDED, _gone(seen, "Succeeded", f"Time to live after success of {ttl} expired"))


def _terminated(seen: Observation) -> Step:
    marks = _gone(seen, "Terminating", "Resources successfully deleted")
    if seen.holds(QUOTA_RESERVED):
        marks.append(condition(QUOTA_RESERVED, False, "Terminating", "No resources deployed"))
    return Step(Phase.TERMINATING, marks, released=True)


TABLE: Mapping[Phase, tuple[Row, ...]] = MappingProxyType(
    {
        Phase.NEW: (Row(always, _record),),
        Phase.SUSPENDED: (
            Row(lambda seen: seen.suspended, _stay(Phase.SUSPENDED)),
            Row(always, _resume),
        ),
        Phase.RESUMING: (
            Row(lambda seen: seen.suspended, _suspend(Phase.RESUMING)),
            Row(lambda seen: seen.creation is None, _create),
            Row(lambda seen: seen.creation is not None and seen.creation.done, _stay(Phase.RUNNING)),
            Row(lambda seen: seen.creation is not None and seen.creation.fatal, _creation_failed),
            Row(_within_admission, lambda seen: Step(Phase.RESUMING, again=SOON)),
            Row(always, _creation_failed),
        ),
        Phase.RUNNING: (
            Row(lambda seen: seen.suspended, _suspend(Phase.RUNNING)),
            Row(lambda seen: seen.deployed != seen.components, _component_missing),
            Row(lambda seen: seen.failed_components > 0, _component_failed),
            Row(_has_succeeded, _succeed),
            Row(lambda seen: seen.pods.failed > 0 and _failure_grace(seen) > 0, _await_recovery),
            Row(lambda seen: seen.pods.failed > 0, _pods_failed),
            Row(lambda seen: bool(seen.pods.no_execute_nodes), _leave_nodes),
            Row(_ready, _run),
            Row(lambda seen: seen.readiness_grace > 0, _await_pods),
            Row(always, _pods_late),
        ),
        Phase.SUSPENDING: (
            Row(lambda seen: seen.has_left, _delete(Phase.SUSPENDING)),
            Row(always, _suspended),
        ),
        Phase.RESETTING: (
            Row(lambda seen: seen.suspended, _suspend(Phase.RESETTING)),
            Row(lambda seen: seen.has_left, _delete(Phase.RESETTING, PODS_READY)),
            Row(lambda seen: seen.has_resources and seen.tolerance.retry_pause > 0, _await_retry),
            Row(lambda seen: not seen.has_resources and _pause(seen) > 0, _await_retry),
            Row(always, _retry),
        ),
        Phase.FAILED: (
            Row(_may_stay, _keep),
            Row(lambda seen: seen.has_left, _delete(Phase.FAILED)),
            Row(lambda seen: seen.has_resources or seen.holds(QUOTA_RESERVED), _failed),
            Row(always, _stay(Phase.FAILED)),
        ),
        Phase.SUCCEEDED: (
            Row(lambda seen: not seen.has_resources, _stay(Phase.SUCCEEDED)),
            Row(
                lambda seen: _time_to_live(seen) > 0,
                lambda seen: Step(Phase.SUCCEEDED, again=_time_to_live(seen)),
            ),
            Row(lambda seen: seen.has_left, _delete(Phase.SUCCEEDED)),
            Row(always, _expired),
        ),
        Phase.TERMINATING: (
            Row(lambda seen: seen.has_left, _delete(Phase.TERMINATING)),
            Row(always, _terminated),
        ),
    }
)
"""For one that is being deleted, the phase is `TERMINATING`, whatever its status says."""


def after_creation(seen: Observation, creation: Creation) -> Step:
    """What comes after the attempt to create."""
    return step(Phase.RESUMING, replace(seen, creation=creation))
