"""The scenarios of the specification, in memory: no server, no waiting. The cluster tier runs the same ones on servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Key
from modelyard.operators.mlflow.api import DEFINITIONS
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from modelyard.runtime.acting.memory import KeyMemory
from modelyard.runtime.acting.passes import Pass
from tests.cluster.mlflow.scenarios import E2E, NEEDS_API, SCENARIOS, title
from tests.cluster.mlflow.scenarios.migrations import FAR_AHEAD, LONG_AGO, NOT_SQL, RETRYABLE, failed, older_version
from tests.cluster.mlflow.scenarios.scene import JOB, MLflowScene
from tests.ground import MemoryGround


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](MLflowScene.in_memory())


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS.keys() | E2E.keys()) == list(range(1, 73))
    e2e = (Path(__file__).parents[3] / "e2e" / "test_mlflow.py").read_text()
    assert [name for name in E2E.values() if f"def {name}(" not in e2e] == []


async def not_ready(scene: MLflowScene) -> None:
    await scene.settled(replicas=2)
    await scene.ground.deployment_has("mlflow", 2, ready=0)


async def without_its_ca_bundle(scene: MLflowScene) -> None:
    await scene.create(caBundleConfigMap={"name": "nope"})


async def failed_for_good(scene: MLflowScene) -> None:
    await failed(scene, 11)


async def failed_long_ago(scene: MLflowScene) -> None:
    await failed(scene, 15, at=LONG_AGO)


async def forced(scene: MLflowScene) -> None:
    await failed(scene, 11)
    await scene.ground.quiet()
    await scene.annotate(FORCE_MIGRATE)


@pytest.mark.parametrize(
    ("number", "situation", "seconds"),
    [
        (43, without_its_ca_bundle, 30.0),
        (48, not_ready, 10.0),
        (53, older_version, 300.0),
        (54, failed_for_good, None),
        (57, failed_long_ago, 2.0),
        (58, forced, 300.0),
        (63, not_ready, 10.0),
    ],
)
async def test_how_soon_it_looks_again(
    number: int, situation: Callable[[MLflowScene], Awaitable[None]], seconds: float | None
) -> None:
    """The rest of the waiting times are in the table of migration steps."""
    ground = MemoryGround(DEFINITIONS)
    scene = MLflowScene(ground)
    await scene.start()
    await situation(scene)
    controller = mlflow_controller(Settings(namespace=ground.namespace, module=number == 63))
    result = await Pass(controller, ground.cluster, KeyMemory(), Key("", "mlflow")).run()
    assert result.requeue_after == seconds


@pytest.mark.parametrize(
    ("codes", "reason", "said"),
    [((15, 11), "MigrationFailed", NOT_SQL), ((11, 15), "MigrationRetrying", RETRYABLE)],
)
async def test_54_the_newest_pod_says_how_a_migration_failed(codes: tuple[int, int], reason: str, said: str) -> None:
    scene = MLflowScene.in_memory()
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    for code in codes:
        await scene.ground.job_pod(JOB, "db-migrate", exit_code=code)
        await scene.ground.pass_time(60)
    await scene.ground.job_fails(JOB, at=FAR_AHEAD)
    assert (await scene.condition("Migration", reason=reason))["message"].startswith(said)
