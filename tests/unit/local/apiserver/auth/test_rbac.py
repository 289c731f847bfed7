"""Rules: what they allow, what covers what, and how missing ones are shown."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from modelyard.local.apiserver.auth.escalation import compact, covers, parts, show
from modelyard.local.apiserver.auth.rbac import Rbac, Rule
from modelyard.local.apiserver.requests.hooks import Attributes
from modelyard.local.apiserver.requests.messages import UserInfo
from modelyard.local.apiserver.storage.store import Store

BOB = UserInfo("bob", groups=("devs", "system:authenticated"))


def ask(
    verb: str, resource: str, *, group: str = "", namespace: str = "a", name: str = "", user: UserInfo = BOB
) -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(user, verb, "", True, group, "v1", resource, subresource, namespace, name)


def rule(verbs: str, resources: str, groups: str = "", names: str = "") -> Rule:
    """Each text holds names with commas between."""
    split = [tuple(text.split(",")) for text in (verbs, groups, resources, names)]
    return Rule(split[0], split[1], split[2], split[3] if names else ())


@pytest.mark.parametrize(
    ("given", "asked", "allowed"),
    [
        (rule("get", "pods"), ask("get", "pods"), True),
        (rule("get", "pods"), ask("list", "pods"), False),
        (rule("get", "pods"), ask("get", "pods/log"), False),
        (rule("get", "pods/log"), ask("get", "pods/log"), True),
        (rule("get", "pods/log"), ask("get", "pods"), False),
        (rule("get", "*"), ask("get", "pods/log"), True),
        (rule("get", "*/scale", "apps"), ask("get", "deployments/scale", group="apps"), True),
        (rule("get", "*/scale", "apps"), ask("get", "deployments", group="apps"), False),
        (rule("*", "*", "*"), ask("anything", "things/sub", group="x.y"), True),
        (rule("get", "pods", "apps"), ask("get", "pods"), False),
        (rule("get", "pods", names="x"), ask("get", "pods", name="x"), True),
        (rule("get", "pods", names="x"), ask("get", "pods", name="y"), False),
        (rule("list", "pods", names="x"), ask("list", "pods"), False),
        (Rule(("get",), non_resource_urls=("/a/*",)), Attributes(BOB, "get", "/a/b/c"), True),
        (Rule(("get",), non_resource_urls=("/a/*",)), Attributes(BOB, "get", "/b"), False),
        (Rule(("get",), non_resource_urls=("*",)), Attributes(BOB, "get", "/b"), True),
        (Rule(("get",), non_resource_urls=("/a",)), ask("get", "pods"), False),
        (rule("get", "*", "*"), Attributes(BOB, "get", "/b"), False),
    ],
)
def test_rules(given: Rule, asked: Attributes, allowed: bool) -> None:
    assert given.allows(asked) is allowed


class TestRbac:
    async def put(self, store: Store, kind: Any, name: str, namespace: str = "", **content: Any) -> None:
        metadata = {"name": name, "uid": name} | ({"namespace": namespace} if namespace else {})
        current = store.get(kind.resource, namespace, name)
        await store.put(kind.resource, {"metadata": metadata, **content}, current)

    async def test_changes_count_from_the_next_question_on(self) -> None:
        store = Store()
        rbac = Rbac(store)
        assert not rbac.decide(ask("get", "pods")).allowed
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        await self.put(store, Role, "r", "a", rules=rules)
        reference = {"kind": "Role", "name": "r"}
        await self.put(store, RoleBinding, "b", "a", roleRef=reference, subjects=[{"kind": "Group", "name": "devs"}])
        decision = rbac.decide(ask("get", "pods"))
        assert decision.allowed
        assert decision.reason == 'RBAC: allowed by RoleBinding "b/a" of Role "r" to Group "devs"'
        assert not rbac.decide(ask("get", "pods", namespace="b")).allowed
        await self.put(store, Role, "r", "a", rules=[])
        assert not rbac.decide(ask("get", "pods")).allowed
        await self.put(store, Role, "r", "a", rules=rules)
        await self.put(store, RoleBinding, "b", "a", roleRef=reference, subjects=[])
        assert not rbac.decide(ask("get", "pods")).allowed

    async def test_service_accounts_of_the_binding_namespace(self) -> None:
        store = Store()
        rbac = Rbac(store)
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        await self.put(store, ClusterRole, "r", rules=rules)
        subjects = [{"kind": "ServiceAccount", "name": "robot"}]
        await self.put(store, RoleBinding, "b", "a", roleRef={"kind": "ClusterRole", "name": "r"}, subjects=subjects)
        robot = UserInfo("system:serviceaccount:a:robot")
        assert rbac.decide(ask("get", "pods", user=robot)).allowed
        assert not rbac.decide(ask("get", "pods", user=UserInfo("system:serviceaccount:b:robot"))).allowed

    async def test_masters_need_no_binding(self) -> None:
        root = UserInfo("root", groups=("system:masters",))
        assert Rbac(Store()).decide(ask("delete", "everything", user=root)).allowed

    async def test_stored_roles_are_known_at_the_start(self) -> None:
        store = Store()
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        await self.put(store, ClusterRole, "all", rules=rules)
        subjects = [{"kind": "User", "name": "bob"}]
        await self.put(
            store, ClusterRoleBinding, "b", roleRef={"kind": "ClusterRole", "name": "all"}, subjects=subjects
        )
        assert Rbac(store).decide(ask("get", "pods", namespace="")).allowed

    async def test_missing_roles_are_named(self) -> None:
        store = Store()
        subjects = [{"kind": "User", "name": "bob"}]
        for name in ("b1", "b2"):
            reference = {"kind": "ClusterRole", "name": f"role-{name}"}
            await self.put(store, ClusterRoleBinding, name, roleRef=reference, subjects=subjects)
        reason = Rbac(store).decide(ask("get", "pods")).reason
        assert reason == (
            'rbac: RBAC: [clusterrole.rbac.authorization.k8s.io "role-b1" not found, '
            'clusterrole.rbac.authorization.k8s.io "role-b2" not found]'
        )


@pytest.mark.parametrize(
    ("own", "wanted", "covered"),
    [
        (rule("get,list", "pods"), rule("get", "pods"), True),
        (rule("get", "pods"), rule("get", "pods", names="x"), True),
        (rule("get", "pods", names="x"), rule("get", "pods"), False),
        (rule("get", "*"), rule("get", "pods/log"), True),
        (rule("get", "*/log"), rule("get", "pods/log"), True),
        (rule("get", "pods"), rule("get", "pods/log"), False),
        (rule("get", "pods"), rule("*", "pods"), False),
        (Rule(("get",), non_resource_urls=("/a/*",)), Rule(("get",), non_resource_urls=("/a/b",)), True),
        (Rule(("get",), non_resource_urls=("/a",)), Rule(("get",), non_resource_urls=("/a/*",)), False),
    ],
)
def test_what_covers_what(own: Rule, wanted: Rule, covered: bool) -> None:
    assert all(covers(own, part) for part in parts(wanted)) is covered


def test_missing_rules_are_shown_together() -> None:
    missing = [
        part for each in (rule("get,list", "pods,secrets"), rule("get", "pods", "apps", "x")) for part in parts(each)
    ]
    assert [show(each) for each in compact(missing)] == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
        '{APIGroups:["apps"], Resources:["pods"], ResourceNames:["x"], Verbs:["get"]}',
    ]
