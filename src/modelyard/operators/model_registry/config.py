"""The settings of the model registry operator: read once from the environment, checked, then passed around as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelyard.kube import names
from modelyard.operators.parts.settings import beside_us, predecessor_setting
from modelyard.pins import pins
from modelyard.runtime.declaring.settings import Form, matching, read_settings, setting

REST_IMAGE = pins()["model-registry"].reference
PROXY_IMAGE = pins()["kube-rbac-proxy"].reference
POSTGRES_IMAGE = pins()["postgresql-16"].reference
DATA_IMAGE = pins()["model-metadata-collection"].reference
OPENSHIFT_ROUTES = "redhat-ods-applications"
"""Where HTTPRoutes go on OpenShift; elsewhere they stand next to their registry."""

_DOMAIN = re.compile(r"([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")


def _domain(example: str) -> Form[str]:
    return matching(lambda text: _DOMAIN.fullmatch(text) is not None, f"use a DNS name such as {example}")


def _gateway() -> Form[str]:
    """A gateway may listen on a port of its own, as a laptop's does."""

    def fits(text: str) -> bool:
        name, colon, port = text.partition(":")
        return _DOMAIN.fullmatch(name) is not None and (not colon or _PORT.fullmatch(port) is not None)

    return matching(fits, "use a DNS name such as gateway.example.com, and a port if it has one of its own")


_NAMESPACE = matching(lambda text: not names.dns_label(text), "use the name of a namespace")
# Only these very words count, as upstream has it.
_UNLESS_FALSE = Form(lambda text: text != "false", "use true or false", lambda on: "" if on else "false")
_UNLESS_TRUE = Form(lambda text: text != "true", "use true or false", lambda made: "" if made else "true")


@dataclass(frozen=True)
class Settings:
    """Everything that an admin may set about the operator. The defaults are upstream's."""

    namespace: str = setting(
        "REGISTRIES_NAMESPACE",
        "",
        "The only namespace for registries; the catalog is there, too",
        form=_NAMESPACE,
    )
    """The only namespace where registries are allowed, and where the catalog is; empty: registries anywhere, no catalog."""
    rest_image: str = setting(
        "RELATED_IMAGE_ODH_MODEL_REGISTRY_IMAGE", REST_IMAGE, "The server's image", also=["REST_IMAGE"]
    )
    proxy_image: str = setting(
        "RELATED_IMAGE_ODH_KUBE_RBAC_PROXY_IMAGE", PROXY_IMAGE, "The proxy's image", also=["KUBE_RBAC_PROXY_IMAGE"]
    )
    postgres_image: str = setting(
        "RELATED_IMAGE_POSTGRESQL_16_IMAGE", POSTGRES_IMAGE, "The generated database's image", also=["POSTGRES_IMAGE"]
    )
    catalog_data_image: str = setting(
        "RELATED_IMAGE_ODH_MODEL_METADATA_COLLECTION_IMAGE",
        DATA_IMAGE,
        "The catalog's lists",
        also=["CATALOG_DATA_IMAGE"],
    )
    benchmark_data_image: str = setting(
        "RELATED_IMAGE_ODH_MODEL_PERFORMANCE_DATA_IMAGE",
        DATA_IMAGE,
        "The catalog's benchmarks",
        also=["BENCHMARK_DATA_IMAGE"],
    )
    default_domain: str = setting(
        "DEFAULT_DOMAIN", "", "The domain of Routes", form=_domain("apps.example.com"), otherwise="the cluster's"
    )
    gateway_domain: str = setting(
        "GATEWAY_DOMAIN",
        "",
        "The Gateway's domain; set, registries are reached through it",
        form=_gateway(),
    )
    gateway_name: str = setting("GATEWAY_NAME", "data-science-gateway", "The Gateway that HTTPRoutes attach to")
    gateway_namespace: str = setting("GATEWAY_NAMESPACE", "openshift-ingress", "The namespace of that Gateway")
    route_namespace: str = setting(
        "HTTPROUTE_NAMESPACE",
        "",
        "Where HTTPRoutes go",
        form=_NAMESPACE,
        otherwise=f"{OPENSHIFT_ROUTES} on OpenShift, else the registry's",
    )
    catalog: bool = setting(
        "ENABLE_MODEL_CATALOG",
        True,
        "`false` switches the catalog off; its lists and its data are kept",
        form=_UNLESS_FALSE,
    )
    catalog_delete_data: bool = setting(
        "MODEL_CATALOG_DELETE_DATA", False, "Switching the catalog off deletes its database's data as well"
    )
    """True: switching the catalog off deletes its database's volume and password as well."""
    catalog_database: bool = setting(
        "SKIP_MODEL_CATALOG_DB_CREATION",
        True,
        "`true`: someone else provides the catalog's database",
        form=_UNLESS_TRUE,
    )
    """False: someone else provides the catalog's database."""
    catalog_user: str = setting(
        "CATALOG_POSTGRES_USER", "catalog_user", "The user of the catalog's database when it is made"
    )
    catalog_database_name: str = setting(
        "CATALOG_POSTGRES_DATABASE", "model_catalog", "The name of the catalog's database when it is made"
    )
    migrate_from: str = setting(
        "STORAGE_MIGRATION_SOURCE_VERSION", "", "Registries stored in this version are rewritten"
    )
    migrate_to: str = setting("STORAGE_MIGRATION_TARGET_VERSION", "", "The version that they are rewritten to")
    """Stored objects are rewritten from one version to the other, where the two differ."""
    predecessor_namespaces: tuple[str, ...] = predecessor_setting()
    """Where the public operator may run besides its usual namespaces and that of the registries."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """Read the operator's environment variables; a bad value is a `SettingError` that names it."""
        read = read_settings(cls, environ)
        return replace(read, predecessor_namespaces=beside_us(environ, read.predecessor_namespaces))
