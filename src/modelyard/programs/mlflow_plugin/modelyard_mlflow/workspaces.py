"""Workspaces are namespaces: which there are, which the caller sees, and where a namespace keeps its artifacts."""

from __future__ import annotations

import base64
import contextvars
import os
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from mlflow.entities import Workspace
from mlflow.entities.workspace import TraceArchivalConfig
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INTERNAL_ERROR, RESOURCE_DOES_NOT_EXIST
from mlflow.store.workspace.abstract_store import ResolvedTraceArchivalConfig

from .kubernetes import Kubernetes, NoAnswer
from .rules import Need

caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="")
"""The bearer token of the request being served; empty for the server's own work."""

_VISIBLE = (Need("experiments", "list"), Need("experiments", "get"), Need("registeredmodels", "list"))
_SYSTEM = ("kube-", "openshift-")


class NamespaceWorkspaces:
    """The workspace provider for `kubernetes://`."""

    def __init__(self, workspace_uri: str) -> None:
        self._api = Kubernetes()
        self._selector = os.environ.get("MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR", "")
        self._default = os.environ.get("MLFLOW_K8S_DEFAULT_WORKSPACE", "")

    def list_workspaces(self) -> Iterable[Workspace]:
        token = caller.get()
        return [
            Workspace(name=name, description=description)
            for name, description in self._namespaces().items()
            if not token or any(self._api.allowed(token, name, need) for need in _VISIBLE)
        ]

    def get_workspace(self, workspace_name: str) -> Workspace:
        found = self._namespaces()
        if workspace_name not in found:
            # Someone may have created the namespace a moment ago.
            found = self._namespaces(fresh=True)
        if workspace_name not in found:
            raise MlflowException(
                f"Workspace '{workspace_name}' not found: it is not a namespace, or not one that holds workspaces",
                RESOURCE_DOES_NOT_EXIST,
            )
        return Workspace(name=workspace_name, description=found[workspace_name])

    def get_default_workspace(self) -> Workspace:
        if not self._default:
            # MLflow's word for: there is none, so a request has to name its workspace. Its callers expect it.
            raise NotImplementedError
        return self.get_workspace(self._default)

    def create_workspace(self, workspace: Workspace) -> Workspace:
        raise _not_here(f"kubectl create namespace {workspace.name}")

    def update_workspace(self, workspace: Workspace) -> Workspace:
        described = f"kubectl annotate --overwrite namespace {workspace.name} description=..."
        raise _not_here(f"{described} for its description, an MLflowConfig named mlflow in it for its artifact root")

    def delete_workspace(self, workspace_name: str, mode: Any = None) -> None:
        raise _not_here(f"kubectl delete namespace {workspace_name}")

    def resolve_artifact_root(self, default_artifact_root: str | None, workspace_name: str) -> tuple[str | None, bool]:
        """The bucket that the namespace's MLflowConfig names, else the server's own root with the workspace below it."""
        root = self._configured_root(workspace_name)
        return (root, False) if root else (default_artifact_root, True)

    def resolve_trace_archival_config(
        self, default_trace_archival_root: str, default_retention: str, workspace_name: str
    ) -> ResolvedTraceArchivalConfig:
        config = TraceArchivalConfig(location=default_trace_archival_root, retention=default_retention)
        return ResolvedTraceArchivalConfig(config=config, append_workspace_prefix=True)

    def _namespaces(self, *, fresh: bool = False) -> dict[str, str]:
        query = f"?labelSelector={quote(self._selector)}" if self._selector else ""
        try:
            answer = self._api.read(f"/api/v1/namespaces{query}", fresh=fresh)
        except NoAnswer as error:
            raise MlflowException(str(error), INTERNAL_ERROR) from error
        if answer is None:
            raise MlflowException("the server's service account may not list namespaces", INTERNAL_ERROR)
        found = {}
        for item in answer.get("items") or []:
            meta = item["metadata"]
            ending = meta.get("deletionTimestamp") is not None
            if not ending and (self._selector or not meta["name"].startswith(_SYSTEM)):
                annotations = meta.get("annotations") or {}
                found[meta["name"]] = (
                    annotations.get("openshift.io/description") or annotations.get("description") or ""
                )
        return found

    def _configured_root(self, namespace: str) -> str | None:
        try:
            config = self._api.read(f"/apis/mlflow.kubeflow.org/v1/namespaces/{namespace}/mlflowconfigs/mlflow")
            if config is None:
                return None
            spec = config.get("spec") or {}
            secret = self._api.read(f"/api/v1/namespaces/{namespace}/secrets/{spec.get('artifactRootSecret')}")
        except NoAnswer as error:
            raise MlflowException(str(error), INTERNAL_ERROR) from error
        if secret is None:
            raise MlflowException.invalid_parameter_value(
                f"MLflowConfig of namespace '{namespace}' names secret '{spec.get('artifactRootSecret')}', which is missing"
            )
        bucket = base64.b64decode((secret.get("data") or {}).get("AWS_S3_BUCKET", "")).decode()
        if not bucket:
            raise MlflowException.invalid_parameter_value(
                f"secret '{spec.get('artifactRootSecret')}' of namespace '{namespace}' has no key AWS_S3_BUCKET"
            )
        path = (spec.get("artifactRootPath") or "").strip("/")
        return f"s3://{bucket}/{path}" if path else f"s3://{bucket}"


def _not_here(command: str) -> MlflowException:
    """A refusal that says what does it."""
    message = f"Workspaces are Kubernetes namespaces and are not changed through MLflow. Use: {command}"
    return MlflowException.invalid_parameter_value(message)
