"""The environment of the server and its jobs: what the operator sets, what the author sets, and which of them wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from urllib.parse import urlsplit

from modelyard.kube import selectors
from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.api import MLflow, MLflowSpec, TraceArchival
from modelyard.operators.mlflow.facts import PORT, Facts
from modelyard.operators.mlflow.rules import MANAGED_ENV
from modelyard.operators.parts import ca_bundle
from modelyard.operators.parts.build import env, env_from_secret
from modelyard.operators.parts.types import SecretKey

ARCHIVAL_CONFIG = "/etc/mlflow/trace-archival.yaml"
BACKEND = "MLFLOW_BACKEND_STORE_URI"
READ_REPLICA = "MLFLOW_READ_REPLICA_BACKEND_STORE_URI"
REGISTRY = "MLFLOW_REGISTRY_STORE_URI"
SELECTOR = "MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR"
ARCHIVAL = "MLFLOW_TRACE_ARCHIVAL_CONFIG"
DEFAULT_BACKEND = "sqlite:////mlflow/mlflow.db"

PROTECTED = frozenset((*MANAGED_ENV, "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION"))
"""Refused at admission; an object stored before that cannot set them either."""
FROM_FIELDS = {
    READ_REPLICA: "readReplicaBackendStoreUri",
    SELECTOR: "workspaceLabelSelector",
    ARCHIVAL: "traceArchival",
}
"""Variables that a field of the spec sets: while it does, `spec.env` cannot."""


class RenderError(ValueError):
    """The spec asks for something that cannot be written as an object; the message names the field."""


def server_environment(mlflow: MLflow, facts: Facts) -> list[Object]:
    """The server's variables, in order."""
    spec = mlflow.spec
    own = [
        env("MLFLOW_DISABLE_TELEMETRY", "true"),
        env("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false"),
        *([env(ARCHIVAL, ARCHIVAL_CONFIG)] if archival(spec) else []),
        backend_store(spec),
        *_read_replica(spec),
        _registry_store(spec),
        env("MLFLOW_K8S_AUTH_AUTHORIZATION_MODE", "self_subject_access_review"),
        env("MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", ",".join(allowed_origins(mlflow, facts))),
        *workspace_selector(spec),
    ]
    trailing = [
        *_ciphers(facts),
        env("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "false"),
        *ca_bundle.variables(facts.ca_sources(mlflow)),
    ]
    return with_user_variables(own, spec.env or [], trailing)


def gc_environment(mlflow: MLflow, facts: Facts) -> list[Object]:
    """The variables of garbage collection, in order. The author's come along, as an S3 endpoint is needed here too, but they
    were written for the server and change nothing that this job needs."""
    own = [
        env("MLFLOW_DISABLE_TELEMETRY", "true"),
        env("MLFLOW_ENABLE_WORKSPACES", "true"),
        env("MLFLOW_WORKSPACE_STORE_URI", "kubernetes://"),
        *workspace_selector(mlflow.spec),
        backend_store(mlflow.spec),
        env("MLFLOW_TRACKING_URI", facts.address(mlflow)),
        env("MLFLOW_TRACKING_INSECURE_TLS", "false"),
        env("MLFLOW_TRACKING_AUTH", "kubernetes"),
    ]
    trailing = ca_bundle.variables(facts.ca_sources(mlflow))
    if facts.serving_ca_file:
        own.append(env("MLFLOW_TRACKING_SERVER_CERT_PATH", facts.serving_ca_file))
    return with_user_variables(own, mlflow.spec.env or [], trailing, fixed=frozenset(one["name"] for one in own))


def archival_environment(mlflow: MLflow, facts: Facts) -> list[Object]:
    """The variables of trace archival, in order."""
    own = [
        env("MLFLOW_DISABLE_TELEMETRY", "true"),
        env(ARCHIVAL, ARCHIVAL_CONFIG),
        env("MLFLOW_ENABLE_WORKSPACES", "true"),
        env("MLFLOW_WORKSPACE_STORE_URI", "kubernetes://"),
        *workspace_selector(mlflow.spec),
        backend_store(mlflow.spec),
        *ca_bundle.variables(facts.ca_sources(mlflow)),
    ]
    return with_user_variables(own, mlflow.spec.env or [], _ciphers(facts))


def with_user_variables(
    own: Sequence[Object], users: Sequence[Object], trailing: Sequence[Object], *, fixed: Set[str] = frozenset()
) -> list[Object]:
    """`own`, then the author's, then `trailing`, each name once: the author wins, except for names that the author may not set.
    Of the author's duplicates the last counts, as it would in a container."""
    taken = {variable["name"] for variable in own} & FROM_FIELDS.keys() | PROTECTED | fixed
    last = {variable["name"]: variable for variable in users if variable["name"] not in taken}
    theirs = [variable for variable in users if last.get(variable["name"]) is variable]
    return [
        *(variable for variable in own if variable["name"] not in last),
        *theirs,
        *(variable for variable in trailing if variable["name"] not in last),
    ]


def backend_store(spec: MLflowSpec) -> Object:
    """The metadata database. An object stored before it became required falls back to a file."""
    return _store(BACKEND, spec.backend_store_uri, spec.backend_store_uri_from) or env(BACKEND, DEFAULT_BACKEND)


def backend_argument(spec: MLflowSpec) -> str:
    """The metadata database as an argument: a Secret's value is expanded in the container."""
    return f"$({BACKEND})" if spec.backend_store_uri_from else (spec.backend_store_uri or DEFAULT_BACKEND)


def _read_replica(spec: MLflowSpec) -> list[Object]:
    found = _store(READ_REPLICA, spec.read_replica_backend_store_uri, spec.read_replica_backend_store_uri_from)
    return [found] if found else []


def _registry_store(spec: MLflowSpec) -> Object:
    own = _store(REGISTRY, spec.registry_store_uri, spec.registry_store_uri_from)
    return own or {**backend_store(spec), "name": REGISTRY}


def _store(name: str, uri: str | None, secret: SecretKey | None) -> Object | None:
    if secret is not None:
        return env_from_secret(name, secret.name, secret.key, secret.optional)
    return env(name, uri) if uri else None


def archival(spec: MLflowSpec) -> TraceArchival | None:
    """Trace archival, where it is switched on."""
    return spec.trace_archival if spec.trace_archival is not None and spec.trace_archival.enabled else None


def _ciphers(facts: Facts) -> list[Object]:
    return [env("UVICORN_SSL_CIPHERS", "PROFILE=SYSTEM")] if facts.openshift else []


def workspace_selector(spec: MLflowSpec) -> list[Object]:
    if not spec.workspace_label_selector:
        return []
    try:
        text = str(selectors.from_object(spec.workspace_label_selector))
    except selectors.SelectorError as error:
        message = f"failed to convert MLflow spec to Helm values: invalid workspaceLabelSelector: {error}"
        raise RenderError(message) from None
    return [env(SELECTOR, text)] if text else []


def allowed_origins(mlflow: MLflow, facts: Facts) -> list[str]:
    """The origins from which a browser may call the server."""
    names = facts.names(mlflow)
    return [
        f"https://{names.server}:{PORT}",
        f"https://{names.host}:{PORT}",
        f"https://{names.host}.cluster.local:{PORT}",
        "localhost:*",
        "127.0.0.1:*",
        *_origin(facts.settings.url),
        *_usable(mlflow.spec.extra_allowed_origins or ()),
    ]


def _origin(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    return [f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"] if parts.scheme and parts.netloc else []


def _usable(origins: Iterable[str]) -> list[str]:
    return [trimmed for origin in origins if (trimmed := origin.strip()) and "," not in trimmed]
