"""Admission: namespaces, what pods and claims get at birth, and webhooks with all their settings."""

from __future__ import annotations

import itertools
import os
import re
from typing import Any

import pytest

from modelyard.kube.builtin import (
    ConfigMap,
    LimitRange,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    ServiceAccount,
    StorageClass,
)
from modelyard.kube.errors import Forbidden
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import call, config_map, eventually
from tests.cluster.conftest import Api

_numbers = itertools.count(1)
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)
POD: Object = {"containers": [{"name": "c", "image": "x:1"}]}


def fresh(prefix: str) -> str:
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


class TestNamespaces:
    async def test_nothing_is_created_where_there_is_none(self, api: Api) -> None:
        answer = await call(api, "POST", ConfigMap.path("none"), {"metadata": {"name": "a"}})
        assert (answer.status, answer.message) == (404, 'namespaces "none" not found')

    async def test_nothing_is_created_in_one_that_ends(self, api: Api) -> None:
        namespace = await api.namespace()
        await api.client.create(ConfigMap, config_map(namespace, "held", finalizers=["example.com/hold"]))
        await api.client.delete(Namespace, "", namespace)
        answer = await call(api, "POST", ConfigMap.path(namespace), {"metadata": {"name": "a"}})
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        assert (answer.status, answer.message) == (403, f'configmaps "a" is forbidden: {why}')
        assert answer.body["details"]["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
        ]
        await api.client.patch(ConfigMap, namespace, "held", {"metadata": {"finalizers": None}})

    async def test_default_stays(self, api: Api) -> None:
        answer = await call(api, "DELETE", Namespace.path("", "default"))
        assert answer.message == 'namespaces "default" is forbidden: this namespace may not be deleted'


class TestPods:
    async def test_pod_runs_as_the_default_account_with_its_token(self, api: Api) -> None:
        namespace = await api.namespace()
        made = (await api.client.create(Pod, {"metadata": {"name": "a", "namespace": namespace}, "spec": POD}))["spec"]
        assert (made["serviceAccountName"], made["serviceAccount"]) == ("default", "default")
        (volume,) = made["volumes"]
        assert volume["name"].startswith("kube-api-access-")
        assert len(volume["name"]) == len("kube-api-access-") + 5
        assert volume["projected"]["sources"] == [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ]
        mount = {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
        assert made["containers"][0]["volumeMounts"] == [mount]

    async def test_pod_waits_for_five_minutes_on_a_failing_node(self, api: Api) -> None:
        namespace = await api.namespace()
        made = await api.client.create(Pod, {"metadata": {"name": "a", "namespace": namespace}, "spec": POD})
        assert made["spec"]["tolerations"] == [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ]

    async def test_account_may_keep_its_token_and_give_pull_secrets(self, api: Api) -> None:
        namespace = await api.namespace()
        robot = {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "registry"}]}
        await api.client.create(ServiceAccount, {"metadata": {"name": "robot", "namespace": namespace}} | robot)
        spec = POD | {"serviceAccountName": "robot"}
        made = await api.client.create(Pod, {"metadata": {"name": "a", "namespace": namespace}, "spec": spec})
        assert "volumes" not in made["spec"]
        assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        spec = spec | {"automountServiceAccountToken": True}
        made = await api.client.create(Pod, {"metadata": {"name": "b", "namespace": namespace}, "spec": spec})
        assert len(made["spec"]["volumes"]) == 1

    async def test_account_must_exist(self, api: Api) -> None:
        namespace = await api.namespace()
        body = {"metadata": {"name": "a"}, "spec": POD | {"serviceAccountName": "none"}}
        answer = await call(api, "POST", Pod.path(namespace), body)
        why = f'error looking up service account {namespace}/none: serviceaccount "none" not found'
        assert (answer.status, answer.message) == (403, f'pods "a" is forbidden: {why}')

    async def test_priority_comes_from_the_class(self, api: Api) -> None:
        namespace, name = await api.namespace(), fresh("high")
        await api.client.create(PriorityClass, {"metadata": {"name": name}, "value": 7, "preemptionPolicy": "Never"})

        async def known() -> bool:
            body = {"metadata": {"name": "a"}, "spec": POD | {"priorityClassName": name}}
            answer = await call(api, "POST", Pod.path(namespace), body)
            return answer.status == 201

        await eventually(known)
        spec = (await api.client.get(Pod, namespace, "a"))["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")

    async def test_priority_without_class_is_zero_and_not_ones_own(self, api: Api) -> None:
        namespace = await api.namespace()
        made = await api.client.create(Pod, {"metadata": {"name": "a", "namespace": namespace}, "spec": POD})
        assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")
        answer = await call(
            api, "POST", Pod.path(namespace), {"metadata": {"name": "b"}, "spec": POD | {"priority": 5}}
        )
        assert answer.message == (
            'pods "b" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission '
            "controller computed 0 from the given PriorityClass name"
        )

    async def test_unknown_priority_class(self, api: Api) -> None:
        namespace = await api.namespace()
        body = {"metadata": {"name": "a"}, "spec": POD | {"priorityClassName": "none"}}
        answer = await call(api, "POST", Pod.path(namespace), body)
        assert answer.message == 'pods "a" is forbidden: no PriorityClass with name none was found'


class TestClaims:
    async def test_claim_is_protected_until_it_is_unused(self, api: Api) -> None:
        namespace = await api.namespace()
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {"name": "a", "namespace": namespace}
        made = await api.client.create(PersistentVolumeClaim, {"metadata": metadata, "spec": spec})
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        await api.client.delete(PersistentVolumeClaim, namespace, "a")

        async def gone() -> bool:
            return await api.client.find(PersistentVolumeClaim, namespace, "a") is None

        await eventually(gone)

    async def test_protection_that_was_taken_off_comes_back(self, api: Api) -> None:
        namespace = await api.namespace()
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await api.client.create(
            PersistentVolumeClaim, {"metadata": {"name": "a", "namespace": namespace}, "spec": spec}
        )
        bare = {"metadata": {"finalizers": None}}
        await api.client.patch(PersistentVolumeClaim, namespace, "a", bare)

        async def protected() -> bool:
            found = await api.client.get(PersistentVolumeClaim, namespace, "a")
            return bool(found["metadata"].get("finalizers") == ["kubernetes.io/pvc-protection"])

        await eventually(protected)

    async def test_claim_without_class_gets_the_default_one(self, api: Api) -> None:
        namespace, name = await api.namespace(), fresh("local")
        note = {"storageclass.kubernetes.io/is-default-class": "true"}
        await api.client.create(StorageClass, {"metadata": {"name": name, "annotations": note}, "provisioner": "x/y"})
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        path = PersistentVolumeClaim.path(namespace)

        async def defaulted() -> bool:
            answer = await call(api, "POST", path, {"metadata": {"generateName": "a-"}, "spec": spec}, dryRun="All")
            return bool(answer.body["spec"].get("storageClassName") == name)

        try:
            await eventually(defaulted)
            none = {"metadata": {"name": "b"}, "spec": spec | {"storageClassName": ""}}
            assert (await call(api, "POST", path, none)).body["spec"]["storageClassName"] == ""
        finally:
            await api.client.delete(StorageClass, "", name)


async def test_a_pod_takes_overhead_and_demands_from_its_runtime_class(api: Api) -> None:
    namespace, name = await api.namespace(), f"runtime-{os.getpid()}"
    toleration = {"key": "fast", "operator": "Exists", "effect": "NoSchedule"}
    await api.client.create(
        RUNTIME_CLASS,
        {
            "metadata": {"name": name},
            "handler": "fast",
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {"nodeSelector": {"disk": "ssd"}, "tolerations": [toleration]},
        },
    )
    try:
        made = await api.client.create(Pod, runtime_pod(namespace, "p", name))
        assert (made["spec"]["overhead"], made["spec"]["nodeSelector"]) == ({"cpu": "10m"}, {"disk": "ssd"})
        assert toleration in made["spec"]["tolerations"]
        for pod, why in (
            (runtime_pod(namespace, "q", name, overhead={"cpu": "20m"}), "Pod's Overhead doesn't match RuntimeClass's"),
            (runtime_pod(namespace, "q", name, nodeSelector={"disk": "hdd"}), "conflict: runtimeClass.scheduling"),
            (runtime_pod(namespace, "q", "nope"), 'pod rejected: RuntimeClass "nope" not found'),
            (runtime_pod(namespace, "q", None, overhead={"cpu": "1m"}), "Pod Overhead set without corresponding"),
        ):
            with pytest.raises(Forbidden, match=re.escape(why)):
                await api.client.create(Pod, pod)
    finally:
        await api.client.delete(RUNTIME_CLASS, "", name)


def runtime_pod(namespace: str, name: str, runtime_class: str | None, **more: Any) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}], "runtimeClassName": runtime_class} | more
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def limited(api: Api, *limits: Object) -> str:
    """A namespace with limits, which the real server takes a moment to see."""
    namespace = await api.namespace()
    await api.client.create(LimitRange, {"metadata": {"name": "l", "namespace": namespace}, "spec": {"limits": limits}})
    return namespace


def sized_pod(namespace: str, name: str, **resources: Object) -> Object:
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_a_pod_gets_what_its_namespaces_limits_give(api: Api) -> None:
    limit = {"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}
    namespace = await limited(api, limit)
    names = itertools.count()

    async def given() -> bool:
        made = await api.client.create(Pod, sized_pod(namespace, f"p{next(names)}", requests={"memory": "2Mi"}))
        if _LIMIT_NOTE not in made["metadata"].get("annotations", {}):
            return False
        assert made["metadata"]["annotations"][_LIMIT_NOTE] == (
            "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c"
        )
        assert made["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "500m", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "2Mi"},
        }
        return True

    await eventually(given)


_LIMIT_NOTE = "kubernetes.io/limit-ranger"


@pytest.mark.parametrize(
    ("limit", "resources", "why"),
    [
        ({"type": "Container", "max": {"cpu": "1"}}, {"limits": {"cpu": "2"}},
         "maximum cpu usage per Container is 1, but limit is 2"),
        ({"type": "Container", "min": {"cpu": "100m"}}, {"requests": {"cpu": "50m"}},
         "minimum cpu usage per Container is 100m, but request is 50m"),
        ({"type": "Pod", "max": {"memory": "1Gi"}}, {},
         "maximum memory usage per Pod is 1Gi.  No limit is specified"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
         "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
    ],
)  # fmt: skip
async def test_a_pod_beyond_its_namespaces_limits_is_refused(
    api: Api, limit: Object, resources: Object, why: str
) -> None:
    namespace = await limited(api, limit)
    names = itertools.count()

    said = ""

    async def refused() -> bool:
        nonlocal said
        try:
            await api.client.create(Pod, sized_pod(namespace, f"p{next(names)}", **resources))
        except Forbidden as error:
            said = str(error)
        return bool(said)

    await eventually(refused)
    assert said.endswith(f"is forbidden: {why}")
