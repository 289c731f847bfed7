"""The roles for users: who may do what, as the server asks."""

from __future__ import annotations

import pytest

from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of, name_of
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.operator import operator
from modelyard.operators.mlflow.roles import user_roles
from modelyard.runtime.declaring.rbac import grants

KUBEFLOW = "mlflow.kubeflow.org"


def role(which: str) -> Object:
    (found,) = [role for role in user_roles(Settings()) if name_of(role) == f"mlflow-operator-mlflow-{which}"]
    return found


def verbs(which: str, resource: str, group: str = KUBEFLOW) -> set[str]:
    rules = role(which)["rules"]
    return {verb for r in rules if group in r["apiGroups"] and resource in r["resources"] for verb in r["verbs"]}


@pytest.mark.parametrize(
    ("which", "resource", "granted"),
    [
        ("view", "experiments", {"get", "list"}),
        ("view", "mlflowconfigs", {"get", "list", "watch"}),
        ("view", "gatewaysecrets", set()),
        ("edit", "experiments", {"create", "update", "delete"}),
        ("edit", "gatewaysecrets", {"get", "list", "create", "update", "delete"}),
        ("edit", "gatewayendpoints/use", {"create"}),
        ("edit", "mlflowconfigs", {"create", "delete", "deletecollection", "patch", "update"}),
        ("integration", "registeredmodels", {"get", "list", "create", "update"}),
        ("integration", "gatewayendpoints/use", {"create"}),
        ("integration", "mlflowconfigs", set()),
        ("view", "datasets", {"get", "list"}),
        ("view", "registeredmodels", {"get", "list"}),
        ("view", "gatewayendpoints", {"get", "list"}),
        ("view", "gatewaymodeldefinitions", {"get", "list"}),
        ("view", "mcpservers", {"get", "list"}),
        ("edit", "datasets", {"create", "update", "delete"}),
        ("edit", "registeredmodels", {"create", "update", "delete"}),
        ("edit", "gatewayendpoints", {"create", "update", "delete"}),
        ("edit", "gatewaymodeldefinitions", {"create", "update", "delete"}),
        ("edit", "mcpservers", {"create", "update", "delete"}),
        ("edit", "gatewaysecrets/use", {"create"}),
        ("edit", "gatewaymodeldefinitions/use", {"create"}),
        ("integration", "datasets", {"get", "list", "create", "update"}),
        ("integration", "experiments", {"get", "list", "create", "update"}),
        ("integration", "gatewayendpoints", {"get", "list"}),
        ("integration", "mcpservers", {"get", "list"}),
    ],
)
def test_what_a_role_grants(which: str, resource: str, granted: set[str]) -> None:
    assert verbs(which, resource) == granted


def test_what_the_roles_grant_on_the_servers_themselves() -> None:
    group = "mlflow.opendatahub.io"
    assert verbs("view", "mlflows", group) == verbs("view", "mlflows/status", group) == {"get", "list", "watch"}
    write = {"create", "delete", "deletecollection", "patch", "update"}
    assert verbs("edit", "mlflows", group) == {"get", "list", "watch"} | write
    assert verbs("edit", "mlflows/finalizers", group) == {"patch", "update"}


@pytest.mark.parametrize(
    ("which", "into"), [("view", {"view", "edit", "admin"}), ("edit", {"edit", "admin"}), ("integration", set())]
)
def test_the_roles_become_part_of_kubernetes_own(which: str, into: set[str]) -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert {name.removeprefix(prefix) for name in labels_of(role(which)) if name.startswith(prefix)} == into


def test_the_bindings_of_namespaces_refer_to_these_roles() -> None:
    settings = Settings(resource_name_prefix="x-")
    assert {settings.view_role, settings.edit_role} <= {name_of(role) for role in user_roles(settings)}


READ = {"get", "list", "watch"}
KEEP = READ | {"create", "patch", "delete"}
CHANGE = {"update", "patch", "delete"}
OURS = ("mlflow", "mlflow-gc")
GROUPS = ("odh-group-mlflow-view", "odh-group-mlflow-edit")
ROLES = ("mlflow-operator-mlflow-view", "mlflow-operator-mlflow-edit")
RBAC = "rbac.authorization.k8s.io"
PLATFORM = {"ENABLE_NAMESPACE_RBAC": "true", "ENABLE_MLFLOW_OPERATOR_MODULE_CONTROLLER": "true"}
CLUSTER: dict[tuple[str, str, tuple[str, ...]], set[str]] = {
    ("", "namespaces", ()): READ,
    ("", "secrets", ("mlflow-artifact-connection",)): READ,
    ("components.platform.opendatahub.io", "mlflowoperators", ()): READ | {"patch"},
    ("components.platform.opendatahub.io", "mlflowoperators/finalizers", ()): {"update"},
    ("components.platform.opendatahub.io", "mlflowoperators/status", ()): {"get", "patch"},
    ("console.openshift.io", "consolelinks", ()): KEEP,
    ("mlflow.kubeflow.org", "mlflowconfigs", ()): READ,
    ("mlflow.opendatahub.io", "mlflows", ()): READ | {"patch"},
    ("mlflow.opendatahub.io", "mlflows/finalizers", ()): {"update"},
    ("mlflow.opendatahub.io", "mlflows/status", ()): {"get", "patch"},
    (RBAC, "clusterroles", OURS): CHANGE,
    (RBAC, "clusterrolebindings", OURS): CHANGE,
    (RBAC, "clusterroles", ()): READ | {"create"},
    (RBAC, "clusterrolebindings", ()): READ | {"create"},
    (RBAC, "rolebindings", ()): READ | {"create"},
    (RBAC, "rolebindings", GROUPS): CHANGE,
    (RBAC, "clusterroles", ROLES): {"bind"},
    ("services.platform.opendatahub.io", "auths", ("auth",)): READ,
    # Not upstream's: what its gc role grants (Q8), volumes that grow (Q3), Events (Q26), kinds that come (Q21), its Lease.
    ("mlflow.kubeflow.org", "experiments", ()): {"get", "list", "update"},
    ("storage.k8s.io", "storageclasses", ()): READ,
    ("", "events", ()): {"get", "create", "patch"},
    ("apiextensions.k8s.io", "customresourcedefinitions", ()): READ,
    ("coordination.k8s.io", "leases", ("a5eb1b3b.opendatahub.io",)): READ,
}
NAMESPACE = {
    **{("", name): KEEP for name in ("configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services")},
    ("apps", "deployments"): KEEP,
    ("batch", "jobs"): KEEP,
    ("batch", "cronjobs"): KEEP,
    ("networking.k8s.io", "networkpolicies"): KEEP,
    ("monitoring.coreos.com", "servicemonitors"): KEEP,
    ("gateway.networking.k8s.io", "httproutes"): KEEP,
    ("gateway.networking.k8s.io", "backendtlspolicies"): KEEP,
    ("", "pods"): READ,
    # Not upstream's: whose pods are ours.
    ("apps", "replicasets"): READ,
}


def granted(place: str) -> dict[tuple[str, str, tuple[str, ...]], set[str]]:
    """What the operator with all its parts may do in a place, resource by resource."""
    found: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for rule in grants(operator(PLATFORM).controllers, home="plane").rules(place):
        names = tuple(rule.get("resourceNames", ()))
        for resource in rule["resources"]:
            found.setdefault((rule["apiGroups"][0], resource, names), set()).update(rule["verbs"])
    return found


def test_the_operators_own_cluster_role() -> None:
    assert granted("") == CLUSTER


def test_the_operators_own_role_in_the_servers_namespace() -> None:
    assert granted("opendatahub") == {(group, resource, ()): verbs for (group, resource), verbs in NAMESPACE.items()}


def test_the_lease_is_the_planes_own() -> None:
    assert granted("plane") == {("coordination.k8s.io", "leases", ()): {"get", "create", "update"}}
