"""Jobs: completions, retries, deadlines, suspension, time to live."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import Job, Pod
from modelyard.kube.kinds import Object
from modelyard.local.workloads import job_controller
from tests.unit.local.workloads.stage import Stage, template


def a_job(**spec: object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": "ns", "uid": "job-uid"},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "template": template(restartPolicy="Never"),
            **spec,
        },
    }


@pytest.fixture
def stage() -> Stage:
    return Stage(job_controller())


def conditions(stage: Stage) -> list[str]:
    found = stage.one(Job, "work")["status"].get("conditions") or []
    return [c["type"] for c in found if c["status"] == "True"]


def test_a_job_completes_when_its_pod_succeeds(stage: Stage) -> None:
    stage.put(a_job())
    stage.play(stage.ended("Succeeded"))
    status = stage.one(Job, "work")["status"]
    assert conditions(stage) == ["SuccessCriteriaMet", "Complete"]
    assert (status["succeeded"], status.get("active", 0), status["uncountedTerminatedPods"]) == (1, 0, {})
    assert status["completionTime"]


def test_finished_pods_lose_the_tracking_finalizer_only_after_they_are_written_down(stage: Stage) -> None:
    stage.put(a_job())
    stage.step()
    pod = stage.all(Pod)[0]
    stage.put(stage.ended("Succeeded")(pod))
    stage.step()
    assert stage.one(Job, "work")["status"]["uncountedTerminatedPods"] == {"succeeded": [pod["metadata"]["uid"]]}
    assert stage.all(Pod)[0]["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    stage.step()
    assert not stage.all(Pod)[0]["metadata"].get("finalizers")
    stage.step()
    assert stage.one(Job, "work")["status"]["succeeded"] == 1


@pytest.mark.parametrize(("completions", "parallelism", "at_once"), [(5, 2, 2), (2, 5, 2), (3, 1, 1)])
def test_completions_and_parallelism(stage: Stage, completions: int, parallelism: int, at_once: int) -> None:
    stage.put(a_job(completions=completions, parallelism=parallelism))
    stage.step()
    assert len(stage.all(Pod)) == at_once
    stage.play(stage.ended("Succeeded"))
    assert stage.one(Job, "work")["status"]["succeeded"] == completions


def test_a_failure_is_retried_after_a_growing_wait_until_the_limit(stage: Stage) -> None:
    stage.put(a_job(backoffLimit=2))
    made = []
    for wait in (10, 20, 40):
        stage.play(stage.ended("Failed"))
        made.append(len(stage.all(Pod)))
        stage.cluster.advance(wait + 1)
    stage.play(stage.ended("Failed"))
    assert made == [1, 2, 3]
    assert conditions(stage) == ["FailureTarget", "Failed"]
    failed = stage.condition(Job, "work", "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert stage.one(Job, "work")["status"]["failed"] == 3


def test_a_job_past_its_deadline_fails_and_its_pods_go(stage: Stage) -> None:
    stage.put(a_job(activeDeadlineSeconds=60))
    stage.play(stage.ready)
    stage.cluster.advance(61)
    stage.step()
    pod = stage.all(Pod)[0]
    assert pod["metadata"].get("deletionTimestamp")
    stage.put(stage.ended("Failed")({**pod, "status": {}}))
    stage.play()
    assert conditions(stage) == ["FailureTarget", "Failed"]
    assert stage.condition(Job, "work", "Failed")["reason"] == "DeadlineExceeded"


def test_a_suspended_job_has_no_pods_and_goes_on_when_resumed(stage: Stage) -> None:
    stage.put(a_job(suspend=True))
    stage.play(stage.ready)
    assert stage.pods() == []
    assert conditions(stage) == ["Suspended"]
    stage.edit(Job, "work", lambda job: job["spec"].update(suspend=False))
    stage.play(stage.ended("Succeeded"))
    assert "Complete" in conditions(stage)
    assert stage.condition(Job, "work", "Suspended")["status"] == "False"


def test_the_others_of_a_work_queue_may_finish_when_one_has_succeeded(stage: Stage) -> None:
    job = a_job(parallelism=3)
    del job["spec"]["completions"]
    stage.put(job)
    stage.play(stage.ready)
    first = stage.all(Pod)[0]
    stage.put(stage.ended("Succeeded")({**first, "status": {}}))
    stage.play()
    assert len(stage.pods()) == 3
    assert conditions(stage) == []
    stage.play(lambda pod: stage.ended("Succeeded")({**pod, "status": {}}) if is_running(pod) else pod)
    assert stage.one(Job, "work")["status"]["succeeded"] == 3
    assert "Complete" in conditions(stage)


@pytest.mark.parametrize("change", [{"parallelism": 1}, {"suspend": True}], ids=["fewer at once", "suspended"])
def test_pods_that_the_job_itself_takes_back_are_no_failures(stage: Stage, change: Object) -> None:
    stage.put(a_job(completions=6, parallelism=3, backoffLimit=0))
    stage.play(stage.ready)
    stage.edit(Job, "work", lambda job: job["spec"].update(change))
    stage.play(stage.ready)
    assert len(stage.pods()) == change.get("parallelism", 0)
    status = stage.one(Job, "work")["status"]
    assert "failed" not in status
    assert "Failed" not in conditions(stage)


def is_running(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def test_a_finished_job_is_removed_when_its_time_to_live_is_over(stage: Stage) -> None:
    stage.put(a_job(ttlSecondsAfterFinished=100))
    stage.play(stage.ended("Succeeded"))
    stage.cluster.advance(99)
    stage.play()
    assert stage.all(Job)
    stage.cluster.advance(2)
    stage.step()
    assert not stage.all(Job)


def test_a_work_queue_job_is_done_when_one_succeeded_and_none_runs(stage: Stage) -> None:
    job = a_job(parallelism=2)
    del job["spec"]["completions"]
    stage.put(job)
    stage.step()
    assert len(stage.all(Pod)) == 2
    stage.play(stage.ended("Succeeded"))
    assert "Complete" in conditions(stage)
    assert len(stage.all(Pod)) == 2
