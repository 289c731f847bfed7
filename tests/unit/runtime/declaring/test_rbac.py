"""RBAC from declarations: what is declared is allowed, and nothing else."""

from __future__ import annotations

from modelyard.kube.builtin import ClusterRoleBinding, ConfigMap, Deployment, Secret, Service
from modelyard.kube.crd import Definition, Resource, Version
from modelyard.kube.kinds import Object
from modelyard.runtime.declaring.controller import Controller, Owns, Permission, Watch
from modelyard.runtime.declaring.rbac import grants, manifests

GREETING = Definition("demo.dev", "Greeting", "greetings", [Version("v1", Resource)])
DEMO = Controller(
    "demo",
    GREETING,
    owns=[Deployment, Owns(ClusterRoleBinding), Owns(ConfigMap, verbs=("get", "create"))],
    watches=[Watch(Secret)],
    permissions=[Permission(("",), ("pods/log",), ("get",), namespace="logs")],
    finalizer="demo.dev/end",
)


def allowed(rules: list[Object], group: str, resource: str) -> set[str]:
    return {v for rule in rules for v in rule["verbs"] if group in rule["apiGroups"] and resource in rule["resources"]}


def test_owned_kinds_are_written_watched_ones_only_read() -> None:
    rules = grants([DEMO]).rules("")
    assert allowed(rules, "apps", "deployments") == {"get", "list", "watch", "create", "patch", "delete"}
    assert allowed(rules, "", "secrets") == {"get", "list", "watch"}
    assert allowed(rules, "", "configmaps") == {"get", "create"}
    assert allowed(rules, "demo.dev", "greetings") == {"get", "list", "watch", "patch"}
    assert allowed(rules, "demo.dev", "greetings/status") == {"get", "patch"}
    assert allowed(rules, "demo.dev", "greetings/finalizers") == {"update"}
    assert allowed(rules, "", "pods") == set()


def test_a_permission_with_a_namespace_is_a_role_there() -> None:
    made = grants([DEMO], home="plane")
    assert allowed(made.rules("logs"), "", "pods/log") == {"get"}
    assert allowed(made.rules(""), "", "pods/log") == set()
    assert allowed(made.rules("plane"), "coordination.k8s.io", "leases") == {"get", "create", "update"}


def test_a_plane_limited_to_a_namespace_needs_cluster_rules_only_for_cluster_scoped_kinds() -> None:
    made = grants([DEMO], namespace="shop")
    assert allowed(made.rules("shop"), "apps", "deployments")
    assert allowed(made.rules(""), "apps", "deployments") == set()
    assert allowed(made.rules(""), "rbac.authorization.k8s.io", "clusterrolebindings")


def test_a_controller_for_some_namespaces_has_roles_there_and_nothing_in_the_cluster() -> None:
    made = grants([Controller("x", Service, owns=[Owns(Secret, namespace="a")], namespaces=["a", "b"])])
    assert allowed(made.rules(""), "", "services") == allowed(made.rules(""), "", "secrets") == set()
    assert allowed(made.rules("b"), "", "services") == {"get", "list", "watch"}
    assert allowed(made.rules("a"), "", "services/finalizers") == {"update"}


def test_the_status_of_a_kind_that_is_not_ours_is_not_ours_to_write() -> None:
    rules = grants([Controller("x", Service, owns=[Secret])]).rules("")
    assert allowed(rules, "", "services/status") == set()


def test_owner_references_that_nobody_makes_need_no_right() -> None:
    rules = grants([Controller("x", ConfigMap, owns=[Owns(ConfigMap, verbs=("get", "patch"))])]).rules("")
    assert allowed(rules, "", "configmaps/finalizers") == set()


def test_manifests_bind_every_role_to_the_service_account() -> None:
    objects = manifests(grants([DEMO], home="plane"), "modelyard", "modelyard", "plane")
    kinds = [(o["kind"], o["metadata"].get("namespace")) for o in objects]
    assert kinds == [
        ("ClusterRole", None), ("ClusterRoleBinding", None), ("Role", "logs"), ("RoleBinding", "logs"), ("Role", "plane"),
        ("RoleBinding", "plane"),
    ]  # fmt: skip
    assert objects[1]["subjects"] == [{"kind": "ServiceAccount", "name": "modelyard", "namespace": "plane"}]
