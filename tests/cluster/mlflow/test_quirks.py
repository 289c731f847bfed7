"""Upstream's defects (section 12 of the specification) that only an API server can show: what is refused, and what goes along."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.objects import uid_of
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from modelyard.operators.mlflow.namespace_rbac import MANAGED_BY
from modelyard.operators.mlflow.rules import MANAGED_ENV
from tests.cluster.mlflow.scenarios.admission import accepted
from tests.cluster.mlflow.scenarios.migrations import earlier_pods_do_not_count, failed
from tests.cluster.mlflow.scenarios.platform import others_bindings_stay
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.routing import namesakes_stay
from tests.cluster.mlflow.scenarios.scene import JOB, MLflowScene, refused

ENV = "env must not name MLFLOW_BACKEND_STORE_URI, MLFLOW_REGISTRY_STORE_URI, MLFLOW_K8S_AUTH_AUTHORIZATION_MODE"
LABELS = "podLabels must not change app or app.kubernetes.io/instance: the server's pods are selected by them"
SCHEDULE = "schedule must be a cron expression of five fields"
BAD_SCHEDULES = ("0 2 * *", "0 2 * * 0 *", "daily", "@fortnightly", "@every", " ")
GOOD_SCHEDULES = ("0 2 * * 0", " */5 0-3,7 1 jan mon ", "@daily", "@every 1h30m")


def env(*names: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": "x"} for name in names]}


def gc(schedule: str) -> dict[str, Any]:
    return {"garbageCollection": {**GC, "schedule": schedule}}


def archival(schedule: str, *, enabled: bool = True) -> dict[str, Any]:
    return {"traceArchival": {**ARCHIVAL, "schedule": schedule, "enabled": enabled}}


@pytest.mark.parametrize(
    ("message", "specs"),
    [
        (ENV, [env("MINE", name) for name in MANAGED_ENV]),
        (LABELS, [{"podLabels": {"team": "a", label: "x"}} for label in ("app", "app.kubernetes.io/instance")]),
        (SCHEDULE, [gc(schedule) for schedule in BAD_SCHEDULES]),
        (SCHEDULE, [*(archival(schedule) for schedule in BAD_SCHEDULES), archival("daily", enabled=False)]),
    ],
    ids=["q05-env", "q06-pod-labels", "q29-garbage-collection", "q29-trace-archival"],
)
async def test_what_could_not_run_is_refused(scene: MLflowScene, message: str, specs: list[dict[str, Any]]) -> None:
    for spec in specs:
        await refused(scene.create(**spec), message)
    await scene.create()
    for spec in specs:
        await refused(scene.edit(**spec), message)


@pytest.mark.parametrize(
    "specs",
    [
        [env("MLFLOW_BACKEND_STORE_URI_OPTIONS", "MLFLOW_DISABLE_TELEMETRY", "SSL_CERT_FILE")],
        [{"podLabels": {"app": "mlflow", "app.kubernetes.io/instance": "mlflow", "app.kubernetes.io/name": "x"}}],
        [gc(schedule) for schedule in GOOD_SCHEDULES],
        [archival(schedule) for schedule in GOOD_SCHEDULES],
    ],
    ids=["q05-env", "q06-pod-labels", "q29-garbage-collection", "q29-trace-archival"],
)
async def test_its_neighbours_are_accepted(scene: MLflowScene, specs: list[dict[str, Any]]) -> None:
    for spec in specs:
        await accepted(scene, **spec)


@pytest.mark.parametrize("labels", [{}, {"component": "mlflow"}], ids=["plain", "with our label"])
async def test_q09_namesakes_of_what_is_turned_off_are_left_alone(scene: MLflowScene, labels: dict[str, str]) -> None:
    await namesakes_stay(scene, labels)


async def test_q12_the_pods_of_a_deleted_job_go_with_it(scene: MLflowScene) -> None:
    await scene.start()
    await failed(scene)
    pod = await scene.ground.job_pod(JOB, "db-migrate", exit_code=11)
    first = uid_of(await scene.ground.get(builtin.Job, JOB))
    await scene.annotate(FORCE_MIGRATE)
    await scene.ground.until(builtin.Job, JOB, lambda job: uid_of(job) != first)
    await scene.ground.gone(builtin.Pod, pod)


async def test_q12_pods_of_an_earlier_job_of_the_same_name_do_not_count(scene: MLflowScene) -> None:
    await earlier_pods_do_not_count(scene)


@pytest.mark.parametrize("labels", [{}, MANAGED_BY], ids=["plain", "with our label"])
async def test_q31_role_bindings_of_others_are_left_alone(scene: MLflowScene, labels: dict[str, str]) -> None:
    await others_bindings_stay(scene, labels)
