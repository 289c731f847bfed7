"""Admission webhooks: what is asked, what their answers do, and what happens without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from modelyard.kube.builtin import (
    ConfigMap,
    Deployment,
    Endpoints,
    MutatingWebhookConfiguration,
    Service,
    ValidatingWebhookConfiguration,
)
from modelyard.kube.errors import ApiError, NotFound
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.admission.hooks import HookServer, hook_server, patch
from tests.cluster.api.admission.test_admission import fresh
from tests.cluster.api.calls import MERGE, Answer, call, config_map, deployment, eventually
from tests.cluster.conftest import Api


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
