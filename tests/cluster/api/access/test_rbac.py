"""RBAC: who may what, through which binding, what may be granted by whom, and aggregated roles."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, ConfigMap, Pod, Role, RoleBinding, Secret
from modelyard.kube.kinds import Object
from tests.cluster.api.calls import MERGE, Answer, call, eventually
from tests.cluster.conftest import Api

_numbers = itertools.count(1)


def fresh(prefix: str) -> str:
    """A name that no other test uses, for objects without a namespace."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


@dataclass
class Someone:
    """A user other than the administrator, who impersonates the administrator."""

    api: Api
    name: str
    groups: Sequence[str] = ()

    async def call(self, method: str, path: str, body: Any = None, *, type: str = "application/json") -> Answer:
        headers = {"Accept": "application/json", "Impersonate-User": self.name}
        if self.groups:
            headers["Impersonate-Group"] = self.groups[0]
        payload = b""
        if body is not None:
            headers["Content-Type"] = type
            payload = json.dumps(body).encode()
        response = await self.api.client.transport.send(method, path, headers=headers, body=payload)
        return Answer(response.status, json.loads(await response.read() or b"null"), response.headers)


def rule(verbs: Sequence[str], resources: Sequence[str], groups: Sequence[str] = ("",), **more: Any) -> Object:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources), **more}


async def grant(api: Api, namespace: str, rules: list[Object], subject: Object, name: str = "r") -> None:
    """Gives rules to a subject in a namespace, or everywhere."""
    if namespace:
        metadata = {"name": name, "namespace": namespace}
        await api.client.create(Role, {"metadata": metadata, "rules": rules})
        reference = {"kind": "Role", "name": name}
        await api.client.create(RoleBinding, {"metadata": metadata, "roleRef": reference, "subjects": [subject]})
        await settled(api, subject, namespace)
        return
    await api.client.create(ClusterRole, {"metadata": {"name": name}, "rules": rules})
    reference = {"kind": "ClusterRole", "name": name}
    await api.client.create(
        ClusterRoleBinding, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    )
    await settled(api, subject, "default")


async def settled(api: Api, subject: Object, namespace: str) -> None:
    """The real server looks at bindings through a cache."""
    if not api.real:
        return
    who = Someone(api, subject["name"] if subject["kind"] == "User" else "x", [subject["name"]])
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    before = 2

    async def seen() -> bool:
        answer = await who.call("POST", path, {"spec": {"namespace": namespace}})
        return len(answer.body["status"]["resourceRules"]) > before

    await eventually(seen)


def user(name: str) -> Object:
    return {"kind": "User", "name": name}


async def test_nothing_is_allowed_without_a_binding(api: Api) -> None:
    namespace = await api.namespace()
    eve = Someone(api, fresh("eve"))
    answer = await eve.call("GET", Secret.path(namespace))
    assert (answer.status, answer.reason) == (403, "Forbidden")
    why = f'User "{eve.name}" cannot list resource "secrets" in API group "" in the namespace "{namespace}"'
    assert answer.message == f"secrets is forbidden: {why}"
    assert answer.body["details"] == {"kind": "secrets"}


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        (
            "GET",
            "/api/v1/secrets",
            'secrets is forbidden: User "{0}" cannot list resource "secrets" in API group "" at the cluster scope',
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/x/log",
            'pods "x" is forbidden: User "{0}" cannot get resource "pods/log" in API group "" in the namespace "default"',
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/default/deployments/x",
            'deployments.apps "x" is forbidden: User "{0}" cannot delete resource "deployments" in API group "apps" in the '
            'namespace "default"',
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/default/deployments",
            'deployments.apps is forbidden: User "{0}" cannot deletecollection resource "deployments" in API group "apps" in the '
            'namespace "default"',
        ),
        (
            "GET",
            "/apis/none.example/v1/things",
            'things.none.example is forbidden: User "{0}" cannot list resource "things" in API group "none.example" at the '
            "cluster scope",
        ),
        ("GET", "/secret-path", 'forbidden: User "{0}" cannot get path "/secret-path"'),
    ],
)
async def test_words_of_a_refusal(api: Api, method: str, path: str, message: str) -> None:
    eve = Someone(api, fresh("eve"))
    answer = await eve.call(method, path)
    assert (answer.status, answer.message) == (403, message.format(eve.name))


async def test_role_binding_allows_in_its_namespace_only(api: Api) -> None:
    here, there = await api.namespace(), await api.namespace()
    bob = Someone(api, fresh("bob"))
    await grant(api, here, [rule(["get", "list"], ["pods"])], user(bob.name))
    assert (await bob.call("GET", Pod.path(here))).status == 200
    assert (await bob.call("GET", Pod.path(there))).status == 403
    assert (await bob.call("GET", Pod.path())).status == 403
    assert (await bob.call("POST", Pod.path(here), {})).status == 403


async def test_cluster_role_binding_allows_everywhere(api: Api) -> None:
    namespace, name = await api.namespace(), fresh("reader")
    group = fresh("devs")
    await grant(api, "", [rule(["*"], ["configmaps"])], {"kind": "Group", "name": group}, name)
    ann = Someone(api, fresh("ann"), [group])
    assert (await ann.call("GET", ConfigMap.path())).status == 200
    assert (await ann.call("GET", ConfigMap.path(namespace))).status == 200
    assert (await ann.call("GET", Secret.path(namespace))).status == 403


async def test_resource_names_limit_a_rule(api: Api) -> None:
    namespace = await api.namespace()
    bob = Someone(api, fresh("bob"))
    await grant(api, namespace, [rule(["get", "list"], ["configmaps"], resourceNames=["one"])], user(bob.name))
    assert (await bob.call("GET", ConfigMap.path(namespace, "one"))).status == 404
    assert (await bob.call("GET", ConfigMap.path(namespace, "two"))).status == 403
    assert (await bob.call("GET", ConfigMap.path(namespace))).status == 403
    assert (await bob.call("GET", ConfigMap.path(namespace) + "?fieldSelector=metadata.name%3Done")).status == 200


async def test_subresources_need_rules_of_their_own(api: Api) -> None:
    namespace = await api.namespace()
    bob = Someone(api, fresh("bob"))
    await grant(api, namespace, [rule(["get"], ["pods/log"]), rule(["*"], ["*/scale"], ["apps"])], user(bob.name))
    assert (await bob.call("GET", Pod.path(namespace, "x", "log"))).status == 404
    assert (await bob.call("GET", Pod.path(namespace, "x"))).status == 403
    assert (await bob.call("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/x/scale")).status == 404


async def test_binding_to_a_missing_role_is_named(api: Api) -> None:
    namespace = await api.namespace()
    bob = Someone(api, fresh("bob"))
    body = {
        "metadata": {"name": "b", "namespace": namespace},
        "roleRef": {"kind": "Role", "name": "none"},
        "subjects": [user(bob.name)],
    }
    await api.client.create(RoleBinding, body)

    async def named() -> bool:
        answer = await bob.call("GET", Pod.path(namespace))
        return answer.message.endswith(': rbac: RBAC: role.rbac.authorization.k8s.io "none" not found')

    await eventually(named)


async def test_revoked_access_ends(api: Api) -> None:
    namespace = await api.namespace()
    bob = Someone(api, fresh("bob"))
    await grant(api, namespace, [rule(["list"], ["pods"])], user(bob.name))
    assert (await bob.call("GET", Pod.path(namespace))).status == 200
    await api.client.delete(RoleBinding, namespace, "r")

    async def refused() -> bool:
        return (await bob.call("GET", Pod.path(namespace))).status == 403

    await eventually(refused)


class TestEscalation:
    rules = (
        rule(["create", "update", "patch", "get"], ["roles", "rolebindings"], ["rbac.authorization.k8s.io"]),
        rule(["get", "list"], ["pods"]),
    )

    async def manager(self, api: Api, namespace: str, *more: Object) -> Someone:
        bob = Someone(api, fresh("bob"))
        await grant(api, namespace, [*self.rules, *more], user(bob.name), "manager")
        return bob

    async def test_role_may_hold_what_its_writer_has(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = await self.manager(api, namespace)
        body = {"metadata": {"name": "r"}, "rules": [rule(["get"], ["pods"])]}
        assert (await bob.call("POST", Role.path(namespace), body)).status == 201

    async def test_role_may_not_hold_more(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = await self.manager(api, namespace)
        rules = [rule(["get", "delete"], ["secrets", "pods"]), rule(["*"], ["*"], ["apps"], resourceNames=["x"])]
        answer = await bob.call("POST", Role.path(namespace), {"metadata": {"name": "r"}, "rules": rules})
        assert answer.status == 403
        assert answer.message == (
            f'roles.rbac.authorization.k8s.io "r" is forbidden: user "{bob.name}" (groups=["system:authenticated"]) is '
            "attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}\n'
            '{APIGroups:["apps"], Resources:["*"], ResourceNames:["x"], Verbs:["*"]}'
        )

    async def test_change_of_a_role_is_checked_too(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = await self.manager(api, namespace)
        await api.client.create(Role, {"metadata": {"name": "r", "namespace": namespace}, "rules": []})
        path = Role.path(namespace, "r")
        assert (await bob.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, type=MERGE)).status == 200
        change = {"rules": [rule(["*"], ["*"], ["*"])]}
        assert (await bob.call("PATCH", path, change, type=MERGE)).status == 403

    async def test_escalate_verb_lifts_the_check(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = await self.manager(api, namespace, rule(["escalate"], ["roles"], ["rbac.authorization.k8s.io"]))
        body = {"metadata": {"name": "r"}, "rules": [rule(["*"], ["*"], ["*"])]}
        assert (await bob.call("POST", Role.path(namespace), body)).status == 201

    async def test_binding_needs_what_the_role_has(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = await self.manager(api, namespace)
        body = {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
        answer = await bob.call("POST", RoleBinding.path(namespace), body)
        assert answer.status == 403
        assert "is attempting to grant RBAC permissions not currently held:\n" in answer.message
        assert '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}' in answer.message

    async def test_bind_verb_lifts_that_check(self, api: Api) -> None:
        namespace = await api.namespace()
        allowed = rule(["bind"], ["clusterroles"], ["rbac.authorization.k8s.io"], resourceNames=["cluster-admin"])
        bob = await self.manager(api, namespace, allowed)
        body = {"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
        assert (await bob.call("POST", RoleBinding.path(namespace), body)).status == 201

    async def test_binding_to_a_missing_role_is_not_found(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = await self.manager(api, namespace)
        body = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "none"}}
        answer = await bob.call("POST", RoleBinding.path(namespace), body)
        assert (answer.status, answer.message) == (404, 'rolebindings.rbac.authorization.k8s.io "none" not found')


async def test_aggregated_role_follows_the_roles_it_selects(api: Api) -> None:
    name, part, label = fresh("all"), fresh("part"), fresh("label")
    selector = {"clusterRoleSelectors": [{"matchLabels": {label: "yes"}}]}
    await api.client.create(ClusterRole, {"metadata": {"name": name}, "aggregationRule": selector})
    rules = [rule(["get"], ["widgets"], ["example.com"])]
    await api.client.create(ClusterRole, {"metadata": {"name": part, "labels": {label: "yes"}}, "rules": rules})

    async def has(expected: list[Object]) -> bool:
        return ((await api.client.get(ClusterRole, "", name)).get("rules") or []) == expected

    await eventually(lambda: has(rules))
    await api.client.delete(ClusterRole, "", part)
    await eventually(lambda: has([]))


async def test_view_edit_and_admin_include_each_other(api: Api) -> None:
    roles = {name: (await api.client.get(ClusterRole, "", name))["rules"] for name in ("view", "edit", "admin")}
    assert all(each in roles["edit"] for each in roles["view"])
    assert all(each in roles["admin"] for each in roles["edit"])
    assert len(roles["view"]) < len(roles["edit"]) < len(roles["admin"])


async def test_everyone_may_discover_and_ask_about_himself(api: Api) -> None:
    eve = Someone(api, fresh("eve"))
    for path in ("/api", "/apis", "/version", "/healthz", "/openapi/v3"):
        answer = await eve.api.client.transport.send("GET", path, headers={"Impersonate-User": eve.name})
        assert answer.status == 200, path
        await answer.read()
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert (await eve.call("POST", review, {"spec": spec})).body["status"] == {"allowed": False}


class TestReviews:
    async def test_subject_access_review_says_why(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = fresh("bob")
        await grant(api, namespace, [rule(["get"], ["pods"])], user(bob))
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        spec: Object = {"user": bob, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace}}
        answer = await call(api, "POST", path, {"spec": spec})
        reason = f'RBAC: allowed by RoleBinding "r/{namespace}" of Role "r" to User "{bob}"'
        assert (answer.status, answer.body["status"]) == (201, {"allowed": True, "reason": reason})
        spec["resourceAttributes"]["verb"] = "delete"
        assert (await call(api, "POST", path, {"spec": spec})).body["status"] == {"allowed": False}

    @pytest.mark.parametrize(
        ("kind", "spec", "causes"),
        [
            (
                "selfsubjectaccessreviews",
                {},
                [
                    (
                        "spec",
                        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
                    )
                ],
            ),
            (
                "subjectaccessreviews",
                {"nonResourceAttributes": {"path": "/", "verb": "get"}},
                [("spec.user", 'Invalid value: "": at least one of user or group must be specified')],
            ),
        ],
    )
    async def test_incomplete_questions_are_refused(
        self, api: Api, kind: str, spec: Object, causes: list[tuple[str, str]]
    ) -> None:
        answer = await call(api, "POST", f"/apis/authorization.k8s.io/v1/{kind}", {"spec": spec})
        assert (answer.status, answer.causes) == (422, causes)

    async def test_local_review_is_about_its_namespace(self, api: Api) -> None:
        namespace = await api.namespace()
        path = f"/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews"
        spec = {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}
        answer = await call(api, "POST", path, {"spec": spec})
        message = 'Invalid value: "other": must match metadata.namespace'
        assert answer.causes == [("spec.resourceAttributes.namespace", message)]

    async def test_rules_review_lists_what_one_has(self, api: Api) -> None:
        namespace = await api.namespace()
        bob = Someone(api, fresh("bob"))
        await grant(api, namespace, [rule(["get"], ["pods"], resourceNames=["x"])], user(bob.name))
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        answer = await bob.call("POST", path, {"spec": {"namespace": namespace}})
        status = answer.body["status"]
        assert status["incomplete"] is False
        mine = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]}
        assert mine in status["resourceRules"]
        assert any("/healthz" in each["nonResourceURLs"] for each in status["nonResourceRules"])

    async def test_rules_review_needs_a_namespace(self, api: Api) -> None:
        answer = await call(api, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {}})
        assert (answer.status, answer.message) == (400, "no namespace on request")


class TestImpersonation:
    async def test_everything_about_a_user_can_be_taken_on(self, api: Api) -> None:
        headers = {
            "Impersonate-User": "ann", "Impersonate-Group": "devs", "Impersonate-Uid": "7", "Impersonate-Extra-Team%2fid": "x",
            "Content-Type": "application/json", "Accept": "application/json",
        }  # fmt: skip
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        response = await api.client.transport.send("POST", path, headers=headers, body=b"{}")
        info = json.loads(await response.read())["status"]["userInfo"]
        assert info == {
            "username": "ann", "uid": "7", "groups": ["devs", "system:authenticated"], "extra": {"team/id": ["x"]},
        }  # fmt: skip

    async def test_service_account_brings_its_groups(self, api: Api) -> None:
        who = Someone(api, "system:serviceaccount:default:robot")
        answer = await who.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
        assert answer.body["status"]["userInfo"]["groups"] == groups

    async def test_groups_alone_are_refused(self, api: Api) -> None:
        headers = {"Impersonate-Group": "devs", "Accept": "application/json"}
        response = await api.client.transport.send("GET", "/api/v1/namespaces", headers=headers)
        body = (await response.read()).decode()
        assert response.status == 400
        assert "without impersonating a user name" in body
