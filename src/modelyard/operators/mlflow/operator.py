"""The MLflow operator as data: what it serves, watches, ships and can be told."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.operators.mlflow.api import DEFINITIONS
from modelyard.operators.mlflow.config import DEFAULT_IMAGE, DEFAULT_URL, DEFAULT_VERSION, Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.module import module_controller
from modelyard.operators.mlflow.namespace_rbac import namespace_controller
from modelyard.operators.mlflow.roles import user_roles
from modelyard.runtime.operator import ExposedService, Operator, Setting


def operator(environ: Mapping[str, str]) -> Operator:
    """The operator with the settings of these environment variables."""
    settings = Settings.from_environ(environ)
    return Operator(
        name="mlflow",
        title="MLflow",
        upstream="mlflow-operator",
        controllers=[
            mlflow_controller(settings),
            *([module_controller(settings)] if settings.module else []),
            *([namespace_controller(settings)] if settings.namespace_rbac else []),
        ],
        definitions=DEFINITIONS,
        services=[
            ExposedService("minio-service", 9000, "https", 9000, role="sample"),
            ExposedService("postgres-service", 5432, role="sample"),
        ],
        settings=SETTINGS,
        roles=user_roles(settings),
        chart="mlflow v0.1.0",
    )


SETTINGS = (
    Setting("MLFLOW_NAMESPACE", "POD_NAMESPACE, else opendatahub", "Where the server and all that belongs to it live"),
    Setting("RELATED_IMAGE_ODH_MLFLOW_IMAGE", "", "The server's image; goes before MLFLOW_IMAGE"),
    Setting("MLFLOW_IMAGE", DEFAULT_IMAGE, "The server's image"),
    Setting("MLFLOW_VERSION", DEFAULT_VERSION, "The MLflow version in that image; set both or neither"),
    Setting("MLFLOW_URL", DEFAULT_URL, "The external base URL; status.url and the ConsoleLink need it to be set"),
    Setting("GATEWAY_NAME", "data-science-gateway", "The Gateway that the HTTPRoute attaches to"),
    Setting("GATEWAY_NAMESPACE", "openshift-ingress", "The namespace of that Gateway"),
    Setting("MLFLOW_HOSTNAMES", "", "Host names of the HTTPRoute, comma-separated; none: those of the Gateway"),
    Setting("SECTION_TITLE", "MLflow", "The section of the ConsoleLink"),
    Setting("MLFLOW_TLS_SECRET", "mlflow-tls", "The Secret with the serving certificate"),
    Setting("MLFLOW_METRICS", "auto", "Expose metrics: auto (where ServiceMonitors are served), on or off"),
    Setting(
        "APPLICATIONS_NAMESPACE", "", "With the module: the namespace of the server and of the platform's ConfigMap"
    ),
    Setting("ENABLE_MLFLOW_OPERATOR_MODULE_CONTROLLER", "false", "Wait for the platform's MLflowOperator resource"),
    Setting("ENABLE_NAMESPACE_RBAC", "false", "Bind the platform's groups in namespaces that ask for it"),
    Setting("RESOURCE_NAME_PREFIX", "mlflow-operator-", "Prefix of the roles that those bindings refer to"),
)
