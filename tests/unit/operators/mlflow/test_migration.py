"""The table of migration steps: one case a row, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelyard.kube.conditions import ConditionStatus, condition
from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.migration import (
    TRANSITIONS,
    JobAction,
    JobSeen,
    JobState,
    MigrationState,
    Observed,
    Scale,
    is_requested,
    next_step,
    rollout_message,
    state_of,
    trigger,
)

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ABSENT, RUNNING, FAILED, SUCCEEDED = JobState.ABSENT, JobState.RUNNING, JobState.FAILED, JobState.SUCCEEDED
BASE = Observed(
    generation=1,
    mode="Automatic",
    version="",
    supported="3.14.0",
    image="me/mlflow:1",
    forced=False,
    condition=None,
    job=JobSeen("mlflow-mg-3140-g1"),
    preflight=JobSeen("mlflow-pf-3140-g1-12345678"),
    now=NOW,
)


def job(state: JobState, **more: Any) -> JobSeen:
    return JobSeen(BASE.job.name, state, **more)


def recorded(reason: str, status: ConditionStatus = "Unknown", generation: int = 1, message: str = "") -> Object:
    return condition("Migration", status, reason, message, observed_generation=generation)


def failed(ago: float = 0.0, **more: Any) -> JobSeen:
    return job(FAILED, failure="it broke.", failed_at=NOW - timedelta(seconds=ago), **more)


ROLLOUT = recorded("MigrationRollout", message=rollout_message(BASE))
SETTLED = {"version": "3.14.0", "condition": recorded("MigrationSucceeded", "True")}
UP = {"version": "3.9.0", "remaining": 1, "scaled_down": False}
UNKNOWN_IMAGE = {**UP, "image_vouched": False}

CASES: list[tuple[str, dict[str, Any], str, Scale, JobAction, float | None]] = [
    ("not requested", SETTLED, "", Scale.FULL, JobAction.NOTHING, None),
    ("downgrade", {"version": "3.15.0"}, "MigrationDowngradeRefused", Scale.LEAVE, JobAction.NOTHING, None),
    ("failed for good", {"job": failed(terminal=True)}, "MigrationFailed", Scale.ZERO, JobAction.NOTHING, None),
    ("failed, too early to retry", {"job": failed(30)}, "MigrationRetrying", Scale.ZERO, JobAction.NOTHING, 90.0),
    ("failed, to be retried", {"job": failed(120)}, "MigrationRetrying", Scale.ZERO, JobAction.DELETE, 2.0),
    (
        "forced after a failure",
        {"job": failed(terminal=True), "forced": True},
        "ForceMigrationRestartRequested",
        Scale.ZERO,
        JobAction.DELETE,
        300.0,
    ),
    (
        "forced after a success",
        {"job": job(SUCCEEDED), "forced": True},
        "ForceMigrationRestartRequested",
        Scale.ZERO,
        JobAction.DELETE,
        300.0,
    ),
    (
        "forced after a success",
        {**UNKNOWN_IMAGE, "job": job(SUCCEEDED), "forced": True},
        "ForceMigrationRestartRequested",
        Scale.LEAVE,
        JobAction.DELETE,
        300.0,
    ),
    (
        "forced after a success",
        {"job": job(SUCCEEDED), "forced": True, "condition": recorded("ForceMigrationRestartRequested")},
        "ForceMigrationRestartRequested",
        Scale.ZERO,
        JobAction.DELETE,
        300.0,
    ),
    ("succeeded", {"job": job(SUCCEEDED)}, "MigrationRollout", Scale.FULL, JobAction.NOTHING, None),
    (
        "succeeded",
        {"job": job(SUCCEEDED), "forced": True, "condition": recorded("ForceMigrationRunning")},
        "ForceMigrationRollout",
        Scale.FULL,
        JobAction.NOTHING,
        None,
    ),
    ("succeeded, the Job is gone", {"condition": ROLLOUT}, "MigrationRollout", Scale.FULL, JobAction.NOTHING, None),
    (
        "failed for good before",
        {"condition": recorded("MigrationFailed", "False", 7, "as before")},
        "MigrationFailed",
        Scale.ZERO,
        JobAction.NOTHING,
        None,
    ),
    (
        "references missing",
        {**UNKNOWN_IMAGE, "missing": "Secret db does not exist"},
        "MigrationReferencesMissing",
        Scale.LEAVE,
        JobAction.NOTHING,
        300.0,
    ),
    ("image not checked", UNKNOWN_IMAGE, "MigrationPreflight", Scale.LEAVE, JobAction.CREATE_PREFLIGHT, 300.0),
    (
        "image being checked",
        {**UNKNOWN_IMAGE, "preflight": job(RUNNING)},
        "MigrationPreflight",
        Scale.LEAVE,
        JobAction.NOTHING,
        300.0,
    ),
    (
        "image refused, to be asked again",
        {
            **UNKNOWN_IMAGE,
            "preflight": failed(exit_code=10),
            "forced": True,
            "condition": recorded("MigrationImageMismatch", "False"),
        },
        "ForceMigrationPreflight",
        Scale.LEAVE,
        JobAction.DELETE_PREFLIGHT,
        2.0,
    ),
    (
        "image refused",
        {
            **UNKNOWN_IMAGE,
            "preflight": failed(exit_code=10),
            "forced": True,
            "condition": recorded("ForceMigrationPreflight"),
        },
        "ForceMigrationImageMismatch",
        Scale.LEAVE,
        JobAction.NOTHING,
        None,
    ),
    (
        "image refused",
        {**UNKNOWN_IMAGE, "preflight": failed(exit_code=10)},
        "MigrationImageMismatch",
        Scale.LEAVE,
        JobAction.NOTHING,
        None,
    ),
    (
        "image cannot be checked",
        {**UNKNOWN_IMAGE, "preflight": failed(20)},
        "MigrationPreflight",
        Scale.LEAVE,
        JobAction.NOTHING,
        100.0,
    ),
    (
        "image cannot be checked",
        {**UNKNOWN_IMAGE, "preflight": failed(120)},
        "MigrationPreflight",
        Scale.LEAVE,
        JobAction.DELETE_PREFLIGHT,
        2.0,
    ),
    ("server still up", UP, "MigrationScalingDown", Scale.ZERO, JobAction.NOTHING, 300.0),
    (
        "server still up",
        {**UNKNOWN_IMAGE, "preflight": job(SUCCEEDED)},
        "MigrationScalingDown",
        Scale.ZERO,
        JobAction.NOTHING,
        300.0,
    ),
    ("older Job runs", {"other_job": "mlflow-mg-390-g1"}, "MigrationRunning", Scale.ZERO, JobAction.NOTHING, 300.0),
    ("ready to migrate", {}, "MigrationRunning", Scale.ZERO, JobAction.CREATE, 300.0),
    ("ready to migrate", {"forced": True}, "ForceMigrationRunning", Scale.ZERO, JobAction.CREATE, 300.0),
    ("migrating", {"job": job(RUNNING)}, "MigrationRunning", Scale.ZERO, JobAction.NOTHING, 300.0),
]


@pytest.mark.parametrize(("state", "seen", "reason", "scale", "action", "requeue"), CASES)
def test_each_state_has_its_step(
    state: str, seen: dict[str, Any], reason: str, scale: Scale, action: JobAction, requeue: float | None
) -> None:
    observed = replace(BASE, **seen)
    step = next_step(observed)
    assert state_of(observed) == state
    assert (step.reason, step.scale, step.action, step.requeue) == (reason, scale, action, requeue)


def test_every_row_is_reached() -> None:
    assert {row.state for row in TRANSITIONS} == {case[0] for case in CASES}


@pytest.mark.parametrize(
    ("seen", "requested"),
    [
        ({}, True),
        (SETTLED, False),
        ({**SETTLED, "forced": True}, True),
        ({**SETTLED, "mode": "Always"}, False),
        ({**SETTLED, "mode": "Always", "generation": 2}, True),
        ({**SETTLED, "generation": 2}, False),
        ({"version": "3.14.0", "condition": recorded("MigrationRunning")}, True),
        ({"version": "3.14.0", "condition": recorded("MigrationFailed", "False", 0)}, True),
        ({"version": "3.14.0", "condition": recorded("MigrationDowngradeRefused", "False")}, False),
        ({"version": "3.14.0", "condition": recorded("MigrationImageMismatch", "False")}, False),
        ({"version": "3.14.0", "condition": recorded("ForceMigrationImageMismatch", "False")}, False),
        ({"version": "3.14.0", "mode": "Always", "condition": recorded("MigrationImageMismatch", "False")}, True),
    ],
)
def test_when_a_migration_is_asked_for(seen: dict[str, Any], requested: bool) -> None:
    assert is_requested(replace(BASE, **seen)) is requested


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ({}, "status.version is empty during bootstrap"),
        ({"version": "3.9.0"}, 'status.version="3.9.0" does not match supported version 3.14.0'),
        ({"version": "3.14.0"}, "the migration for generation 1 has not completed yet"),
        (
            {"mode": "Always"},
            "spec.migration.mode=Always and desired generation 1 has not completed migration yet",
        ),
        ({"mode": "Always", "forced": True}, "the mlflow.opendatahub.io/force-migrate annotation is present"),
    ],
)
def test_the_reason_for_a_migration_in_words(seen: dict[str, Any], text: str) -> None:
    assert trigger(replace(BASE, **seen)) == text


def test_a_job_that_does_not_start_says_why() -> None:
    step = next_step(replace(BASE, job=job(RUNNING, waiting="ErrImagePull: no such image")))
    assert step.message.endswith(": ErrImagePull: no such image")
    assert step.warning == "Migration Job mlflow-mg-3140-g1 does not start: ErrImagePull: no such image"


def test_a_recorded_success_is_of_one_job_only() -> None:
    other = replace(BASE, condition=ROLLOUT, job=JobSeen("mlflow-mg-3150-g1"), supported="3.15.0")
    assert state_of(other) == "ready to migrate"


jobs = st.builds(
    JobSeen,
    name=st.just(BASE.job.name),
    state=st.sampled_from(JobState),
    failure=st.just("it broke"),
    terminal=st.booleans(),
    exit_code=st.sampled_from([None, 10, 15]),
    failed_at=st.sampled_from([None, NOW, NOW - timedelta(hours=1)]),
)
conditions = st.none() | st.builds(
    recorded,
    st.sampled_from([case[2] or "MigrationSucceeded" for case in CASES]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.integers(0, 2),
    st.just(rollout_message(BASE)),
)
anything = st.builds(
    Observed,
    generation=st.integers(1, 2),
    mode=st.sampled_from(["Automatic", "Always"]),
    version=st.sampled_from(["", "3.9.0", "3.14.0", "3.15.0"]),
    supported=st.just("3.14.0"),
    image=st.just("x"),
    forced=st.booleans(),
    condition=conditions,
    job=jobs,
    preflight=jobs,
    now=st.just(NOW),
    remaining=st.integers(0, 2),
    asks_for_pods=st.booleans(),
    scaled_down=st.booleans(),
    other_job=st.sampled_from(["", "other"]),
    image_vouched=st.booleans(),
    missing=st.sampled_from(["", "Secret db does not exist"]),
)


@given(anything)
def test_no_migration_starts_while_a_server_or_another_migration_runs(observed: Observed) -> None:
    step = next_step(observed)
    if step.action is JobAction.CREATE:
        assert observed.remaining == 0
        assert observed.scaled_down
        assert not observed.other_job
        assert step.scale is Scale.ZERO


@given(anything)
def test_every_step_says_something_and_comes_back_or_is_final(observed: Observed) -> None:
    step = next_step(observed)
    if step.verdict is not MigrationState.NONE:
        assert step.reason
        assert step.message
    assert (step.requeue is not None) == (step.verdict is MigrationState.PROGRESS)
    if step.verdict is MigrationState.PROGRESS:
        assert step.reason.startswith("Force") == observed.forced or step.reason == "MigrationRetrying"


@given(anything)
def test_a_server_is_never_started_before_its_database_is_migrated(observed: Observed) -> None:
    step = next_step(observed)
    if step.scale is Scale.FULL and is_requested(observed):
        assert step.verdict is MigrationState.ROLLOUT
        assert observed.job.state is SUCCEEDED or observed.success_recorded


@given(anything)
def test_a_server_is_not_stopped_for_an_image_that_was_not_asked(observed: Observed) -> None:
    asked = observed.image_vouched or observed.preflight.state is SUCCEEDED
    failed_before = observed.job.state is FAILED or state_of(observed) == "failed for good before"
    if (observed.remaining or observed.asks_for_pods) and not asked and not failed_before:
        assert next_step(observed).scale is not Scale.ZERO


@given(anything)
def test_where_no_server_is_to_be_stopped_no_image_is_asked(observed: Observed) -> None:
    if not observed.remaining and not observed.asks_for_pods:
        assert next_step(observed).action is not JobAction.CREATE_PREFLIGHT
