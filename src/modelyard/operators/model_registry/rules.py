"""What a `ModelRegistry` must be beyond its schema: the validating webhook says it, and a reconcile without one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from modelyard.operators.model_registry.api import ModelRegistrySpec, OldModelRegistrySpec, Postgres
from modelyard.operators.model_registry.effective import PROXY_PORT
from modelyard.operators.parts.rbac_proxy import HEALTH_PORT
from modelyard.runtime.webhooks import FieldError

NEEDS_DATABASE = "required one of `postgres` or `mysql` database"
RESERVED_NAMES = {
    "model": "its objects would be named like those of the model catalog",
    "model-catalog": "the model catalog has this name",
    "model-catalog-postgres": "the model catalog's database has this name",
}
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_POSTGRES = "-postgres"
LONGEST_NAME = 63 - len("-rest")
"""`NAME-rest` is the first part of a host name."""
LONGEST_WITH_DATABASE = 63 - len(_POSTGRES)
"""`NAME-postgres` is a Service."""

AnySpec = ModelRegistrySpec | OldModelRegistrySpec | None


def name_errors(name: str, spec: AnySpec) -> Iterator[FieldError]:
    """A name that could not carry all that is named after it. Asked when a registry is made."""
    where = "metadata.name"
    if name in RESERVED_NAMES:
        yield FieldError(where, f'Invalid value: "{name}": the name is reserved: {RESERVED_NAMES[name]}')
    elif not _SERVICE_NAME.fullmatch(name):
        text = "must start with a letter and consist of lower case letters, digits and '-', as a Service has this name"
        yield FieldError(where, f'Invalid value: "{name}": {text}')
    else:
        longest = LONGEST_WITH_DATABASE if _is_generated(spec) else LONGEST_NAME
        if len(name) > longest:
            yield FieldError(where, f'Invalid value: "{name}": must be no more than {longest} characters')


def collisions(name: str, spec: AnySpec, others: Iterable[tuple[str, bool]]) -> Iterator[FieldError]:
    """A name whose generated database another registry of the namespace would be mistaken for; `others` are `(name, generated)`."""
    for other, generated in others:
        if generated and name == other + _POSTGRES:
            text = f"the generated database of registry {other} has this name"
            yield FieldError("metadata.name", f'Invalid value: "{name}": {text}')
        if _is_generated(spec) and other == name + _POSTGRES:
            text = f"a generated database would be named {other}, as a registry is already"
            yield FieldError("spec.postgres.generateDeployment", f"Invalid value: true: {text}")


def spec_errors(spec: AnySpec) -> Iterator[FieldError]:
    """A spec that cannot be deployed."""
    if spec is None or (spec.postgres is None and spec.mysql is None):
        for field in ("spec.postgres", "spec.mysql"):
            yield FieldError(field, f"Required value: {NEEDS_DATABASE}", "FieldValueRequired")
        return
    if isinstance(spec.postgres, Postgres) and spec.postgres.is_generated and (host := spec.postgres.host):
        text = "host should not be set when auto-provisioning is enabled"
        yield FieldError("spec.postgres.host", f'Invalid value: "{host}": {text}')
    if spec.postgres is None and spec.mysql is not None and ":" in spec.mysql.username:
        text = "a colon would end the user name in the database's address"
        yield FieldError("spec.mysql.username", f'Invalid value: "{spec.mysql.username}": {text}')
    yield from _port_errors(spec)


def _port_errors(spec: ModelRegistrySpec | OldModelRegistrySpec) -> Iterator[FieldError]:
    if isinstance(spec, OldModelRegistrySpec):
        return  # Its proxy is judged when it has become the new one.
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


def _is_generated(spec: AnySpec) -> bool:
    return spec is not None and isinstance(spec.postgres, Postgres) and spec.postgres.is_generated
