"""Deployment and ReplicaSet together: rollouts as `kubectl rollout` shows them."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import Deployment, Pod, ReplicaSet
from modelyard.kube.kinds import Object
from modelyard.local.workloads import deployment_controller, replicaset_controller
from tests.unit.local.workloads.stage import Stage, set_image, template


def a_deployment(replicas: int = 3, **spec: object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            **spec,
        },
    }


@pytest.fixture
def stage() -> Stage:
    return Stage(deployment_controller(), replicaset_controller())


def test_a_fresh_deployment_becomes_available(stage: Stage) -> None:
    stage.put(a_deployment())
    stage.play(stage.ready)
    status = stage.one(Deployment, "web")["status"]
    assert len(stage.pods()) == 3
    assert {
        k: status[k] for k in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    } == dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), 3)
    assert stage.condition(Deployment, "web", "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert stage.condition(Deployment, "web", "Available")["status"] == "True"
    assert stage.one(Deployment, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


def test_a_settled_deployment_writes_nothing(stage: Stage) -> None:
    stage.put(a_deployment())
    stage.play(stage.ready)
    assert [outcome.writes for outcome in stage.step() if outcome.writes] == []


def test_a_rolling_update_keeps_enough_pods_available(stage: Stage) -> None:
    stage.put(a_deployment(4))
    stage.play(stage.ready)
    stage.edit(Deployment, "web", set_image("web:2"))
    for _ in range(30):
        stage.step()
        running = [p for p in stage.all(Pod) if (p.get("status") or {}).get("phase") == "Running"]
        assert len(running) >= 3
        assert len(stage.all(Pod)) <= 5
        fresh = [p for p in stage.all(Pod) if not p.get("status")]
        for pod in fresh[:1]:
            stage.put(stage.ready(pod))
    stage.play(stage.ready)
    images = {p["spec"]["containers"][0]["image"] for p in stage.all(Pod)}
    assert images == {"web:2"}
    assert sorted(rs["spec"]["replicas"] for rs in stage.all(ReplicaSet)) == [0, 4]


def test_a_rollback_takes_the_old_replicaset_again_as_a_new_revision(stage: Stage) -> None:
    stage.put(a_deployment())
    stage.play(stage.ready)
    first = stage.all(ReplicaSet)[0]["metadata"]["name"]
    stage.edit(Deployment, "web", set_image("web:2"))
    stage.play(stage.ready)
    stage.edit(Deployment, "web", set_image("web:1"))
    stage.play(stage.ready)
    old = stage.one(ReplicaSet, first)
    assert old["spec"]["replicas"] == 3
    assert old["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert len(stage.all(ReplicaSet)) == 2


def test_recreate_starts_nothing_new_before_the_old_pods_are_gone(stage: Stage) -> None:
    stage.put(a_deployment(strategy={"type": "Recreate"}))
    stage.play(stage.ready)
    stage.edit(Deployment, "web", set_image("web:2"))
    for _ in range(10):
        stage.step()
        assert len({p["spec"]["containers"][0]["image"] for p in stage.all(Pod)}) <= 1
    stage.play(stage.ready)
    assert {p["spec"]["containers"][0]["image"] for p in stage.all(Pod)} == {"web:2"}


def test_old_revisions_beyond_the_limit_are_removed(stage: Stage) -> None:
    stage.put(a_deployment(1, revisionHistoryLimit=1))
    for number in range(1, 5):
        stage.edit(Deployment, "web", set_image(f"web:{number}"))
        stage.play(stage.ready)
    assert len(stage.all(ReplicaSet)) == 2


def test_a_paused_deployment_rolls_nothing_out_and_still_scales(stage: Stage) -> None:
    stage.put(a_deployment(2))
    stage.play(stage.ready)

    def pause(deployment: Object) -> None:
        deployment["spec"]["paused"] = True
        deployment["spec"]["replicas"] = 4
        set_image("web:2")(deployment)

    stage.edit(Deployment, "web", pause)
    stage.play(stage.ready)
    assert [p["spec"]["containers"][0]["image"] for p in stage.all(Pod)] == ["web:1"] * 4
    assert stage.condition(Deployment, "web", "Progressing")["reason"] == "DeploymentPaused"


def test_a_rollout_that_makes_no_progress_says_so_after_its_deadline(stage: Stage) -> None:
    stage.put(a_deployment(1, progressDeadlineSeconds=30))
    stage.play()
    stage.cluster.advance(31)
    stage.play()
    progress = stage.condition(Deployment, "web", "Progressing")
    assert (progress["status"], progress["reason"]) == ("False", "ProgressDeadlineExceeded")


def test_a_late_rollout_recovers_from_its_deadline(stage: Stage) -> None:
    stage.put(a_deployment(1, progressDeadlineSeconds=30))
    stage.play()
    stage.cluster.advance(31)
    stage.play()
    stage.play(stage.ready)
    progress = stage.condition(Deployment, "web", "Progressing")
    assert progress["reason"] == "NewReplicaSetAvailable"


@pytest.mark.parametrize(("before", "after"), [(3, 5), (5, 2), (2, 0), (0, 3)])
def test_scaling(stage: Stage, before: int, after: int) -> None:
    stage.put(a_deployment(before))
    stage.play(stage.ready)
    stage.edit(Deployment, "web", lambda d: d["spec"].update(replicas=after))
    stage.play(stage.ready)
    assert len(stage.pods()) == after


def test_a_failed_pod_is_replaced(stage: Stage) -> None:
    stage.put(a_deployment(2))
    stage.play(stage.ready)
    stage.edit(Pod, stage.pods()[0], lambda p: p["status"].update(phase="Failed"))
    stage.play(stage.ready)
    assert sum(p["status"]["phase"] == "Running" for p in stage.all(Pod)) == 2


def test_pods_become_available_only_after_min_ready_seconds(stage: Stage) -> None:
    stage.put(a_deployment(1, minReadySeconds=10))
    stage.play(stage.ready)
    assert "availableReplicas" not in stage.one(Deployment, "web")["status"]
    stage.cluster.advance(11)
    stage.play(stage.ready)
    assert stage.one(Deployment, "web")["status"]["availableReplicas"] == 1
