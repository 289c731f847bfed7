"""The model registry operator as data: what it serves, watches, ships and can be told."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.operators.model_registry.api import DEFINITIONS
from modelyard.operators.model_registry.catalog.controller import catalog_controller
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.operators.model_registry.storage import storage_controller
from modelyard.operators.model_registry.webhooks import CONVERSIONS, webhooks
from modelyard.runtime.declaring.operator import ExposedService, Operator
from modelyard.runtime.declaring.settings import settings_of


def operator(environ: Mapping[str, str]) -> Operator:
    """The operator with the settings of these environment variables."""
    settings = Settings.from_environ(environ)
    return Operator(
        name="model-registry",
        title="Model Registry",
        upstream="model-registry-operator",
        controllers=[
            registry_controller(settings),
            catalog_controller(settings),
            *([storage_controller(settings)] if settings.migrate_from != settings.migrate_to else []),
        ],
        definitions=DEFINITIONS,
        webhooks=webhooks(settings),
        conversions=CONVERSIONS,
        services=[
            ExposedService(
                "model-registry-operator-controller-manager-metrics-service", 8443, "https", 8443, role="metrics"
            ),
            ExposedService("model-registry-operator-webhook-service", 443, "", 9443, role="webhook"),
            ExposedService("the registry's name", 8443, "https-api", role="child"),
            ExposedService("the registry's name", 8080, "http-api", role="child"),
        ],
        settings=settings_of(Settings),
    )
