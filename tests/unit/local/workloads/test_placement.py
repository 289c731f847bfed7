"""Endpoints, claims and scheduling."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import Endpoints, EndpointSlice, PersistentVolume, PersistentVolumeClaim, Pod
from modelyard.kube.kinds import Object
from modelyard.local.workloads import (
    claims_controller,
    endpoints_controller,
    scheduler_controller,
    volumes_controller,
)
from tests.unit.local.workloads.stage import Stage


def a_pod(name: str, *, ip: str = "", ready: bool = False, **spec: object) -> Object:
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "ports": [{"name": "http", "containerPort": 8080}]}], **spec},
    }
    if ip:
        pod["status"] = {
            "phase": "Running",
            "podIP": ip,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }
    return pod


def a_service(**spec: object) -> Object:
    port = {"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"selector": {"app": "web"}, "ports": [port], "clusterIP": "127.2.0.1", **spec},
    }


def test_ready_pods_stand_behind_a_service_others_wait() -> None:
    stage = Stage(endpoints_controller())
    stage.put(a_pod("a", ip="127.1.0.1", ready=True))
    stage.put(a_pod("b", ip="127.1.0.2", ready=False))
    stage.put(a_pod("c"))
    stage.put(a_service())
    stage.play()
    (slice_,) = stage.all(EndpointSlice)
    assert [(e["addresses"][0], e["conditions"]["ready"]) for e in slice_["endpoints"]] == [
        ("127.1.0.1", True),
        ("127.1.0.2", False),
    ]
    assert slice_["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP"}]
    (subset,) = stage.one(Endpoints, "web")["subsets"]
    assert [a["ip"] for a in subset["addresses"]] == ["127.1.0.1"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["127.1.0.2"]


def test_a_service_without_selector_gets_no_endpoints_of_ours() -> None:
    stage = Stage(endpoints_controller())
    service = a_service()
    del service["spec"]["selector"]
    stage.put(service)
    stage.play()
    assert stage.all(EndpointSlice) == []


class FakeDirectories:
    def __init__(self) -> None:
        self.made: set[str] = set()

    def path(self, uid: str) -> str:
        return f"/volumes/{uid}"

    def create(self, uid: str) -> None:
        self.made.add(uid)

    def remove(self, uid: str) -> None:
        self.made.discard(uid)


def a_claim(**spec: object) -> Object:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "local",
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "ns"},
        "spec": wanted | spec,
    }


LOCAL = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "modelyard.dev/directory",
    "reclaimPolicy": "Delete",
}


def test_a_claim_is_bound_to_a_directory_and_the_directory_goes_with_it() -> None:
    directories = FakeDirectories()
    stage = Stage(claims_controller(directories), volumes_controller())
    stage.put(LOCAL)
    claim = stage.put(a_claim())
    stage.play()
    bound = stage.one(PersistentVolumeClaim, "data")
    assert bound["status"]["phase"] == "Bound"
    volume = stage.one(PersistentVolume, bound["spec"]["volumeName"])
    assert volume["status"] == {"phase": "Bound"}
    assert volume["spec"]["hostPath"]["path"] == f"/volumes/{claim['metadata']['uid']}"
    assert directories.made == {claim["metadata"]["uid"]}
    stage.edit(PersistentVolumeClaim, "data", lambda c: c["metadata"].update(deletionTimestamp=stage.now))
    stage.play()
    assert stage.all(PersistentVolumeClaim) == []
    assert stage.all(PersistentVolume) == []
    assert directories.made == set()


def test_a_volume_whose_claim_is_gone_is_released_and_one_without_a_claim_is_available() -> None:
    stage = Stage(volumes_controller())
    for name, claim in (("left", {"claimRef": {"namespace": "ns", "name": "gone", "uid": "u"}}), ("free", {})):
        stage.put({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": claim})
    stage.play()
    phases = {volume["metadata"]["name"]: volume["status"]["phase"] for volume in stage.all(PersistentVolume)}
    assert phases == {"left": "Released", "free": "Available"}


def test_a_claim_in_use_is_not_deleted_under_its_pod() -> None:
    directories = FakeDirectories()
    stage = Stage(claims_controller(directories))
    stage.put(LOCAL)
    stage.put(a_claim())
    stage.put(a_pod("user", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
    stage.play()
    stage.edit(PersistentVolumeClaim, "data", lambda c: c["metadata"].update(deletionTimestamp=stage.now))
    stage.play()
    assert stage.all(PersistentVolumeClaim)
    assert directories.made


def test_a_claim_of_an_unknown_class_stays_pending_and_says_why() -> None:
    stage = Stage(claims_controller(FakeDirectories()))
    stage.put(a_claim(storageClassName="fast"))
    outcomes = stage.step()
    assert stage.one(PersistentVolumeClaim, "data")["status"]["phase"] == "Pending"
    assert 'storageclass.storage.k8s.io "fast" not found' in outcomes[0].events[0].message


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "laptop", "labels": {"disk": "ssd"}},
    "spec": {},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "3"}},
}


def asks(**requests: str) -> list[Object]:
    return [{"name": "main", "resources": {"requests": requests}}]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, None),
        ({"nodeSelector": {"disk": "ssd"}}, None),
        ({"nodeSelector": {"disk": "tape"}}, "1 node(s) didn't match Pod's node affinity/selector"),
        ({"containers": asks(cpu="1500m")}, None),
        ({"containers": asks(cpu="2500m")}, "0/1 nodes are available: 1 Insufficient cpu."),
        (
            {"containers": asks(cpu="2500m", memory="5Gi")},
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.",
        ),
        ({"containers": asks(**{"nvidia.com/gpu": "1"})}, "1 Insufficient nvidia.com/gpu"),
        ({"initContainers": asks(memory="5Gi")}, "1 Insufficient memory"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]},
            '0/1 nodes are available: persistentvolumeclaim "gone" not found.',
        ),
        ({"schedulingGates": [{"name": "wait"}]}, "Scheduling is blocked due to non-empty scheduling gates"),
    ],
)
def test_scheduling(spec: Object, why: str | None) -> None:
    bound: list[tuple[str, str, str]] = []

    async def bind(namespace: str, pod: str, node: str) -> None:
        bound.append((namespace, pod, node))

    stage = Stage(scheduler_controller(bind))
    stage.put(NODE)
    stage.put(a_pod("p", **spec))
    stage.step()
    if why is None:
        assert bound == [("ns", "p", "laptop")]
        return
    assert bound == []
    assert why in stage.condition(Pod, "p", "PodScheduled")["message"]
