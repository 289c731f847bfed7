"""The roles for users: who may do what, as the server asks."""

from __future__ import annotations

import pytest

from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of, name_of
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.roles import user_roles

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
    ],
)
def test_what_a_role_grants(which: str, resource: str, granted: set[str]) -> None:
    assert verbs(which, resource) == granted


@pytest.mark.parametrize(
    ("which", "into"), [("view", {"view", "edit", "admin"}), ("edit", {"edit", "admin"}), ("integration", set())]
)
def test_the_roles_become_part_of_kubernetes_own(which: str, into: set[str]) -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert {name.removeprefix(prefix) for name in labels_of(role(which)) if name.startswith(prefix)} == into


def test_the_bindings_of_namespaces_refer_to_these_roles() -> None:
    settings = Settings(resource_name_prefix="x-")
    assert {settings.view_role, settings.edit_role} <= {name_of(role) for role in user_roles(settings)}
