"""Admission: namespaces, what pods and claims get at birth, and webhooks with all their settings."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from modelyard.kube.builtin import (
    ConfigMap,
    Deployment,
    Endpoints,
    LimitRange,
    MutatingWebhookConfiguration,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    Service,
    ServiceAccount,
    StorageClass,
    ValidatingWebhookConfiguration,
)
from modelyard.kube.errors import ApiError, Forbidden, NotFound
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import MERGE, Answer, call, config_map, deployment, eventually
from tests.cluster.api.hooks import HookServer, hook_server, patch
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


@pytest.fixture
async def hooks() -> AsyncIterator[HookServer]:
    async with hook_server() as server:
        yield server


EVERYTHING: Object = {
    "operations": ["*"],
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "resources": ["configmaps", "deployments", "deployments/scale"],
}


class Registered:
    """Webhooks that are in force for one namespace, until the block ends."""

    def __init__(self, api: Api, hooks: HookServer, namespace: str) -> None:
        self.api, self.hooks, self.namespace = api, hooks, namespace

    def webhook(self, path: str, **more: Any) -> Object:
        plain = {
            "name": f"{path.strip('/')}.hooks.test",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.hooks.config(path),
            "rules": [EVERYTHING],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "timeoutSeconds": 5,
        }
        return plain | more

    @asynccontextmanager
    async def of(self, kind: Kind, *webhooks: Object, name: str = "") -> AsyncIterator[None]:
        name = name or fresh("hooks")
        # The last webhook shows when the real server, which follows configurations from afar, has seen this one.
        probe = self.webhook(f"/probe-{name}", rules=[EVERYTHING | {"resources": ["secrets"]}])
        await self.api.client.create(kind, {"metadata": {"name": name}, "webhooks": [*webhooks, probe]})
        try:
            await eventually(lambda: self._in_force(name))
            yield
        finally:
            await self.api.client.delete(kind, "", name)
            await eventually(lambda: self._not_in_force(name))

    async def _in_force(self, name: str) -> bool:
        before = len(self.hooks.asked)
        path = f"/api/v1/namespaces/{self.namespace}/secrets"
        await call(self.api, "POST", path, {"metadata": {"generateName": "probe-"}}, dryRun="All")
        return any(review["path"] == f"/probe-{name}" for review in self.hooks.asked[before:])

    async def _not_in_force(self, name: str) -> bool:
        return not await self._in_force(name)

    @property
    def asked(self) -> list[Object]:
        """The questions about what the test did, in order; the cluster's own controllers ask some, too."""
        return [
            review
            for review in self.hooks.asked
            if not review["path"].startswith("/probe") and review["request"]["userInfo"]["username"] == "admin"
        ]

    def mutating(self, *webhooks: Object, name: str = "") -> Any:
        return self.of(MutatingWebhookConfiguration, *webhooks, name=name)

    def validating(self, *webhooks: Object) -> Any:
        return self.of(ValidatingWebhookConfiguration, *webhooks)

    async def create(self, name: str = "a", **query: str) -> Answer:
        path = ConfigMap.path(self.namespace)
        return await call(self.api, "POST", path, {"metadata": {"name": name}, "data": {"a": "1"}}, **query)

    async def change(self, name: str, change: Object) -> Answer:
        return await call(self.api, "PATCH", ConfigMap.path(self.namespace, name), change, type=MERGE)


@pytest.fixture
async def registered(api: Api, hooks: HookServer) -> Registered:
    return Registered(api, hooks, await api.namespace())


class TestValidatingWebhooks:
    async def test_question_has_all_about_the_request(self, registered: Registered) -> None:
        async with registered.validating(registered.webhook("/ok")):
            made = (await registered.create()).body
            await registered.change("a", {"data": {"a": "2"}})
            await registered.api.client.delete(ConfigMap, registered.namespace, "a")
        created, updated, deleted = (review["request"] for review in registered.asked)
        kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
        resource = {"group": "", "version": "v1", "resource": "configmaps"}
        assert (created["kind"], created["requestKind"]) == (kind, kind)
        assert (created["resource"], created["requestResource"]) == (resource, resource)
        assert (created["name"], created["namespace"], created["operation"]) == ("a", registered.namespace, "CREATE")
        assert created["userInfo"]["username"] == "admin"
        assert "system:masters" in created["userInfo"]["groups"]
        assert created["object"]["metadata"]["uid"] == made["metadata"]["uid"]
        assert (created["oldObject"], created["dryRun"]) == (None, False)
        assert created["options"]["kind"] == "CreateOptions"
        assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"a": "1"}, {"a": "2"})
        assert updated["options"]["kind"] == "UpdateOptions"
        assert (deleted["object"], deleted["oldObject"]["data"]) == (None, {"a": "2"})
        assert registered.asked[0]["query"] == {"timeout": "5s"}

    @pytest.mark.parametrize(
        ("status", "code", "message"),
        [
            ({"message": "no way", "code": 418}, 418, ": no way"),
            ({"reason": "Because"}, 400, ": Because"),
            (None, 400, " without explanation"),
            ({"code": 200, "message": "x"}, 400, ": x"),
        ],
    )
    async def test_words_of_a_denial(
        self, registered: Registered, status: Object | None, code: int, message: str
    ) -> None:
        registered.hooks.answers["/no"] = {"allowed": False, "status": status}
        async with registered.validating(registered.webhook("/no")):
            answer = await registered.create()
        assert answer.status == code
        assert answer.message == f'admission webhook "no.hooks.test" denied the request{message}'
        with pytest.raises(NotFound):
            await registered.api.client.get(ConfigMap, registered.namespace, "a")

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (
                {"http": 500, "text": "boom"},
                'failed to call webhook: an error on the server ("boom") has prevented the request',
            ),
            ({"http": 404}, "failed to call webhook: the server could not find the requested resource"),
            ({"uid": "other"}, "received invalid webhook response: expected response.uid="),
            (
                patch({"op": "remove", "path": "/x"}),
                "received invalid webhook response: validating webhook may not return response.patch",
            ),
            ({"delay": 3}, "context deadline exceeded"),
        ],
    )
    async def test_failures_close_or_open(self, registered: Registered, answer: Object, message: str) -> None:
        registered.hooks.answers["/bad"] = answer
        hook = registered.webhook("/bad", timeoutSeconds=1)
        async with registered.validating(hook):
            refused = await registered.create()
            assert (refused.status, refused.reason) == (500, "InternalError")
            assert refused.message.startswith('Internal error occurred: failed calling webhook "bad.hooks.test": ')
            assert message in refused.message
        async with registered.validating(hook | {"failurePolicy": "Ignore"}):
            assert (await registered.create()).status == 201

    async def test_wrong_authority_is_a_failure(self, registered: Registered) -> None:
        async with hook_server() as other:
            config = registered.hooks.config("/ok") | {"caBundle": other.bundle}
            async with registered.validating(registered.webhook("/ok", clientConfig=config)):
                answer = await registered.create()
        assert "tls: failed to verify certificate: x509: certificate signed by unknown authority" in answer.message

    async def test_nobody_listening_is_a_failure(self, registered: Registered) -> None:
        config = {"url": "https://127.0.0.1:9/x", "caBundle": registered.hooks.bundle}
        async with registered.validating(registered.webhook("/ok", clientConfig=config)):
            answer = await registered.create()
        assert (
            'Post "https://127.0.0.1:9/x?timeout=5s": dial tcp 127.0.0.1:9: connect: connection refused'
            in answer.message
        )

    async def test_missing_service_is_a_failure(self, registered: Registered) -> None:
        service = {"name": "none", "namespace": registered.namespace, "path": "/x"}
        config = {"service": service, "caBundle": registered.hooks.bundle}
        async with registered.validating(registered.webhook("/ok", clientConfig=config)):
            answer = await registered.create()
        url = f"https://none.{registered.namespace}.svc:443/x?timeout=5s"
        assert f'Post "{url}": service "none" not found' in answer.message

    async def test_rules_choose_operations_and_subresources(self, registered: Registered) -> None:
        registered.hooks.answers["/no"] = {"allowed": False}
        await registered.api.client.create(Deployment, deployment(registered.namespace, "web"))
        rules = [
            EVERYTHING | {"operations": ["UPDATE"], "resources": ["configmaps"]},
            EVERYTHING | {"resources": ["deployments/scale"]},
        ]
        async with registered.validating(registered.webhook("/no", rules=rules)):
            assert (await registered.create()).status == 201
            assert (await registered.change("a", {"data": {"x": "y"}})).status == 400
            path = Deployment.path(registered.namespace, "web")
            assert (await call(registered.api, "PATCH", path, {"spec": {"replicas": 3}}, type=MERGE)).status == 200
            scaled = await call(registered.api, "PATCH", f"{path}/scale", {"spec": {"replicas": 2}}, type=MERGE)
            assert scaled.status == 400
        request = registered.asked[-1]["request"]
        assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        assert (request["subResource"], request["object"]["spec"]) == ("scale", {"replicas": 2})

    async def test_a_long_answer_is_read_to_its_end(self, registered: Registered) -> None:
        """It comes in many pieces. A denial counts, also where a webhook that fails would be passed over."""
        registered.hooks.answers["/no"] = {"allowed": False, "status": {"message": "x" * 600_000}}
        async with registered.validating(registered.webhook("/no", failurePolicy="Ignore")):
            answer = await registered.create()
        assert answer.status == 400
        assert answer.message.endswith("x" * 1000)

    async def test_selectors_choose_objects(self, registered: Registered) -> None:
        registered.hooks.answers["/no"] = {"allowed": False}
        chosen = {"matchLabels": {"watched": "yes"}}
        async with registered.validating(registered.webhook("/no", objectSelector=chosen)):
            assert (await registered.create()).status == 201
            assert (await registered.change("a", {"metadata": {"labels": {"watched": "yes"}}})).status == 400

    async def test_conditions_choose_requests(self, registered: Registered) -> None:
        registered.hooks.answers["/no"] = {"allowed": False}
        conditions = [
            {"name": "named", "expression": "object.metadata.name.startsWith('x') && request.operation == 'CREATE'"}
        ]
        async with registered.validating(registered.webhook("/no", matchConditions=conditions)):
            assert (await registered.create("a")).status == 201
            assert (await registered.create("x")).status == 400

    async def test_dry_run_reaches_only_the_harmless(self, registered: Registered) -> None:
        async with registered.validating(registered.webhook("/ok", sideEffects="NoneOnDryRun")):
            assert (await registered.create(dryRun="All")).status == 201
        assert registered.asked[0]["request"]["dryRun"] is True

    async def test_warnings_reach_the_client(self, registered: Registered) -> None:
        registered.hooks.answers["/warn"] = {"warnings": ["be careful"]}
        async with registered.validating(registered.webhook("/warn")):
            answer = await registered.create()
        assert answer.headers["Warning"] == '299 - "be careful"'

    async def test_configurations_themselves_are_never_asked_about(self, registered: Registered) -> None:
        registered.hooks.answers["/no"] = {"allowed": False}
        rule = EVERYTHING | {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"]}
        async with registered.validating(registered.webhook("/no", rules=[rule], namespaceSelector={})):
            name = fresh("other")
            await registered.api.client.create(ValidatingWebhookConfiguration, {"metadata": {"name": name}})
            await registered.api.client.delete(ValidatingWebhookConfiguration, "", name)
        assert registered.asked == []


def label(request: Object) -> Object:
    """Adds one more label each time."""
    labels = request["object"]["metadata"].get("labels")
    first = [] if labels else [{"op": "add", "path": "/metadata/labels", "value": {}}]
    return patch(*first, {"op": "add", "path": f"/metadata/labels/l{len(labels or {})}", "value": "x"})


class TestMutatingWebhooks:
    async def test_patches_are_applied_and_defaults_filled_in_again(self, registered: Registered) -> None:
        container = {"name": "side", "image": "car"}
        registered.hooks.answers["/side"] = patch(
            {"op": "add", "path": "/spec/template/spec/containers/-", "value": container}
        )
        async with registered.mutating(registered.webhook("/side")):
            made = await registered.api.client.create(Deployment, deployment(registered.namespace, "web"))
        side = made["spec"]["template"]["spec"]["containers"][1]
        assert side["imagePullPolicy"] == "Always"
        assert side["terminationMessagePath"] == "/dev/termination-log"

    async def test_configurations_are_called_by_name(self, registered: Registered) -> None:
        registered.hooks.answers |= {"/one": label, "/two": label}
        prefix = fresh("order")
        async with registered.mutating(registered.webhook("/two"), name=f"{prefix}-b"):
            async with registered.mutating(registered.webhook("/one"), name=f"{prefix}-a"):
                made = (await registered.create()).body
        assert [review["path"] for review in registered.asked] == ["/one", "/two"]
        assert made["metadata"]["labels"] == {"l0": "x", "l1": "x"}

    async def test_earlier_webhook_is_called_again_if_it_asked_for_it(self, registered: Registered) -> None:
        registered.hooks.answers |= {"/first": {}, "/second": label}
        first = registered.webhook("/first", reinvocationPolicy="IfNeeded")
        async with registered.mutating(first, registered.webhook("/second")):
            await registered.create()
        assert [review["path"] for review in registered.asked] == ["/first", "/second", "/first"]
        assert registered.asked[2]["request"]["object"]["metadata"]["labels"] == {"l0": "x"}

    async def test_bad_patch_is_an_internal_error(self, registered: Registered) -> None:
        registered.hooks.answers["/bad"] = patch({"op": "remove", "path": "/none"})
        async with registered.mutating(registered.webhook("/bad")):
            answer = await registered.create()
        assert answer.status == 500
        assert "Unable to remove nonexistent key: none" in answer.message

    async def test_result_is_validated(self, registered: Registered) -> None:
        registered.hooks.answers["/bad"] = patch({"op": "add", "path": "/data/b a", "value": "x"})
        async with registered.mutating(registered.webhook("/bad")):
            answer = await registered.create()
        assert answer.status == 422

    async def test_mutating_comes_before_validating(self, registered: Registered) -> None:
        registered.hooks.answers["/label"] = label
        async with registered.mutating(registered.webhook("/label")):
            async with registered.validating(registered.webhook("/ok")):
                await registered.create()
        assert [review["path"] for review in registered.asked] == ["/label", "/ok"]
        assert registered.asked[1]["request"]["object"]["metadata"]["labels"] == {"l0": "x"}


async def test_service_reference_is_resolved_to_an_endpoint(api: Api) -> None:
    namespace = await api.namespace()
    if api.real:
        pytest.skip("a real cluster needs a network for services, and refuses loopback endpoints")
    async with hook_server([f"hook.{namespace}.svc"]) as hooks:
        metadata = {"name": "hook", "namespace": namespace}
        ports = [{"name": "https", "port": 443, "targetPort": 9443}]
        await api.client.create(Service, {"metadata": metadata, "spec": {"ports": ports}})
        subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": hooks.port}]}
        await api.client.create(Endpoints, {"metadata": metadata, "subsets": [subset]})
        config = {"service": {"name": "hook", "namespace": namespace, "path": "/check"}, "caBundle": hooks.bundle}
        registered = Registered(api, hooks, namespace)
        hooks.answers["/check"] = {"allowed": False}
        async with registered.validating(registered.webhook("/check", clientConfig=config)):
            with pytest.raises(ApiError, match="denied the request"):
                await api.client.create(ConfigMap, config_map(namespace, "a"))


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
