"""The model registry operator as data: what it serves, watches, ships and can be told."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.operators.model_registry.api import DEFINITIONS
from modelyard.operators.model_registry.catalog.controller import catalog_controller
from modelyard.operators.model_registry.config import (
    DATA_IMAGE,
    OPENSHIFT_ROUTES,
    POSTGRES_IMAGE,
    PROXY_IMAGE,
    REST_IMAGE,
    Settings,
)
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.operators.model_registry.storage import storage_controller
from modelyard.operators.model_registry.webhooks import CONVERSIONS, webhooks
from modelyard.runtime.operator import ExposedService, Operator, Setting


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
        settings=SETTINGS,
    )


SETTINGS = (
    Setting("REGISTRIES_NAMESPACE", "", "The only namespace for registries; the catalog is there, too"),
    Setting("RELATED_IMAGE_ODH_MODEL_REGISTRY_IMAGE", REST_IMAGE, "The server's image; REST_IMAGE is taken as well"),
    Setting(
        "RELATED_IMAGE_ODH_KUBE_RBAC_PROXY_IMAGE",
        PROXY_IMAGE,
        "The proxy's image; KUBE_RBAC_PROXY_IMAGE is taken as well",
    ),
    Setting(
        "RELATED_IMAGE_POSTGRESQL_16_IMAGE",
        POSTGRES_IMAGE,
        "The generated database's image; POSTGRES_IMAGE is taken as well",
    ),
    Setting(
        "RELATED_IMAGE_ODH_MODEL_METADATA_COLLECTION_IMAGE",
        DATA_IMAGE,
        "The catalog's lists; CATALOG_DATA_IMAGE is taken as well",
    ),
    Setting(
        "RELATED_IMAGE_ODH_MODEL_PERFORMANCE_DATA_IMAGE",
        DATA_IMAGE,
        "The catalog's benchmarks; BENCHMARK_DATA_IMAGE is taken as well",
    ),
    Setting("DEFAULT_DOMAIN", "the cluster's", "The domain of Routes"),
    Setting("GATEWAY_DOMAIN", "", "The Gateway's domain; set, registries are reached through it"),
    Setting("GATEWAY_NAME", "data-science-gateway", "The Gateway that HTTPRoutes attach to"),
    Setting("GATEWAY_NAMESPACE", "openshift-ingress", "The namespace of that Gateway"),
    Setting(
        "HTTPROUTE_NAMESPACE",
        f"{OPENSHIFT_ROUTES} on OpenShift, else the registry's",
        "Where HTTPRoutes go",
    ),
    Setting("ENABLE_MODEL_CATALOG", "", "`false` switches the catalog off; its lists and its data are kept"),
    Setting("MODEL_CATALOG_DELETE_DATA", "false", "Switching the catalog off deletes its database's data as well"),
    Setting("SKIP_MODEL_CATALOG_DB_CREATION", "", "`true`: someone else provides the catalog's database"),
    Setting("CATALOG_POSTGRES_USER", "catalog_user", "The user of the catalog's database when it is made"),
    Setting("CATALOG_POSTGRES_DATABASE", "model_catalog", "The name of the catalog's database when it is made"),
    Setting("STORAGE_MIGRATION_SOURCE_VERSION", "", "Registries stored in this version are rewritten"),
    Setting("STORAGE_MIGRATION_TARGET_VERSION", "", "The version that they are rewritten to"),
)
