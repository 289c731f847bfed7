"""Subresources: scale, binding, log and exec without a node, eviction, ephemeral containers, finalize."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import Deployment, Namespace, Node, Pod, PodDisruptionBudget, ReplicaSet, StatefulSet
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import MERGE, call, deployment
from tests.cluster.conftest import Api

SPEC: Object = {"containers": [{"name": "c", "image": "x:1"}]}


async def pod(api: Api, name: str = "a", **more: object) -> str:
    namespace = await api.namespace()
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "x"}}
    await api.client.create(Pod, {"metadata": metadata, "spec": SPEC | more})
    return namespace


class TestScale:
    @pytest.mark.parametrize("replicas", [2**31, 99_999_999_999_999_999_999, -(2**31) - 1, 1.5])
    @pytest.mark.parametrize(("method", "content"), [("PUT", "application/json"), ("PATCH", MERGE)])
    async def test_a_number_that_the_field_cannot_hold_is_refused(
        self, api: Api, replicas: float, method: str, content: str
    ) -> None:
        """Stored, nobody could read the object any more."""
        namespace = await api.namespace()
        await api.client.create(Deployment, deployment(namespace, "web"))
        path = Deployment.path(namespace, "web", "scale")
        body: Object = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}}
        answer = await call(api, method, path, body | {"metadata": {"name": "web"}}, type=content)
        assert answer.status in (400, 422)
        assert "of type int32" in answer.message

    @pytest.mark.parametrize("kind", [Deployment, ReplicaSet, StatefulSet], ids=lambda kind: kind.kind)
    async def test_scale_shows_and_sets_replicas(self, api: Api, kind: Kind) -> None:
        namespace = await api.namespace()
        body = deployment(namespace, "web", replicas=2) | {"kind": kind.kind}
        made = await api.client.create(kind, body)
        path = kind.path(namespace, "web", "scale")
        shown = (await call(api, "GET", path)).body
        assert (shown["kind"], shown["apiVersion"], shown["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 2})
        assert shown["metadata"]["uid"] == made["metadata"]["uid"]
        assert shown["status"]["selector"] == "app=web"
        changed = await call(api, "PATCH", path, {"spec": {"replicas": 5}}, type=MERGE)
        assert (changed.status, changed.body["spec"]) == (200, {"replicas": 5})
        live = await api.client.get(kind, namespace, "web")
        assert live["spec"]["replicas"] == 5
        assert live["metadata"]["generation"] == 2

    async def test_put_replaces(self, api: Api) -> None:
        namespace = await api.namespace()
        await api.client.create(Deployment, deployment(namespace, "web"))
        path = Deployment.path(namespace, "web", "scale")
        scale = (await call(api, "GET", path)).body
        answer = await call(api, "PUT", path, scale | {"spec": {"replicas": 0}})
        assert (answer.status, answer.body["spec"]) == (200, {})
        again = await call(api, "PUT", path, scale | {"spec": {"replicas": 3}})
        assert (again.status, again.reason) == (409, "Conflict")

    async def test_negative_is_refused(self, api: Api) -> None:
        namespace = await api.namespace()
        await api.client.create(Deployment, deployment(namespace, "web"))
        path = Deployment.path(namespace, "web", "scale")
        answer = await call(api, "PATCH", path, {"spec": {"replicas": -1}}, type=MERGE)
        assert answer.message == (
            'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
        )

    async def test_missing_object(self, api: Api) -> None:
        answer = await call(api, "GET", Deployment.path(await api.namespace(), "none", "scale"))
        assert (answer.status, answer.message) == (404, 'deployments.apps "none" not found')


class TestBinding:
    async def test_pod_is_bound_once(self, api: Api) -> None:
        namespace = await pod(api)
        path = Pod.path(namespace, "a", "binding")
        binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
        answer = await call(api, "POST", path, binding)
        assert (answer.status, answer.body["status"]) == (201, "Success")
        bound = await api.client.get(Pod, namespace, "a")
        assert bound["spec"]["nodeName"] == "n1"
        assert bound["metadata"]["generation"] == 1
        (condition,) = bound["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
        again = await call(api, "POST", path, binding)
        assert again.message == (
            'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
        )

    async def test_name_must_match(self, api: Api) -> None:
        namespace = await pod(api)
        answer = await call(api, "POST", Pod.path(namespace, "a", "binding"), {"target": {"name": "n1"}})
        assert (answer.status, answer.message) == (400, "name in URL does not match name in Binding object")


class TestLogs:
    async def test_unscheduled_pod_has_an_empty_log(self, api: Api) -> None:
        namespace = await pod(api)
        answer = await call(api, "GET", Pod.path(namespace, "a", "log"))
        assert (answer.status, answer.body) == (204, "")

    @pytest.mark.parametrize(
        ("query", "status", "message"),
        [
            ({"container": "none"}, 400, "container none is not valid for pod a"),
            (
                {"tailLines": "-1"},
                422,
                'PodLogOptions "a" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
            ),
            (
                {"limitBytes": "0"},
                422,
                'PodLogOptions "a" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
            ),
            (
                {"sinceSeconds": "0"},
                422,
                'PodLogOptions "a" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0',
            ),
        ],
    )
    async def test_bad_questions(self, api: Api, query: dict[str, str], status: int, message: str) -> None:
        namespace = await pod(api)
        answer = await call(api, "GET", Pod.path(namespace, "a", "log"), **query)
        assert (answer.status, answer.message) == (status, message)

    async def test_container_must_be_named_where_there_are_several(self, api: Api) -> None:
        two = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]
        namespace = await pod(api, containers=two, initContainers=[{"name": "i", "image": "x"}])
        answer = await call(api, "GET", Pod.path(namespace, "a", "log"))
        assert answer.message == "a container name must be specified for pod a, choose one of: [i a b]"

    async def test_missing_pod(self, api: Api) -> None:
        answer = await call(api, "GET", Pod.path(await api.namespace(), "none", "log"))
        assert (answer.status, answer.message) == (404, 'pods "none" not found')


class TestExec:
    async def test_pod_must_be_scheduled(self, api: Api) -> None:
        namespace = await pod(api)
        answer = await call(api, "POST", Pod.path(namespace, "a", "exec"), command="ls", stdout="true")
        assert (answer.status, answer.message) == (400, "pod a does not have a host assigned")

    async def test_container_must_exist(self, api: Api) -> None:
        namespace = await pod(api)
        answer = await call(api, "POST", Pod.path(namespace, "a", "exec"), command="ls", container="none")
        assert answer.message == "container none is not valid for pod a"


class TestEviction:
    async def test_evicted_pod_is_deleted(self, api: Api) -> None:
        namespace = await pod(api)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": namespace}}
        answer = await call(api, "POST", Pod.path(namespace, "a", "eviction"), body)
        assert (answer.status, answer.body["status"]) == (201, "Success")
        assert await api.client.find(Pod, namespace, "a") is None

    async def test_budget_protects_running_pods(self, api: Api) -> None:
        namespace = await pod(api)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        path = Pod.path(namespace, "a", "status")
        await call(api, "PATCH", path, {"status": status}, type=MERGE)
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
        await api.client.create(
            PodDisruptionBudget, {"metadata": {"name": "b", "namespace": namespace}, "spec": budget}
        )
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": namespace}}
        answer = await call(api, "POST", Pod.path(namespace, "a", "eviction"), body)
        assert (answer.status, answer.reason) == (429, "TooManyRequests")
        assert "Cannot evict pod as it would violate the pod's disruption budget." in answer.message


async def test_status_writes_leave_the_spec_alone(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Deployment, deployment(namespace, "web"))
    path = Deployment.path(namespace, "web", "status")
    change = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {"replicas": 7},
        "status": {"replicas": 1},
    }
    answer = (await call(api, "PATCH", path, change, type=MERGE)).body
    assert answer["spec"]["replicas"] == 1
    assert answer["status"] == {"replicas": 1}
    assert "labels" not in answer["metadata"]
    assert answer["metadata"]["annotations"] == {"a": "b"}
    assert answer["metadata"]["generation"] == 1


async def test_main_writes_leave_the_status_alone(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(Deployment, deployment(namespace, "web"))
    change = {"spec": {"replicas": 3}, "status": {"replicas": 9}}
    answer = await api.client.patch(Deployment, namespace, "web", change)
    assert answer["spec"]["replicas"] == 3
    assert answer["status"] == {}


async def test_pod_address_is_one_and_many(api: Api) -> None:
    namespace = await pod(api)
    path = Pod.path(namespace, "a", "status")
    answer = await call(api, "PATCH", path, {"status": {"podIP": "10.1.2.3"}}, type=MERGE)
    assert answer.body["status"]["podIPs"] == [{"ip": "10.1.2.3"}]


async def test_ephemeral_containers_can_be_added(api: Api) -> None:
    namespace = await pod(api)
    path = Pod.path(namespace, "a", "ephemeralcontainers")
    extra = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "tools:1"}]}}
    answer = await call(api, "PATCH", path, extra, type=MERGE)
    assert answer.status == 200, answer.body
    (container,) = answer.body["spec"]["ephemeralContainers"]
    assert (container["name"], container["imagePullPolicy"]) == ("debug", "IfNotPresent")
    refused = await call(
        api, "PATCH", Pod.path(namespace, "a"), extra | {"spec": {"ephemeralContainers": []}}, type=MERGE
    )
    assert refused.status == 422


async def test_node_may_register_with_a_status(api: Api) -> None:
    name = f"node-{await api.namespace()}"
    made = await api.client.create(Node, {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}})
    assert made["status"]["allocatable"] == {"cpu": "4"}
    await api.client.delete(Node, "", name)


async def test_namespace_ends_when_it_is_finalized(api: Api) -> None:
    name = await api.namespace()
    made = await api.client.get(Namespace, "", name)
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    changed = await api.client.patch(Namespace, "", name, {"spec": {"finalizers": []}})
    assert changed["spec"] == {"finalizers": ["kubernetes"]}
