"""Which Kubernetes permission an MLflow request needs: a table from path and method to resource, verb and object name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

GROUP = "mlflow.kubeflow.org"


class Named(StrEnum):
    """Where the name of the MLflow object comes from."""

    NOT = ""
    EXPERIMENT = "experiment name"
    EXPERIMENT_ID = "experiment id"
    RUN_ID = "run id"
    MODEL = "model name"
    VALUE = "value"


class Need(NamedTuple):
    resource: str
    verb: str
    subresource: str = ""
    named: Named = Named.NOT
    value: str = ""


PUBLIC = re.compile(
    r"^(/|/health|/version|/metrics|/favicon\.ico|/manifest\.json|/static-files(/.*)?|/(ajax-)?api/\d+\.\d+/mlflow/server-info)$"
)
WORKSPACES = re.compile(r"^/(?:ajax-)?api/\d+\.\d+/mlflow/workspaces(?:/(?P<name>[^/]+))?/?$")
_API = re.compile(r"^/(?:ajax-)?api/\d+\.\d+/(?P<rest>.*)$")
_ARTIFACT = re.compile(
    r"^mlflow-artifacts/(?:artifacts|mpu/\w+|presigned)(?:/(?:workspaces/[^/]+/)?(?P<experiment>\d+)(?:/|$))?"
)
_GATEWAY = {
    "secrets": "gatewaysecrets",
    "endpoints": "gatewayendpoints",
    "model-definitions": "gatewaymodeldefinitions",
}
_READS = ("get", "search", "list", "batchGet")


def need(method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any]) -> Need | None:
    """What the caller must be allowed; None for what everybody may see (health, static files)."""
    if PUBLIC.match(path):
        return None
    found = _API.match(path)
    if found is None:
        return _outside_api(path)
    rest = found["rest"].rstrip("/")
    values = {**body, **query}
    if rest.startswith("mlflow-artifacts/"):
        return _artifact(method, rest, values)
    parts = rest.removeprefix("mlflow/").split("/")
    match parts[0]:
        case "experiments":
            return _experiments(parts[-1], values)
        case "registered-models" | "model-versions":
            return _models(method, parts, values)
        case "datasets":
            return _datasets(method, parts, values)
        case "gateway":
            return _gateway(method, parts)
        case "jobs" | "prompt-optimization":
            return _by_words("jobs", method, parts)
        case "mcp-servers" | "mcp":
            return _by_words("mcpservers", method, parts)
        case "webhooks":
            return Need("registeredmodels", "list" if method == "GET" else "update")
    return _within_experiment(method, parts, values)


def _outside_api(path: str) -> Need:
    if path.startswith("/gateway/"):
        endpoint = path.split("/")[2]
        return Need("gatewayendpoints", "create", "use", Named.VALUE, endpoint)
    if path.startswith("/v1/"):
        return Need("experiments", "update")
    # Pages of the UI and GraphQL, which only reads.
    return Need("experiments", "list")


def _experiments(action: str, values: Mapping[str, Any]) -> Need:
    identity = str(values.get("experiment_id") or "")
    match action:
        case "create":
            return Need("experiments", "create", named=Named.EXPERIMENT, value=str(values.get("name") or ""))
        case "get-by-name":
            return Need("experiments", "get", named=Named.EXPERIMENT, value=str(values.get("experiment_name") or ""))
        case "search" | "search-datasets":
            return Need("experiments", "list")
        case "get":
            return Need("experiments", "get", named=Named.EXPERIMENT_ID, value=identity)
        case "delete":
            return Need("experiments", "delete", named=Named.EXPERIMENT_ID, value=identity)
    return Need("experiments", "update", named=Named.EXPERIMENT_ID, value=identity)


def _within_experiment(method: str, parts: list[str], values: Mapping[str, Any]) -> Need:
    """Runs, traces, metrics, logged models, scorers and the rest: reading is `get`, writing is `update` of the experiment."""
    last = parts[-1]
    reads = (
        method in ("GET", "HEAD") or any(last.startswith(word) for word in _READS) or parts[0] in ("graphql", "metrics")
    )
    verb = "get" if reads else "update"
    experiment = values.get("experiment_id")
    several = values.get("experiment_ids")
    if experiment is None and isinstance(several, list) and len(several) == 1:
        experiment = several[0]
    if experiment is None and isinstance(several, str):
        experiment = several
    if experiment:
        return Need("experiments", verb, named=Named.EXPERIMENT_ID, value=str(experiment))
    run = values.get("run_id") or values.get("run_uuid")
    if run:
        return Need("experiments", verb, named=Named.RUN_ID, value=str(run))
    if verb == "get" and last.startswith("search"):
        verb = "list"
    return Need("experiments", verb)


def _artifact(method: str, rest: str, values: Mapping[str, Any]) -> Need:
    verb = "get" if method in ("GET", "HEAD") else "update"
    found = _ARTIFACT.match(rest)
    experiment = found["experiment"] if found else None
    if experiment is None and rest == "mlflow-artifacts/artifacts":
        listed = re.match(r"^(?:workspaces/[^/]+/)?(\d+)(?:/|$)", str(values.get("path") or ""))
        experiment = listed[1] if listed else None
    if experiment:
        return Need("experiments", verb, named=Named.EXPERIMENT_ID, value=experiment)
    return Need("experiments", verb)


def _models(method: str, parts: list[str], values: Mapping[str, Any]) -> Need:
    name = str(values.get("name") or "")
    kind, action = parts[0], parts[-1]
    named = (Named.MODEL, name) if name else (Named.NOT, "")
    if action == "search":
        return Need("registeredmodels", "list")
    if action in ("get", "get-latest-versions", "get-download-uri") or (action == "alias" and method == "GET"):
        return Need("registeredmodels", "get", "", *named)
    if kind == "registered-models" and action == "create":
        return Need("registeredmodels", "create", "", *named)
    if kind == "registered-models" and action == "delete":
        return Need("registeredmodels", "delete", "", *named)
    return Need("registeredmodels", "update", "", *named)


def _datasets(method: str, parts: list[str], values: Mapping[str, Any]) -> Need:
    action = parts[-1]
    if action == "create":
        return Need("datasets", "create", named=Named.VALUE, value=str(values.get("name") or ""))
    if action == "search":
        return Need("datasets", "list")
    if method == "GET":
        return Need("datasets", "get")
    return Need("datasets", "delete" if method == "DELETE" and len(parts) == 2 else "update")


def _gateway(method: str, parts: list[str]) -> Need:
    area = parts[1] if len(parts) > 1 else ""
    resource = _GATEWAY.get(area, "gatewayendpoints")
    action = parts[-1]
    if area in _GATEWAY and len(parts) == 3 and action in ("create", "get", "list", "update", "delete"):
        return Need(resource, action)
    return Need(resource, "list" if method == "GET" else "update")


def _by_words(resource: str, method: str, parts: list[str]) -> Need:
    action = parts[-1]
    if action == "search" or (method == "GET" and len(parts) == 1):
        return Need(resource, "list")
    if method == "GET":
        return Need(resource, "get")
    if method == "DELETE":
        return Need(resource, "delete")
    if action in ("jobs", "mcp-servers", "create"):
        return Need(resource, "create")
    return Need(resource, "update")
