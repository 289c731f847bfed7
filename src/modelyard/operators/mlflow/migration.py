"""The migration of the metadata databases as one table: what is observed decides the next step. Pure; nothing here reads or acts.

What was reached so far is in the cluster itself (the Job, the Deployment) and in the condition `Migration`, so that a pass
that is cut off anywhere is taken up by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from modelyard.kube.kinds import Object
from modelyard.kube.times import format_time
from modelyard.operators.mlflow.api import MigrationMode
from modelyard.operators.mlflow.config import version_of
from modelyard.operators.mlflow.facts import FORCE_MIGRATE

PROGRESS_REQUEUE = 300.0
RETRY_DELAY = 120.0
AFTER_DELETE = 2.0

FAILED = "MigrationFailed"
SUCCEEDED = "MigrationSucceeded"
RUNNING = "MigrationRunning"
SCALING_DOWN = "MigrationScalingDown"
RETRYING = "MigrationRetrying"
RESTART = "MigrationRestartRequested"
ROLLOUT = "MigrationRollout"
PREFLIGHT = "MigrationPreflight"
INCOMPLETE = "MigrationReferencesMissing"
IMAGE_MISMATCH = "MigrationImageMismatch"
DOWNGRADE = "MigrationDowngradeRefused"

_FORCED = {
    reason: f"Force{reason}"
    for reason in (RUNNING, SCALING_DOWN, RESTART, ROLLOUT, PREFLIGHT, IMAGE_MISMATCH, INCOMPLETE)
}

_NEVER_BEGAN = frozenset((DOWNGRADE, IMAGE_MISMATCH, _FORCED[IMAGE_MISMATCH]))
"""Refusals that left everything as it was: once nobody asks any more, there is nothing to finish."""


class JobState(Enum):
    ABSENT = "absent"
    RUNNING = "running"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


@dataclass(frozen=True)
class JobSeen:
    """A Job as far as the migration cares."""

    name: str
    state: JobState = JobState.ABSENT
    failure: str = ""
    """Why it failed, without anything that a database said."""
    terminal: bool = False
    """Another try would fail the same way."""
    exit_code: int | None = None
    failed_at: datetime | None = None
    waiting: str = ""
    """Why its pod does not start, if it does not."""


@dataclass(frozen=True)
class Observed:
    """All that the next step depends on."""

    generation: int
    mode: MigrationMode
    version: str
    """The version whose migration and rollout were last completed."""
    supported: str
    image: str
    forced: bool
    condition: Object | None
    """The condition `Migration` as it is recorded."""
    job: JobSeen
    preflight: JobSeen
    now: datetime
    remaining: int = 0
    """Server pods that still exist."""
    remaining_pods: tuple[str, ...] = ()
    """Their names, as far as they are known."""
    asks_for_pods: bool = False
    """The Deployment wants a server."""
    scaled_down: bool = True
    """It wants none, and its controller has seen that."""
    other_job: str = ""
    """An unfinished migration Job of another generation."""
    image_vouched: bool = True
    """The image is known to hold the supported version."""
    missing: str = ""
    """Secrets and ConfigMaps that were there before, and without which neither a migration nor a server can start."""
    image_from_spec: bool = False
    """The author chose the image, and not who runs the operator."""

    @property
    def recorded(self) -> Object | None:
        """The condition, if it is about this generation."""
        condition = self.condition
        return condition if condition and condition.get("observedGeneration") == self.generation else None

    @property
    def recorded_reason(self) -> str:
        return str((self.recorded or {}).get("reason") or "")

    @property
    def serving(self) -> bool:
        return self.remaining > 0 or not self.scaled_down

    @property
    def success_recorded(self) -> bool:
        """The success of this very Job has been recorded, so that the Job itself is needed no more."""
        recorded = self.recorded or {}
        return self.recorded_reason in (ROLLOUT, _FORCED[ROLLOUT]) and recorded.get("message") == rollout_message(self)


class Scale(Enum):
    """What a step asks of the server's Deployment."""

    FULL = "full"
    ZERO = "zero"
    LEAVE = "leave"


class MigrationState(Enum):
    """What a step says of the migration."""

    NONE = "none"
    """Nothing to migrate."""
    PROGRESS = "progress"
    FAILURE = "failure"
    ROLLOUT = "rollout"
    """The databases are migrated; the server has to come up."""


class JobAction(Enum):
    NOTHING = "nothing"
    CREATE = "create"
    DELETE = "delete"
    CREATE_PREFLIGHT = "create preflight"
    DELETE_PREFLIGHT = "delete preflight"


@dataclass(frozen=True)
class Step:
    """What to do now and what to say about it."""

    verdict: MigrationState
    scale: Scale
    reason: str = ""
    message: str = ""
    action: JobAction = JobAction.NOTHING
    requeue: float | None = None
    warning: str = ""
    """Said to people besides, when something takes too long."""

    @property
    def makes_job(self) -> bool:
        return self.action in (JobAction.CREATE, JobAction.CREATE_PREFLIGHT)


@dataclass(frozen=True)
class Transition:
    """One row: in this state, do that."""

    state: str
    when: Callable[[Observed], bool]
    then: Callable[[Observed], Step]


def next_step(observed: Observed) -> Step:
    """The step of the first row whose state is the present one."""
    return next(row.then(observed) for row in TRANSITIONS if row.when(observed))


def state_of(observed: Observed) -> str:
    return next(row.state for row in TRANSITIONS if row.when(observed))


# When is a migration asked for, and why


def is_requested(o: Observed) -> bool:
    if o.forced or o.version != o.supported:
        return True
    if o.recorded is not None and o.recorded_reason not in _NEVER_BEGAN:
        return o.recorded.get("status") != "True"
    return _failed_before(o) or o.mode == "Always"


def trigger(o: Observed) -> str:
    """Why there is a migration, in words."""
    if o.forced:
        return f"the {FORCE_MIGRATE} annotation is present"
    if not o.version:
        detail = "status.version is empty during bootstrap"
    elif o.version != o.supported:
        detail = f'status.version="{o.version}" does not match supported version {o.supported}'
    else:
        detail = f"the migration for generation {o.generation} has not completed yet"
    if o.mode == "Always":
        return f"spec.migration.mode=Always and desired generation {o.generation} has not completed migration yet"
    return detail


def _failed_before(o: Observed) -> bool:
    condition = o.condition or {}
    return condition.get("status") == "False" and condition.get("reason") == FAILED


def _is_downgrade(o: Observed) -> bool:
    was, now = version_of(o.version), version_of(o.supported)
    return not o.forced and was is not None and now is not None and now < was


def _is_forced_reason(o: Observed) -> bool:
    return o.recorded_reason in _FORCED.values()


def _retry_at(o: Observed, job: JobSeen) -> datetime:
    return (job.failed_at or o.now) + timedelta(seconds=RETRY_DELAY)


def _would_stop_a_server(o: Observed) -> bool:
    return o.remaining > 0 or o.asks_for_pods


def _needs_preflight(o: Observed) -> bool:
    """Would a server be stopped for an image that nobody knows?"""
    return _would_stop_a_server(o) and not o.image_vouched and o.preflight.state is not JobState.SUCCEEDED


def _progress(
    o: Observed,
    reason: str,
    message: str,
    *,
    action: JobAction = JobAction.NOTHING,
    requeue: float = PROGRESS_REQUEUE,
    scale: Scale = Scale.ZERO,
    warning: str = "",
) -> Step:
    name = _FORCED.get(reason, reason) if o.forced else reason
    return Step(MigrationState.PROGRESS, scale, name, message, action, requeue, warning)


def _idle(o: Observed) -> Step:
    return Step(MigrationState.NONE, Scale.FULL)


def _roll_out(o: Observed) -> Step:
    reason = _FORCED[ROLLOUT] if o.forced or o.recorded_reason == _FORCED[ROLLOUT] else ROLLOUT
    return Step(MigrationState.ROLLOUT, Scale.FULL, reason, rollout_message(o))


def rollout_message(o: Observed) -> str:
    return f"Migration Job {o.job.name} succeeded; waiting for the MLflow rollout"


def _refuse_downgrade(o: Observed) -> Step:
    message = (
        f"status.version {o.version} is newer than the supported version {o.supported}, and a database schema cannot go "
        f"back; the server is left as it is. Run an operator that supports {o.version}, or restore a backup and add the "
        f"{FORCE_MIGRATE} annotation to the MLflow resource"
    )
    return Step(MigrationState.FAILURE, Scale.LEAVE, DOWNGRADE, message)


def _give_up(o: Observed) -> Step:
    message = (
        f"{o.job.failure.removesuffix('.')}. After fixing the issue, add the {FORCE_MIGRATE} annotation to the MLflow "
        "resource to force a rerun."
    )
    return Step(MigrationState.FAILURE, Scale.ZERO, FAILED, message)


def _stay_failed(o: Observed) -> Step:
    return Step(MigrationState.FAILURE, Scale.ZERO, FAILED, str((o.condition or {}).get("message") or ""))


def _retry_message(job: JobSeen, at: datetime) -> str:
    return (
        f"{job.failure} Retrying automatically after {format_time(at)}. If you want to rerun immediately after fixing the "
        f"issue, add the {FORCE_MIGRATE} annotation."
    )


def _wait_for_retry(o: Observed) -> Step:
    at = _retry_at(o, o.job)
    wait = max((at - o.now).total_seconds(), 0.0)
    return _progress(o, RETRYING, _retry_message(o.job, at), requeue=wait)


def _retry(o: Observed) -> Step:
    at = o.now + timedelta(seconds=AFTER_DELETE)
    return _progress(o, RETRYING, _retry_message(o.job, at), action=JobAction.DELETE, requeue=AFTER_DELETE)


def _restart(o: Observed) -> Step:
    what = "failed" if o.job.state is JobState.FAILED else "completed"
    message = (
        f"Deleted {what} migration Job {o.job.name} so the force-migrate annotation can create a fresh Job with the same "
        f"generated name because {trigger(o)}"
    )
    return _progress(
        o, RESTART, message, action=JobAction.DELETE, scale=Scale.LEAVE if _needs_preflight(o) else Scale.ZERO
    )


def _wait_for_references(o: Observed) -> Step:
    message = f"{o.missing}; the server is left as it is until that is restored, and then migrated because {trigger(o)}"
    return _progress(o, INCOMPLETE, message, scale=Scale.LEAVE)


def _check_image(o: Observed) -> Step:
    message = (
        f"Checking that image {o.image} holds MLflow {o.supported} before the server is stopped because {trigger(o)}"
    )
    return _progress(o, PREFLIGHT, message, action=JobAction.CREATE_PREFLIGHT, scale=Scale.LEAVE)


def _wait_for_check(o: Observed) -> Step:
    message = f"Waiting for Job {o.preflight.name} to tell whether image {o.image} holds MLflow {o.supported} because {trigger(o)}"
    if o.preflight.waiting:
        message += f": {o.preflight.waiting}"
    return _progress(o, PREFLIGHT, message, scale=Scale.LEAVE)


def _refuse_image(o: Observed) -> Step:
    remedy = (
        f"Set spec.image.image to an image with MLflow {o.supported}, or remove it to use the operator's"
        if o.image_from_spec
        else "Set the operator's MLFLOW_IMAGE and MLFLOW_VERSION to an image and the MLflow version in it"
    )
    message = (
        f"image {o.image} does not hold MLflow {o.supported}; the server is left as it is. {remedy}. If the image has "
        f"changed under its name, add the {FORCE_MIGRATE} annotation to ask it again."
    )
    return Step(MigrationState.FAILURE, Scale.LEAVE, _FORCED[IMAGE_MISMATCH] if o.forced else IMAGE_MISMATCH, message)


def _ask_again(o: Observed) -> Step:
    message = f"Asking image {o.image} once more whether it holds MLflow {o.supported} because {trigger(o)}"
    return _progress(o, PREFLIGHT, message, action=JobAction.DELETE_PREFLIGHT, requeue=AFTER_DELETE, scale=Scale.LEAVE)


def _recheck_image(o: Observed) -> Step:
    at = _retry_at(o, o.preflight)
    wait = max((at - o.now).total_seconds(), 0.0)
    message = (
        f"Could not ask image {o.image} for its MLflow version: {o.preflight.failure}. The server is left as it is; "
        f"next try after {format_time(at)}"
    )
    action = JobAction.NOTHING if wait else JobAction.DELETE_PREFLIGHT
    return _progress(o, PREFLIGHT, message, action=action, requeue=wait or AFTER_DELETE, scale=Scale.LEAVE)


def _scale_down(o: Observed) -> Step:
    named = f" ({', '.join(o.remaining_pods)})" if o.remaining_pods else ""
    left = f"{o.remaining} replicas remain{named}" if o.remaining else "the scale-down has not been observed yet"
    message = f"Waiting for MLflow pods to quiesce before migration: {left} because {trigger(o)}"
    return _progress(o, SCALING_DOWN, message)


def _wait_for_other(o: Observed) -> Step:
    message = (
        f"Waiting for migration Job {o.other_job} from a previous desired generation to finish because {trigger(o)}"
    )
    return _progress(o, RUNNING, message)


def _create(o: Observed) -> Step:
    message = f"Created migration Job {o.job.name} because {trigger(o)}"
    return _progress(o, RUNNING, message, action=JobAction.CREATE)


def _wait(o: Observed) -> Step:
    message = f"Waiting for migration Job {o.job.name} to finish because {trigger(o)}"
    warning = ""
    if o.job.waiting:
        message += f": {o.job.waiting}"
        warning = f"Migration Job {o.job.name} does not start: {o.job.waiting}"
    return _progress(o, RUNNING, message, warning=warning)


def _job_is(state: JobState) -> Callable[[Observed], bool]:
    return lambda o: o.job.state is state


TRANSITIONS: tuple[Transition, ...] = (
    Transition("not requested", lambda o: not is_requested(o), _idle),
    Transition("downgrade", _is_downgrade, _refuse_downgrade),
    Transition(
        "failed for good", lambda o: o.job.state is JobState.FAILED and not o.forced and o.job.terminal, _give_up
    ),
    Transition(
        "failed, too early to retry",
        lambda o: o.job.state is JobState.FAILED and not o.forced and o.now < _retry_at(o, o.job),
        _wait_for_retry,
    ),
    Transition("failed, to be retried", lambda o: o.job.state is JobState.FAILED and not o.forced, _retry),
    Transition("forced after a failure", _job_is(JobState.FAILED), _restart),
    Transition(
        "forced after a success",
        lambda o: (
            o.forced
            and o.job.state is JobState.SUCCEEDED
            and (not _is_forced_reason(o) or o.recorded_reason == _FORCED[RESTART])
        ),
        _restart,
    ),
    Transition("succeeded", _job_is(JobState.SUCCEEDED), _roll_out),
    Transition(
        "succeeded, the Job is gone",
        lambda o: o.job.state is JobState.ABSENT and o.success_recorded and (not o.forced or _is_forced_reason(o)),
        _roll_out,
    ),
    Transition("failed for good before", lambda o: _failed_before(o) and not o.forced, _stay_failed),
    Transition("references missing", lambda o: bool(o.missing) and _would_stop_a_server(o), _wait_for_references),
    Transition(
        "image not checked", lambda o: _needs_preflight(o) and o.preflight.state is JobState.ABSENT, _check_image
    ),
    Transition(
        "image being checked", lambda o: _needs_preflight(o) and o.preflight.state is JobState.RUNNING, _wait_for_check
    ),
    Transition(
        "image refused, to be asked again",
        lambda o: (
            _needs_preflight(o) and o.preflight.exit_code == 10 and o.forced and o.recorded_reason == IMAGE_MISMATCH
        ),
        _ask_again,
    ),
    Transition("image refused", lambda o: _needs_preflight(o) and o.preflight.exit_code == 10, _refuse_image),
    Transition("image cannot be checked", _needs_preflight, _recheck_image),
    Transition("server still up", lambda o: o.serving, _scale_down),
    Transition("older Job runs", lambda o: o.job.state is JobState.ABSENT and bool(o.other_job), _wait_for_other),
    Transition("ready to migrate", _job_is(JobState.ABSENT), _create),
    Transition("migrating", lambda o: True, _wait),
)
"""Read from top to bottom: the first state that holds is the present one."""
