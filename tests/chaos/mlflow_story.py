"""The life of an MLflow: made, migrated, changed, upgraded and deleted."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.mlflow.api import DEFINITIONS, MLFLOW
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from modelyard.runtime.controller import Controller
from modelyard.runtime.desired import Desired
from modelyard.runtime.world import World
from tests.chaos.sweeps import Stage, Step, Story, namespace

NS = "opendatahub"
GC = {"schedule": "0 2 * * 0"}
ARCHIVAL = {"enabled": True, "location": "s3://b/t", "retention": "30d"}
SETTINGS = Settings(url="https://gw.example.com", url_configured=True)
AT = "2026-01-01T00:00:00Z"


def jobs() -> Controller:
    """Plays the Job controller: every Job succeeds."""
    controller = Controller("jobs", builtin.Job, field_manager="modelyard-test-jobs")

    @controller.reconcile
    def reconcile(job: Object, world: World) -> Desired:
        conditions = [
            {
                "type": type,
                "status": "True",
                "reason": "CompletionsReached",
                "lastTransitionTime": AT,
                "lastProbeTime": AT,
            }
            for type in ("SuccessCriteriaMet", "Complete")
        ]
        counts = {"succeeded": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
        return Desired(status={"startTime": AT, "completionTime": AT, "conditions": conditions, **counts})

    return controller


def mlflow(**spec: Any) -> Step:
    """The MLflow is as given here, and nothing else."""

    async def step(client: Client) -> None:
        kind = MLFLOW.kind
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "mlflow"}}
        full = {"serveArtifacts": True, "backendStoreUri": "postgresql://u:p@db/mlflow", **spec}
        await client.apply(kind, body | {"spec": full}, field_manager="user", force=True)

    return step


async def upgraded(client: Client) -> None:
    """As an operator sees it that supports a newer version than the one that was recorded."""
    await client.patch(MLFLOW.kind, "", "mlflow", {"status": {"version": "3.9.0"}}, subresource="status")


async def forced(client: Client) -> None:
    await client.patch(MLFLOW.kind, "", "mlflow", {"metadata": {"annotations": {FORCE_MIGRATE: "now"}}})


async def ca_bundle(client: Client) -> None:
    body = {"metadata": {"name": "odh-trusted-ca-bundle", "namespace": NS}, "data": {"ca-bundle.crt": "x"}}
    await client.create(builtin.ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", **body})


async def deleted(client: Client) -> None:
    await client.delete(MLFLOW.kind, "", "mlflow")


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": NS, "labels": {"app": "mlflow", "component": "mlflow"}}, **fields}


def story(name: str, *steps: Step) -> Story:
    return Story(
        name=name,
        controllers=lambda: [mlflow_controller(SETTINGS)],
        definitions=DEFINITIONS,
        served=[builtin.HTTPRoute, builtin.ServiceMonitor],
        setup=[namespace(NS)],
        foreign=[
            (builtin.ConfigMap, named("mlflow-trace-archival-config-2", data={"a": "b"})),
            (builtin.ServiceAccount, named("mlflow-gc")),
            (builtin.Service, named("bystander", spec={"ports": [{"port": 1}]})),
        ],
        steps=steps,
        passing=[builtin.Job],
        ground=lambda: [jobs()],
    )


LIFE = story(
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

PINNED = story(
    "an MLflow with an image of its own, which is asked for its version before each migration",
    mlflow(storage={}, image={"image": "quay.io/me/mlflow:mine"}),
    upgraded,
    forced,
)

END = story(
    "an MLflow's end", mlflow(storage={}, garbageCollection=GC, traceArchival=ARCHIVAL), deleted, mlflow(storage={})
)

OWNED = (
    builtin.Deployment, builtin.Service, builtin.ServiceAccount, builtin.NetworkPolicy, builtin.ConfigMap, builtin.CronJob,
    builtin.ClusterRole, builtin.ClusterRoleBinding, builtin.HTTPRoute, builtin.ServiceMonitor,
)  # fmt: skip


async def owned(stage: Stage) -> list[tuple[Kind, Object]]:
    """The children that may be deleted and changed by someone: not the data, and not the Jobs that are done."""
    return [
        (kind, obj)
        for kind in OWNED
        for obj in (await stage.client.list(kind)).items
        if any(owner["kind"] == "MLflow" for owner in obj["metadata"].get("ownerReferences") or ())
    ]
