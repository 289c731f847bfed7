"""Endpoints and scheduling."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import Endpoints, EndpointSlice, Pod
from modelyard.kube.kinds import Object
from modelyard.local.workloads import endpoints_controller, scheduler_controller
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


@pytest.mark.parametrize(("requests", "fits"), [({"cpu": "1500m"}, True), ({"memory": "3Gi"}, False)])
def test_pods_share_the_processors_and_not_the_memory(requests: dict[str, str], fits: bool) -> None:
    bound: list[str] = []

    async def bind(namespace: str, pod: str, node: str) -> None:
        bound.append(pod)

    stage = Stage(scheduler_controller(bind))
    stage.put(NODE)
    stage.put(a_pod("first", containers=asks(**requests), nodeName="laptop"))
    stage.put(a_pod("second", containers=asks(**requests)))
    stage.step()
    assert (bound == ["second"]) is fits
