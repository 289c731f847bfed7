"""The ClusterRoles for users of MLflow, installed with the operator: what the server asks Kubernetes about is granted by these."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.parts import build

KUBEFLOW, OPENDATAHUB = "mlflow.kubeflow.org", "mlflow.opendatahub.io"
_READ = ("get", "list", "watch")
_TRACKED = ("datasets", "experiments", "registeredmodels")
_GATEWAY = ("gatewayendpoints", "gatewaymodeldefinitions")


def user_roles(settings: Settings) -> list[Object]:
    """To view and to edit (both become part of Kubernetes' own roles), and to use from an integration."""
    view = [
        build.rule([OPENDATAHUB], ["mlflows", "mlflows/status"], _READ),
        build.rule([KUBEFLOW], ["mlflowconfigs"], _READ),
        build.rule([KUBEFLOW], [*_TRACKED, *_GATEWAY, "mcpservers"], ["get", "list"]),
    ]
    write = ["create", "delete", "deletecollection", "patch", "update"]
    edit = [
        build.rule([OPENDATAHUB], ["mlflows"], [*_READ, *write]),
        build.rule([OPENDATAHUB], ["mlflows/finalizers"], ["patch", "update"]),
        build.rule([KUBEFLOW], ["mlflowconfigs"], write),
        build.rule([KUBEFLOW], ["gatewaysecrets"], ["get", "list"]),
        build.rule([KUBEFLOW], [*_TRACKED, "gatewaysecrets", *_GATEWAY, "mcpservers"], ["create", "update", "delete"]),
        build.rule([KUBEFLOW], ["gatewaysecrets/use", *(f"{name}/use" for name in _GATEWAY)], ["create"]),
    ]
    integration = [
        build.rule([KUBEFLOW], _TRACKED, ["get", "list", "create", "update"]),
        build.rule([KUBEFLOW], ["gatewayendpoints", "mcpservers"], ["get", "list"]),
        build.rule([KUBEFLOW], ["gatewayendpoints/use"], ["create"]),
    ]
    return [
        build.cluster_role(settings.view_role, view, _aggregated("view", "edit", "admin")),
        build.cluster_role(settings.edit_role, edit, _aggregated("edit", "admin")),
        build.cluster_role(f"{settings.resource_name_prefix}mlflow-integration", integration, _LABELS),
    ]


_LABELS = {"app.kubernetes.io/name": "mlflow-operator"}


def _aggregated(*roles: str) -> dict[str, str]:
    return _LABELS | {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in roles}
