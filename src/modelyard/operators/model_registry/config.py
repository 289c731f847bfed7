"""The settings of the model registry operator: read once from the environment, checked, then passed around as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelyard.operators.parts.settings import Environ, SettingError

REST_IMAGE = "quay.io/opendatahub/model-registry:latest"
PROXY_IMAGE = "quay.io/openshift/origin-kube-rbac-proxy:latest"
POSTGRES_IMAGE = "quay.io/sclorg/postgresql-16-c10s:latest"
DATA_IMAGE = "quay.io/opendatahub/odh-model-metadata-collection:latest"
OPENSHIFT_ROUTES = "redhat-ods-applications"
"""Where HTTPRoutes go on OpenShift; elsewhere they stand next to their registry."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(r"([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*")


@dataclass(frozen=True)
class Settings:
    """Everything that an admin may set about the operator. The defaults are upstream's."""

    rest_image: str = REST_IMAGE
    proxy_image: str = PROXY_IMAGE
    postgres_image: str = POSTGRES_IMAGE
    catalog_data_image: str = DATA_IMAGE
    benchmark_data_image: str = DATA_IMAGE
    namespace: str = ""
    """The only namespace where registries are allowed, and where the catalog is; empty: registries anywhere, no catalog."""
    default_domain: str = ""
    """The domain of Routes; empty: the cluster's own."""
    gateway_domain: str = ""
    """Not empty: registries are reached through the platform's Gateway."""
    gateway_name: str = "data-science-gateway"
    gateway_namespace: str = "openshift-ingress"
    route_namespace: str = ""
    """Where HTTPRoutes go."""
    catalog: bool = True
    catalog_database: bool = True
    """False: someone else provides the catalog's database."""
    catalog_delete_data: bool = False
    """True: switching the catalog off deletes its database's volume and password as well."""
    catalog_user: str = "catalog_user"
    catalog_database_name: str = "model_catalog"
    migrate_from: str = ""
    migrate_to: str = ""
    """Stored objects are rewritten from one version to the other, where the two differ."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Read the operator's environment variables; a bad value is a `SettingError` that names it."""
        env = Environ(environ)

        def image(name: str, older: str, default: str) -> str:
            return env.text(name) or env.text(older) or default

        data = image("RELATED_IMAGE_ODH_MODEL_METADATA_COLLECTION_IMAGE", "CATALOG_DATA_IMAGE", DATA_IMAGE)
        return cls(
            rest_image=image("RELATED_IMAGE_ODH_MODEL_REGISTRY_IMAGE", "REST_IMAGE", REST_IMAGE),
            proxy_image=image("RELATED_IMAGE_ODH_KUBE_RBAC_PROXY_IMAGE", "KUBE_RBAC_PROXY_IMAGE", PROXY_IMAGE),
            postgres_image=image("RELATED_IMAGE_POSTGRESQL_16_IMAGE", "POSTGRES_IMAGE", POSTGRES_IMAGE),
            catalog_data_image=data,
            benchmark_data_image=image(
                "RELATED_IMAGE_ODH_MODEL_PERFORMANCE_DATA_IMAGE", "BENCHMARK_DATA_IMAGE", DATA_IMAGE
            ),
            namespace=_checked(env, "REGISTRIES_NAMESPACE", _LABEL, "use the name of a namespace"),
            default_domain=_checked(env, "DEFAULT_DOMAIN", _DOMAIN, "use a DNS name such as apps.example.com"),
            gateway_domain=_checked(env, "GATEWAY_DOMAIN", _DOMAIN, "use a DNS name such as gateway.example.com"),
            gateway_name=env.text("GATEWAY_NAME", cls.gateway_name),
            gateway_namespace=env.text("GATEWAY_NAMESPACE", cls.gateway_namespace),
            route_namespace=_checked(env, "HTTPROUTE_NAMESPACE", _LABEL, "use the name of a namespace"),
            # Only these very words count, as upstream has it.
            catalog=environ.get("ENABLE_MODEL_CATALOG") != "false",
            catalog_database=environ.get("SKIP_MODEL_CATALOG_DB_CREATION") != "true",
            catalog_delete_data=env.flag("MODEL_CATALOG_DELETE_DATA"),
            catalog_user=env.text("CATALOG_POSTGRES_USER", cls.catalog_user),
            catalog_database_name=env.text("CATALOG_POSTGRES_DATABASE", cls.catalog_database_name),
            migrate_from=env.text("STORAGE_MIGRATION_SOURCE_VERSION"),
            migrate_to=env.text("STORAGE_MIGRATION_TARGET_VERSION"),
        )


def _checked(env: Environ, name: str, pattern: re.Pattern[str], remedy: str) -> str:
    value = env.text(name)
    if value and not pattern.fullmatch(value):
        raise SettingError(name, value, remedy)
    return value
