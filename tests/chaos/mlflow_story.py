"""The life of an MLflow: made, migrated, changed, upgraded and deleted."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Object
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from modelyard.operators.mlflow.operator import operator
from tests.chaos.subject import Subject
from tests.chaos.sweeps import namespace, succeeding_jobs

NS = "opendatahub"
GC = {"schedule": "0 2 * * 0"}
ARCHIVAL = {"enabled": True, "location": "s3://b/t", "retention": "30d"}


async def upgraded(client: Client) -> None:
    """As an operator sees it that supports a newer version than the one that was recorded."""
    await client.patch(MLFLOW.kind, "", "mlflow", {"status": {"version": "3.9.0"}}, subresource="status")


async def forced(client: Client) -> None:
    await client.patch(MLFLOW.kind, "", "mlflow", {"metadata": {"annotations": {FORCE_MIGRATE: "now"}}})


async def ca_bundle(client: Client) -> None:
    body = {"metadata": {"name": "odh-trusted-ca-bundle", "namespace": NS}, "data": {"ca-bundle.crt": "x"}}
    await client.create(builtin.ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", **body})


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": NS, "labels": {"app": "mlflow", "component": "mlflow"}}, **fields}


MLFLOWS = Subject(
    operator,
    kind=MLFLOW.kind,
    key=Key("", "mlflow"),
    spec={"serveArtifacts": True, "backendStoreUri": "postgresql://u:p@db/mlflow"},
    environ={"MLFLOW_NAMESPACE": NS, "MLFLOW_URL": "https://gw.example.com"},
    served=[builtin.HTTPRoute, builtin.ServiceMonitor],
    setup=[namespace(NS)],
    foreign=[
        (builtin.ConfigMap, named("mlflow-trace-archival-config-2", data={"a": "b"})),
        (builtin.ServiceAccount, named("mlflow-gc")),
        (builtin.Service, named("bystander", spec={"ports": [{"port": 1}]})),
    ],
    # Jobs only tell what happened on the way.
    passing=[builtin.Job],
    outside=lambda: [succeeding_jobs()],
)
mlflow = MLFLOWS.made

LIFE = MLFLOWS.story(
    "an MLflow's life",
    mlflow(storage={}),
    mlflow(storage={}, garbageCollection=GC, traceArchival=ARCHIVAL),
    upgraded,
    mlflow(storage={}, replicas=2, env=[{"name": "A", "value": "b"}]),
    ca_bundle,
    mlflow(),
    forced,
    mlflow(storage={}, migration={"mode": "Always"}, serviceAccountName="robot"),
)

PINNED = MLFLOWS.story(
    "an MLflow with an image of its own, which is asked for its version before each migration",
    mlflow(storage={}, image={"image": "quay.io/me/mlflow:mine"}),
    upgraded,
    forced,
)

END = MLFLOWS.story(
    "an MLflow's end",
    mlflow(storage={}, garbageCollection=GC, traceArchival=ARCHIVAL),
    MLFLOWS.deleted,
    mlflow(storage={}),
)
