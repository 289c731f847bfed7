"""The MLflow operator as data: what it serves, watches, ships and can be told."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.operators.mlflow.api import DEFINITIONS
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.module import module_controller
from modelyard.operators.mlflow.namespace_rbac import namespace_controller
from modelyard.operators.mlflow.roles import user_roles
from modelyard.operators.mlflow.webhooks import webhooks
from modelyard.runtime.declaring.operator import ExposedService, Operator
from modelyard.runtime.declaring.settings import settings_of


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
        webhooks=webhooks(settings),
        services=[
            ExposedService("minio-service", 9000, "https", 9000, role="sample"),
            ExposedService("postgres-service", 5432, role="sample"),
        ],
        settings=settings_of(Settings),
        roles=user_roles(settings),
        chart="mlflow v0.1.0",
    )
