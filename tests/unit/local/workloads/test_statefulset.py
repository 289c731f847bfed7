"""StatefulSets: order, identity, updates from above, claims that stay."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from modelyard.kube.kinds import Object
from modelyard.local.workloads import statefulset_controller
from tests.unit.local.workloads.stage import Stage, set_image, template


def a_statefulset(replicas: int = 3, **spec: object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "ns"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            **spec,
        },
    }


@pytest.fixture
def stage() -> Stage:
    return Stage(statefulset_controller())


def images(stage: Stage) -> list[str]:
    return [stage.one(Pod, name)["spec"]["containers"][0]["image"] for name in stage.pods()]


def test_pods_start_in_order_each_after_the_one_before_is_ready(stage: Stage) -> None:
    stage.put(a_statefulset())
    seen = []
    for _ in range(3):
        stage.step()
        stage.step()
        seen.append(stage.pods())
        for pod in stage.all(Pod):
            stage.put(stage.ready(pod))
    assert seen == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]]


def test_parallel_pods_start_at_once(stage: Stage) -> None:
    stage.put(a_statefulset(podManagementPolicy="Parallel"))
    stage.step()
    assert stage.pods() == ["db-0", "db-1", "db-2"]


def test_a_pod_knows_its_name_index_and_subdomain(stage: Stage) -> None:
    stage.put(a_statefulset(1))
    stage.play(stage.ready)
    pod = stage.one(Pod, "db-0")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"


def test_scaling_down_removes_the_highest_first_and_keeps_the_claims(stage: Stage) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    stage.put(a_statefulset(volumeClaimTemplates=claims))
    stage.play(stage.ready)
    stage.edit(StatefulSet, "db", lambda s: s["spec"].update(replicas=1))
    stage.step()
    assert stage.pods() == ["db-0", "db-1"]
    stage.play(stage.ready)
    assert stage.pods() == ["db-0"]
    assert sorted(c["metadata"]["name"] for c in stage.all(PersistentVolumeClaim)) == [
        "data-db-0",
        "data-db-1",
        "data-db-2",
    ]
    assert stage.one(Pod, "db-0")["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    ]


def test_an_update_goes_from_the_highest_pod_down(stage: Stage) -> None:
    stage.put(a_statefulset())
    stage.play(stage.ready)
    stage.edit(StatefulSet, "db", set_image("web:2"))
    stage.step()
    assert stage.pods() == ["db-0", "db-1"]
    stage.play(stage.ready)
    assert images(stage) == ["web:2"] * 3
    status = stage.one(StatefulSet, "db")["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert status["updatedReplicas"] == status["currentReplicas"] == 3
    assert len(stage.all(ControllerRevision)) == 2


def test_a_rollback_takes_the_old_revision_again_under_a_new_number(stage: Stage) -> None:
    stage.put(a_statefulset())
    stage.play(stage.ready)
    first = stage.one(StatefulSet, "db")["status"]["currentRevision"]
    for image in ("web:2", "web:1"):
        stage.edit(StatefulSet, "db", set_image(image))
        stage.play(stage.ready)
    assert images(stage) == ["web:1"] * 3
    assert stage.one(StatefulSet, "db")["status"]["currentRevision"] == first
    assert sorted((r["revision"], r["metadata"]["name"] == first) for r in stage.all(ControllerRevision)) == [
        (2, False),
        (3, True),
    ]


def test_pods_below_the_partition_keep_the_old_template(stage: Stage) -> None:
    stage.put(a_statefulset(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}))
    stage.play(stage.ready)
    stage.edit(StatefulSet, "db", set_image("web:2"))
    stage.play(stage.ready)
    assert images(stage) == ["web:1", "web:1", "web:2"]
    stage.cluster.remove(Pod, "ns", "db-0")
    stage.play(stage.ready)
    assert images(stage) == ["web:1", "web:1", "web:2"]


def test_on_delete_changes_only_what_the_user_deletes(stage: Stage) -> None:
    stage.put(a_statefulset(2, updateStrategy={"type": "OnDelete"}))
    stage.play(stage.ready)
    stage.edit(StatefulSet, "db", set_image("web:2"))
    stage.play(stage.ready)
    assert images(stage) == ["web:1", "web:1"]
    stage.cluster.remove(Pod, "ns", "db-1")
    stage.play(stage.ready)
    assert images(stage) == ["web:1", "web:2"]
