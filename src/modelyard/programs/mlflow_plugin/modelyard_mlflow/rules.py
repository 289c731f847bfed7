"""Which Kubernetes permission an MLflow request needs: a table from path and method to resource, verb and object name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

GROUP = "mlflow.kubeflow.org"


class Named(StrEnum):
    """Where the name of the MLflow object comes from."""

    EXPERIMENT = "experiment name"
    EXPERIMENT_ID = "experiment id"
    RUN_ID = "run id"
    MODEL = "model name"
    VALUE = "value"


class Name(NamedTuple):
    """One object that a request is about."""

    named: Named
    value: str


class Need(NamedTuple):
    """What a caller must be allowed: in the whole workspace, or for every object that the request names."""

    resource: str
    verb: str
    subresource: str = ""
    names: tuple[Name, ...] = ()
    """Empty: only a right for the whole workspace will do."""


PUBLIC = re.compile(
    r"^(/|/health|/version|/metrics|/favicon\.ico|/manifest\.json|/static-files(/.*)?|/(ajax-)?api/\d+\.\d+/mlflow/server-info)$"
)
WORKSPACES = re.compile(r"^/(?:ajax-)?api/\d+\.\d+/mlflow/workspaces(?:/(?P<name>[^/]+))?/?$")
_API = re.compile(r"^/(?:ajax-)?api/\d+\.\d+/(?P<rest>.*)$")
_ARTIFACT = re.compile(r"^mlflow-artifacts/(?:artifacts|mpu/\w+|presigned)/(?P<path>.+)$")
_GATEWAY = {
    "secrets": "gatewaysecrets",
    "endpoints": "gatewayendpoints",
    "model-definitions": "gatewaymodeldefinitions",
}
_READS = ("get", "search", "list", "batchGet")


class Fields:
    """The fields of a request as MLflow reads them: from the query of a GET, from the JSON body of anything else.

    What stands in the other place is not looked at, so that a caller cannot name one object here and act on another there.
    """

    def __init__(self, method: str, query: Iterable[tuple[str, str]], body: Mapping[str, Any]) -> None:
        self.query = list(query)
        self._found: dict[str, list[str]] = {}
        pairs = self.query if method == "GET" else body.items()
        for key, value in pairs:
            values = value if isinstance(value, list) else [value]
            # Protobuf takes a field by its JSON name as well: experimentId is experiment_id.
            self._found.setdefault(_snake(key), []).extend(str(each) for each in values if each not in (None, ""))

    def names(self, named: Named, *fields: str) -> tuple[Name, ...]:
        """Every object that one of these fields names: the caller needs a right on each."""
        return tuple(dict.fromkeys(Name(named, value) for field in fields for value in self._found.get(field, ())))


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), key)


def need(
    method: str, path: str, query: Iterable[tuple[str, str]], body: Mapping[str, Any], workspace: str = ""
) -> Need | None:
    """What the caller must be allowed; None for what everybody may see (health, static files)."""
    if PUBLIC.match(path):
        return None
    found = _API.match(path)
    if found is None:
        return _outside_api(path)
    rest = found["rest"].rstrip("/")
    # An upload's body is the file itself: MLflow takes the run from the query.
    fields = Fields("GET" if rest == "mlflow/upload-artifact" else method, query, body)
    if rest.startswith("mlflow-artifacts/"):
        return _artifact(method, rest, fields, workspace)
    parts = rest.removeprefix("mlflow/").split("/")
    match parts[0]:
        case "experiments":
            return _experiments(parts[-1], fields)
        case "registered-models" | "model-versions":
            return _models(method, parts, fields)
        case "datasets":
            return _datasets(method, parts, fields)
        case "gateway":
            return _gateway(method, parts)
        case "jobs" | "prompt-optimization":
            return _by_words("jobs", method, parts)
        case "mcp-servers" | "mcp":
            return _by_words("mcpservers", method, parts)
        case "webhooks":
            return Need("registeredmodels", "list" if method == "GET" else "update")
    return _within_experiment(method, parts, fields)


def _outside_api(path: str) -> Need:
    if path.startswith("/gateway/"):
        endpoint = path.split("/")[2]
        return Need("gatewayendpoints", "create", "use", (Name(Named.VALUE, endpoint),))
    if path.startswith("/v1/"):
        return Need("experiments", "update")
    if path.startswith(("/get-artifact", "/graphql")):
        return Need("experiments", "get")
    if path.startswith("/model-versions/get-artifact"):
        return Need("registeredmodels", "get")
    # Pages of the UI.
    return Need("experiments", "list")


def _experiments(action: str, fields: Fields) -> Need:
    identity = fields.names(Named.EXPERIMENT_ID, "experiment_id")
    match action:
        case "create":
            return Need("experiments", "create", names=fields.names(Named.EXPERIMENT, "name"))
        case "get-by-name":
            return Need("experiments", "get", names=fields.names(Named.EXPERIMENT, "experiment_name"))
        case "search" | "search-datasets":
            return Need("experiments", "list")
        case "get":
            return Need("experiments", "get", names=identity)
        case "delete":
            return Need("experiments", "delete", names=identity)
    return Need("experiments", "update", names=identity)


_OF_EXPERIMENT = {
    "runs/create": ("experiment_id",),
    "runs/search": ("experiment_ids",),
    "logged-models": ("experiment_id",),
    "logged-models/search": ("experiment_ids",),
    "traces": ("experiment_ids",),
    "traces/delete-traces": ("experiment_id",),
    "scorers/register": ("experiment_id",),
    "scorers/list": ("experiment_id",),
    "scorers/versions": ("experiment_id",),
    "scorers/get": ("experiment_id",),
    "scorers/delete": ("experiment_id",),
}
_OF_RUN = {
    **dict.fromkeys(
        [
            "runs/get",
            "runs/update",
            "runs/log-metric",
            "runs/log-parameter",
            "runs/set-tag",
            "metrics/get-history",
            "artifacts/list",
            "upload-artifact",
        ],
        ("run_id", "run_uuid"),
    ),
    **dict.fromkeys(
        [
            "runs/delete",
            "runs/restore",
            "runs/delete-tag",
            "runs/log-batch",
            "runs/log-model",
            "runs/log-inputs",
            "runs/outputs",
            "metrics/get-history-bulk",
        ],
        ("run_id",),
    ),
}
"""The fields by which MLflow finds the experiment or run that a request acts on. Of any other request nobody can say by its
fields what it acts on: it needs the right for the whole workspace."""


def _within_experiment(method: str, parts: list[str], fields: Fields) -> Need:
    """Runs, traces, metrics, logged models, scorers and the rest: reading is `get`, writing is `update` of the experiment."""
    path, last = "/".join(parts), parts[-1]
    reads = method in ("GET", "HEAD") or (
        method == "POST" and (any(last.startswith(word) for word in _READS) or parts[0] in ("graphql", "metrics"))
    )
    verb = "get" if reads else "update"
    names = fields.names(Named.EXPERIMENT_ID, *_OF_EXPERIMENT.get(path, ())) or fields.names(
        Named.RUN_ID, *_OF_RUN.get(path, ())
    )
    if not names and verb == "get" and last.startswith("search"):
        verb = "list"
    return Need("experiments", verb, names=names)


def _artifact(method: str, rest: str, fields: Fields, workspace: str) -> Need:
    """Artifacts are named by their path, which the server looks up in the active workspace."""
    verb = "get" if method in ("GET", "HEAD") else "update"
    if rest == "mlflow-artifacts/artifacts":
        paths = [value for key, value in fields.query if key == "path"] if method == "GET" else []
    else:
        found = _ARTIFACT.match(rest)
        paths = [found["path"]] if found else []
    names = [_artifact_owner(path, workspace) for path in paths]
    known = tuple(name for name in names if name is not None)
    return Need("experiments", verb, names=known if len(known) == len(names) else ())


def _artifact_owner(path: str, workspace: str) -> Name | None:
    """The experiment whose folder a path is in; None where that cannot be said for sure."""
    parts = path.split("/")
    if parts[0] == "workspaces" and len(parts) > 1:
        if parts[1] != workspace:
            return None
        parts = parts[2:]
    if not parts or not parts[0].isdigit() or ".." in parts:
        return None
    return Name(Named.EXPERIMENT_ID, parts[0])


def _models(method: str, parts: list[str], fields: Fields) -> Need:
    names = fields.names(Named.MODEL, "name")
    kind, action = parts[0], parts[-1]
    if action == "search":
        return Need("registeredmodels", "list")
    if action in ("get", "get-latest-versions", "get-download-uri") or (action == "alias" and method == "GET"):
        return Need("registeredmodels", "get", names=names)
    if kind == "registered-models" and action == "create":
        return Need("registeredmodels", "create", names=names)
    if kind == "registered-models" and action == "delete":
        return Need("registeredmodels", "delete", names=names)
    if action == "rename":
        names = fields.names(Named.MODEL, "name", "new_name")
    return Need("registeredmodels", "update", names=names)


def _datasets(method: str, parts: list[str], fields: Fields) -> Need:
    action = parts[-1]
    if action == "create":
        return Need("datasets", "create", names=fields.names(Named.VALUE, "name"))
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
