"""A tenant gets no further than its rights: paths that reach out of a namespace, grants beyond what one has, old tokens."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, Namespace, Secret, ServiceAccount
from modelyard.kube.kinds import Object
from tests.cluster.api.access.test_rbac import Someone, fresh, grant, rule, user
from tests.cluster.api.calls import MERGE, call, eventually
from tests.cluster.conftest import Api

ALL = rule(["*"], ["*"], ["*"])
NOTHING_THERE = "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/namespaces/{own}/namespaces/{victim}", None),
        ("GET", "/api/v1/namespaces/{own}/namespaces/{own}", None),
        ("GET", "/api/v1/namespaces/{own}/namespaces", None),
        ("GET", "/api/v1/watch/namespaces/{own}/namespaces/{victim}", None),
        ("PATCH", "/api/v1/namespaces/{own}/namespaces/{victim}", {"metadata": {"labels": {"a": "b"}}}),
        ("PUT", "/api/v1/namespaces/{own}/namespaces/{victim}", {"metadata": {"name": "{victim}"}}),
        ("PUT", "/api/v1/namespaces/{own}/namespaces/{victim}/finalize", {"metadata": {"name": "{victim}"}}),
        ("DELETE", "/api/v1/namespaces/{own}/namespaces/{victim}", None),
        ("DELETE", "/api/v1/namespaces/{own}/namespaces", None),
        ("POST", "/api/v1/namespaces/{own}/namespaces", {"metadata": {"name": "{own}-made"}}),
        ("GET", "/api/v1/namespaces/{own}/nodes", None),
        ("GET", "/api/v1/namespaces/{own}/persistentvolumes", None),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/{own}/clusterroles/cluster-admin", None),
        ("DELETE", "/apis/rbac.authorization.k8s.io/v1/namespaces/{own}/clusterrolebindings", None),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/{own}/clusterroles", {"metadata": {"name": "{own}"}}),
        ("POST", "/apis/authorization.k8s.io/v1/namespaces/{own}/subjectaccessreviews", {"spec": {}}),
        ("GET", "/apis/apiextensions.k8s.io/v1/namespaces/{own}/customresourcedefinitions", None),
        ("GET", "/apis/certificates.k8s.io/v1/namespaces/{own}/certificatesigningrequests", None),
    ],
)
async def test_no_path_below_a_namespace_reaches_what_has_none(api: Api, method: str, path: str, body: Any) -> None:
    own, victim = await api.namespace("own"), await api.namespace("victim")
    tenant = Someone(api, fresh("tenant"))
    await grant(api, own, [ALL], user(tenant.name))
    names = {"own": own, "victim": victim}
    sent = None if body is None else _filled(body, names)
    type = MERGE if method == "PATCH" else "application/json"
    answer = await tenant.call(method, path.format(**names), sent, type=type)
    assert (answer.status, answer.message) == (404, NOTHING_THERE)
    found = await api.client.get(Namespace, "", victim)
    assert "a" not in found["metadata"]["labels"]
    assert await api.client.find(Namespace, "", f"{own}-made") is None


def _filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, names) for key, each in value.items()}
    return value.format(**names) if isinstance(value, str) else value


async def test_a_namespaces_own_paths_still_work(api: Api) -> None:
    own = await api.namespace("own")
    tenant = Someone(api, fresh("tenant"))
    await grant(api, own, [ALL], user(tenant.name))
    assert (await tenant.call("GET", Namespace.path("", own))).body["metadata"]["name"] == own
    assert (await tenant.call("GET", Namespace.path("", own) + "/status")).status == 200


# Grants.


async def writer(api: Api, *more: Object) -> Someone:
    """May write roles and bindings everywhere, and has no other right."""
    someone = Someone(api, fresh("writer"))
    kinds = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]
    rules = [rule(["get", "create", "update", "patch"], kinds, ["rbac.authorization.k8s.io"]), *more]
    await grant(api, "", rules, user(someone.name), fresh("writer"))
    return someone


async def strong_role(api: Api, **more: Any) -> str:
    """A ClusterRole that may do everything, as `cluster-admin` does, for a test to spoil."""
    name = fresh("strong")
    await api.client.create(ClusterRole, {"metadata": {"name": name}, "rules": [ALL], **more})
    return name


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ],
)
async def test_a_role_stronger_than_oneself_cannot_even_be_labelled(api: Api, change: Object) -> None:
    eve, name = await writer(api), await strong_role(api)
    answer = await eve.call("PATCH", ClusterRole.path("", name), change, type=MERGE)
    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert "is attempting to grant RBAC permissions not currently held" in answer.message
    found = (await api.client.get(ClusterRole, "", name))["metadata"]
    assert "labels" not in found
    assert "annotations" not in found


@pytest.mark.parametrize(
    "change", [{"metadata": {"finalizers": ["test.dev/wait"]}}, {"metadata": {"finalizers": None}}]
)
async def test_finalizers_of_a_stronger_role_may_be_changed(api: Api, change: Object) -> None:
    """The garbage collector must be able to end what it could not grant."""
    eve, name = await writer(api), await strong_role(api)
    answer = await eve.call("PATCH", ClusterRole.path("", name), change, type=MERGE)
    assert answer.status == 200
    await api.client.patch(ClusterRole, "", name, {"metadata": {"finalizers": None}})


async def test_a_binding_to_a_stronger_role_cannot_even_be_labelled(api: Api) -> None:
    eve, name = await writer(api), await strong_role(api)
    reference = {"kind": "ClusterRole", "name": name, "apiGroup": ClusterRole.group}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [user("nobody-at-all")]}
    await api.client.create(ClusterRoleBinding, binding)
    change = {"metadata": {"labels": {"a": "b"}}}
    answer = await eve.call("PATCH", ClusterRoleBinding.path("", name), change, type=MERGE)
    assert (answer.status, "not currently held" in answer.message) == (403, True)


async def test_an_aggregated_role_is_for_those_who_may_do_everything(api: Api) -> None:
    """Also the one that aggregates already and holds nothing: it may hold something a moment later."""
    eve = await writer(api)
    gathers = {"clusterRoleSelectors": [{"matchLabels": {"test.dev/nobody": fresh("x")}}]}
    name = fresh("gathering")
    body = {"metadata": {"name": name}, "aggregationRule": gathers}
    answer = await eve.call("POST", ClusterRole.path(), body)
    assert (answer.status, "must have cluster-admin privileges to use the aggregationRule" in answer.message) == (
        403,
        True,
    )
    await api.client.create(ClusterRole, body)
    changes: list[Object] = [{"metadata": {"labels": {"a": "b"}}}, {"aggregationRule": None, "rules": []}]
    for change in changes:
        answer = await eve.call("PATCH", ClusterRole.path("", name), change, type=MERGE)
        assert answer.status == 403
        assert "must have cluster-admin privileges to use the aggregationRule" in answer.message


async def test_escalate_for_one_name_does_not_make_a_new_role(api: Api) -> None:
    """A POST names its object in the body, and the right to escalate is looked up for the path."""
    name = fresh("chosen")
    may = rule(["escalate"], ["clusterroles"], ["rbac.authorization.k8s.io"], resourceNames=[name])
    eve = await writer(api, may)
    answer = await eve.call("POST", ClusterRole.path(), {"metadata": {"name": name}, "rules": [ALL]})
    assert (answer.status, "not currently held" in answer.message) == (403, True)


# Tokens.


async def token_secret(api: Api, namespace: str) -> str:
    """The token of a new Secret `s` for the account `robot`."""
    await api.client.create(ServiceAccount, {"metadata": {"name": "robot", "namespace": namespace}})
    await make_token_secret(api, namespace)
    return await token_in(api, namespace)


async def make_token_secret(api: Api, namespace: str) -> None:
    notes = {"kubernetes.io/service-account.name": "robot"}
    metadata = {"name": "s", "namespace": namespace, "annotations": notes}
    await api.client.create(Secret, {"metadata": metadata, "type": "kubernetes.io/service-account-token"})


async def token_in(api: Api, namespace: str) -> str:
    async def filled() -> str:
        return str(((await api.client.get(Secret, namespace, "s")).get("data") or {}).get("token", ""))

    return base64.b64decode(await eventually(filled)).decode()


async def status_with(api: Api, token: str) -> int:
    """What a request with the token is answered: 403 where it is known, 401 where it is not."""
    path = Secret.path("kube-system")
    response = await api.as_user(token).transport.send("GET", path, headers={"Accept": "application/json"})
    await response.read()
    return response.status


async def refused(api: Api, token: str) -> bool:
    """A real server remembers a good token for some seconds."""
    return await status_with(api, token) == 401


async def test_a_token_that_its_secret_no_longer_holds_is_refused(api: Api) -> None:
    namespace = await api.namespace()
    token = await token_secret(api, namespace)
    assert await status_with(api, token) == 403
    await api.client.patch(Secret, namespace, "s", {"stringData": {"token": "another"}})
    await eventually(lambda: refused(api, token))


async def test_a_token_ends_with_its_secret_though_another_takes_the_name(api: Api) -> None:
    namespace = await api.namespace()
    token = await token_secret(api, namespace)
    assert await status_with(api, token) == 403
    await api.client.delete(Secret, namespace, "s")
    await api.client.create(Secret, {"metadata": {"name": "s", "namespace": namespace}, "stringData": {"a": "b"}})
    await eventually(lambda: refused(api, token))


async def test_a_token_marked_invalid_is_refused(api: Api) -> None:
    namespace = await api.namespace()
    token = await token_secret(api, namespace)
    marked = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2024-01-01"}}}
    await api.client.patch(Secret, namespace, "s", marked)
    await eventually(lambda: refused(api, token))


# Reviews.


@pytest.mark.parametrize("in_body", ["{victim}", "{own}"])
async def test_a_local_review_answers_for_the_namespace_of_its_path(api: Api, in_body: str) -> None:
    own, victim = await api.namespace("own"), await api.namespace("victim")
    asked = in_body.format(own=own, victim=victim)
    attributes = {"namespace": asked, "verb": "get", "resource": "secrets"}
    body = {"metadata": {"namespace": asked}, "spec": {"user": "bob", "resourceAttributes": attributes}}
    tenant = Someone(api, fresh("tenant"))
    await grant(api, own, [ALL], user(tenant.name))
    answer = await tenant.call(
        "POST", f"/apis/authorization.k8s.io/v1/namespaces/{own}/localsubjectaccessreviews", body
    )
    if asked == own:
        assert (answer.status, answer.body["status"]["allowed"]) == (201, False)
    else:
        assert answer.status == 400
        assert answer.message == "the namespace of the provided object does not match the namespace sent on the request"


@pytest.mark.parametrize("path", ["pods/p/eviction", "pods/p/binding", "serviceaccounts/default/token"])
async def test_a_body_cannot_lead_a_subresource_to_another_namespace(api: Api, path: str) -> None:
    own, victim = await api.namespace("own"), await api.namespace("victim")
    body = {"metadata": {"name": path.split("/")[1], "namespace": victim}, "target": {"name": "n"}, "spec": {}}
    answer = await call(api, "POST", f"/api/v1/namespaces/{own}/{path}", body)
    assert answer.status == 400
    assert answer.message == "the namespace of the provided object does not match the namespace sent on the request"
