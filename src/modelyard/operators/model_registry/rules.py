"""What a `ModelRegistry` must be beyond its schema: the validating webhook says it, and a reconcile without one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from modelyard.operators.model_registry.api import ModelRegistrySpec
from modelyard.operators.model_registry.effective import PROXY_PORT
from modelyard.operators.parts.rbac_proxy import HEALTH_PORT
from modelyard.runtime.webhooks import FieldError

NEEDS_DATABASE = "required one of `postgres` or `mysql` database"
RESERVED_NAMES = {
    "model": "its objects would be named like those of the model catalog",
    "model-catalog": "the model catalog has this name",
    "model-catalog-postgres": "the model catalog's database has this name",
}
_SERVICE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_POSTGRES = "-postgres"
LONGEST_NAME = 63 - len("-auth-delegator")
"""The longest of the names that objects of a registry carry as a label is `NAME-auth-delegator`."""


def name_errors(name: str) -> Iterator[FieldError]:
    """A name that could not carry all that is named after it. Asked when a registry is made."""
    where = "metadata.name"
    if name in RESERVED_NAMES:
        yield FieldError(where, f'Invalid value: "{name}": the name is reserved: {RESERVED_NAMES[name]}')
    elif not _SERVICE_NAME.fullmatch(name):
        text = "must consist of lower case letters, digits and '-', with '-' neither first nor last: a Service has this name"
        yield FieldError(where, f'Invalid value: "{name}": {text}')
    elif len(name) > LONGEST_NAME:
        text = f"must be no more than {LONGEST_NAME} characters: objects of the registry carry labels made of this name"
        yield FieldError(where, f'Invalid value: "{name}": {text}')


def collisions(name: str, spec: ModelRegistrySpec | None, others: Iterable[tuple[str, bool]]) -> Iterator[FieldError]:
    """A name whose generated database another registry of the namespace would be mistaken for; `others` are `(name, generated)`."""
    for other, generated in others:
        if generated and name == other + _POSTGRES:
            text = f"the generated database of registry {other} has this name"
            yield FieldError("metadata.name", f'Invalid value: "{name}": {text}')
        if _is_generated(spec) and other == name + _POSTGRES:
            text = f"a generated database would be named {other}, as a registry is already"
            yield FieldError("spec.postgres.generateDeployment", f"Invalid value: true: {text}")


def spec_errors(spec: ModelRegistrySpec | None) -> Iterator[FieldError]:
    """A spec that cannot be deployed."""
    if spec is None or (spec.postgres is None and spec.mysql is None):
        for field in ("spec.postgres", "spec.mysql"):
            yield FieldError(field, f"Required value: {NEEDS_DATABASE}", "FieldValueRequired")
        return
    if spec.postgres is not None and spec.postgres.is_generated and (host := spec.postgres.host):
        text = "host should not be set when auto-provisioning is enabled"
        yield FieldError("spec.postgres.host", f'Invalid value: "{host}": {text}')
    yield from _port_errors(spec)


def _port_errors(spec: ModelRegistrySpec) -> Iterator[FieldError]:
    proxy, rest = spec.kube_rbac_proxy or spec.oauth_proxy, spec.rest.port
    if proxy is None:
        return
    field = "spec.kubeRBACProxy.port" if spec.kube_rbac_proxy else "spec.oauthProxy.port"
    port = proxy.port or PROXY_PORT
    if rest == HEALTH_PORT:
        yield FieldError("spec.rest.port", f"Invalid value: {rest}: the proxy answers health checks on this port")
    if port == HEALTH_PORT:
        yield FieldError(field, f"Invalid value: {port}: the proxy answers health checks on this port")
    if port == rest:
        yield FieldError(field, f"Invalid value: {port}: the REST server listens on this port")


def _is_generated(spec: ModelRegistrySpec | None) -> bool:
    return spec is not None and spec.postgres is not None and spec.postgres.is_generated
