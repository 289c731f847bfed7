"""CronJobs on virtual time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from modelyard.kube.builtin import CronJob, Job
from modelyard.kube.kinds import Object
from modelyard.local.workloads import cronjob_controller
from tests.unit.local.workloads.stage import Stage, template


def a_cronjob(**spec: object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "ns"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": template()}}, **spec},
    }


@pytest.fixture
def stage() -> Stage:
    return Stage(cronjob_controller())


def finish(stage: Stage, condition: str = "Complete") -> None:
    for job in stage.all(Job):
        if not (job.get("status") or {}).get("conditions"):
            now = stage.now
            job["status"] = {
                "startTime": now,
                "conditions": [{"type": condition, "status": "True", "lastTransitionTime": now}],
            }
            if condition == "Complete":
                job["status"]["completionTime"] = now
            stage.put(job)


def test_a_job_is_made_when_its_time_has_come_and_only_once(stage: Stage) -> None:
    stage.put(a_cronjob())
    stage.play()
    assert stage.all(Job) == []
    stage.cluster.advance(601)
    stage.play()
    stage.play()
    (job,) = stage.all(Job)
    minute = int(datetime(2026, 1, 1, 12, 10, tzinfo=UTC).timestamp()) // 60
    assert job["metadata"]["name"] == f"tick-{minute}"
    status = stage.one(CronJob, "tick")["status"]
    assert status["lastScheduleTime"] == "2026-01-01T12:10:00Z"
    assert [ref["name"] for ref in status["active"]] == [job["metadata"]["name"]]


def test_the_next_pass_is_asked_for_at_the_next_time(stage: Stage) -> None:
    stage.put(a_cronjob())
    (outcome,) = stage.step()
    assert outcome.requeue_after == pytest.approx(600, abs=1)


@pytest.mark.parametrize(("policy", "running"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
def test_concurrency_policy(stage: Stage, policy: str, running: int) -> None:
    stage.put(a_cronjob(concurrencyPolicy=policy))
    stage.play()
    for _ in range(2):
        stage.cluster.advance(600)
        stage.play()
    assert len(stage.all(Job)) == running


def test_old_jobs_beyond_the_limits_are_removed(stage: Stage) -> None:
    stage.put(a_cronjob(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1))
    stage.play()
    for _ in range(4):
        stage.cluster.advance(600)
        stage.play()
        finish(stage)
    stage.play()
    assert len(stage.all(Job)) == 2
    assert stage.one(CronJob, "tick")["status"]["lastSuccessfulTime"] == stage.now


def test_a_suspended_cronjob_makes_nothing(stage: Stage) -> None:
    stage.put(a_cronjob(suspend=True))
    stage.cluster.advance(6000)
    stage.play()
    assert stage.all(Job) == []


def test_a_laptop_that_slept_for_weeks_runs_the_last_time_only(stage: Stage) -> None:
    stage.put(a_cronjob())
    stage.play()
    stage.cluster.advance(30 * 24 * 3600)
    stage.play()
    (job,) = stage.all(Job)
    assert job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == stage.now


def test_a_time_beyond_the_starting_deadline_is_missed(stage: Stage) -> None:
    stage.put(a_cronjob(schedule="0 * * * *", startingDeadlineSeconds=60))
    stage.play()
    stage.cluster.advance(3600 + 120)
    stage.play()
    assert stage.all(Job) == []
