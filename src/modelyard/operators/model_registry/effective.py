"""The spec that is deployed: the stored one with what the operator fills in at run time. Pure."""

from __future__ import annotations

import json

from msgspec.structs import replace

from modelyard.kube.kinds import Object
from modelyard.kube.patches import merge_diff
from modelyard.operators.model_registry.api import KeyOf, ModelRegistry, ModelRegistrySpec, Postgres, Proxy
from modelyard.operators.model_registry.facts import PLAIN_HTTP, Facts, Names
from modelyard.operators.parts import postgres

REST_RESOURCES: Object = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "256Mi"}}
GENERATED_USER = "modelregistry"
GENERATED_DATABASE = "model_registry"
PROXY_PORT = 8443
ROUTE_PORT = 443


def migrated(registry: ModelRegistry, *, openshift: bool) -> Object | None:
    """The patch that the stored spec needs first: an old proxy becomes the new one, and OpenShift gets one anyway."""
    spec = registry.spec
    if spec is None:
        return None
    if spec.oauth_proxy is not None:
        proxy = spec.kube_rbac_proxy or from_oauth(spec.oauth_proxy)
        return {"spec": {"oauthProxy": None, "kubeRBACProxy": proxy.to_dict()}}
    if openshift and spec.kube_rbac_proxy is None and registry.metadata.annotations.get(PLAIN_HTTP) != "true":
        return {"spec": {"kubeRBACProxy": {}}}
    return None


def from_oauth(proxy: Proxy) -> Proxy:
    """Everything but the image, which is another program's."""
    return replace(proxy, image=None)


def with_proxy(spec: ModelRegistrySpec) -> ModelRegistrySpec:
    """The spec after `migrated`."""
    proxy = spec.kube_rbac_proxy or (from_oauth(spec.oauth_proxy) if spec.oauth_proxy else Proxy())
    return replace(spec, oauth_proxy=None, kube_rbac_proxy=proxy)


def effective(spec: ModelRegistrySpec, facts: Facts, names: Names) -> ModelRegistrySpec:
    """The spec with all run-time defaults; a generated database is spelled out as a connection."""
    settings = facts.settings
    # No resources at all (`{}`) is a choice, as upstream has it; only where nothing is said the defaults come.
    resources = REST_RESOURCES if spec.rest.resources is None else spec.rest.resources
    rest = replace(spec.rest, resources=resources, image=spec.rest.image or settings.rest_image)
    found = spec.postgres
    if found is not None and found.is_generated:
        found = generated(found, facts, names)
    elif found is not None:
        found = replace(found, image=found.image or settings.postgres_image)
    proxy = spec.kube_rbac_proxy
    if proxy is not None:
        proxy = replace(
            proxy,
            port=proxy.port or PROXY_PORT,
            route_port=proxy.route_port or ROUTE_PORT,
            tls_certificate_secret=proxy.tls_certificate_secret or KeyOf(name=names.serving_cert, key="tls.crt"),
            tls_key_secret=proxy.tls_key_secret or KeyOf(name=names.serving_cert, key="tls.key"),
            domain=proxy.domain or facts.domain or None,
            image=proxy.image or settings.proxy_image,
        )
    return replace(spec, rest=rest, postgres=found, kube_rbac_proxy=proxy)


def generated(asked: Postgres, facts: Facts, names: Names) -> Postgres:
    """How the server reaches a database that was made for it: as it was made, not as it might be asked for now."""
    made = facts.credentials
    return Postgres(
        host=names.postgres,
        port=asked.port or postgres.PORT,
        username=made.username if made else asked.username or GENERATED_USER,
        database=made.database if made else asked.database or GENERATED_DATABASE,
        password_secret=KeyOf(name=names.credentials, key="password"),
        ssl_mode=None,
    )


def spec_defaults(stored: ModelRegistrySpec, deployed: ModelRegistrySpec) -> str:
    """A merge patch, as text, that makes the deployed spec of the stored one."""
    patch = merge_diff(stored.to_dict(), deployed.to_dict())
    return json.dumps(patch or {}, sort_keys=True, separators=(",", ":"))
