"""What surprised users of the operator, in memory."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.mlflow.status import server_rollout
from tests.cluster.mlflow.scenarios import surprises
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.scene import MLflowScene


@pytest.fixture
def scene() -> MLflowScene:
    return MLflowScene.in_memory()


async def test_a_pod_of_another_deployment_blocks_no_migration(scene: MLflowScene) -> None:
    await surprises.a_pod_of_another_deployment_blocks_no_migration(scene)


async def test_a_refused_migration_that_nobody_asks_for_any_more_was_not_completed(scene: MLflowScene) -> None:
    await surprises.a_refused_migration_that_nobody_asks_for_any_more_was_not_completed(scene)


def deployment(**status: int) -> Object:
    return {"metadata": {"generation": 2}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1, **status}}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"observedGeneration": 1, "updatedReplicas": 1, "replicas": 1}, "has not seen the last change yet"),
        ({"observedGeneration": 2, "updatedReplicas": 0, "replicas": 1}, "0/1 replicas updated"),
        ({"observedGeneration": 2, "updatedReplicas": 1, "replicas": 2}, "1 replicas of the version before still run"),
    ],
)
def test_a_rollout_says_what_it_waits_for(status: dict[str, int], said: str) -> None:
    found = server_rollout(deployment(**status))
    assert not found.available
    assert said in found.message
    assert "1/1" not in found.message


@pytest.mark.parametrize(
    ("account", "jobs"),
    [
        ("mlflow-gc-sa", {"garbageCollection": GC}),
        ("mlflow-gc-sa", {}),
        ("mlflow-trace-archival-sa", {"traceArchival": ARCHIVAL}),
    ],
)
async def test_a_stored_mlflow_with_the_account_of_a_scheduled_job_is_told_and_not_written_for_ever(
    scene: MLflowScene, account: str, jobs: Object
) -> None:
    await scene.start()
    await scene.create(serviceAccountName=account, **jobs)
    found = await scene.condition("Available", status="False", reason="RenderFailed")
    assert f"spec.serviceAccountName {account} is the account of a scheduled job" in found["message"]
    await scene.ground.absent(builtin.ServiceAccount, account)


@pytest.mark.parametrize(
    ("lost", "reader"), [("db", "spec.backendStoreUriFrom"), ("mlflow-tls", "MLFLOW_TLS_SECRET")], ids=["db", "tls"]
)
async def test_a_deleted_secret_is_named_and_leaves_the_server_running(
    scene: MLflowScene, lost: str, reader: str
) -> None:
    await surprises.a_deleted_secret_is_named_and_leaves_the_server_running(scene, lost, reader)


async def test_a_restored_secret_ends_the_complaint(scene: MLflowScene) -> None:
    await surprises.a_restored_secret_ends_the_complaint(scene)


async def test_a_key_that_is_taken_out_is_named(scene: MLflowScene) -> None:
    await surprises.a_key_that_is_taken_out_is_named(scene)


async def test_a_config_map_counts_as_well(scene: MLflowScene) -> None:
    await surprises.a_config_map_counts_as_well(scene)


async def test_no_server_is_stopped_for_a_migration_that_cannot_start(scene: MLflowScene) -> None:
    await surprises.no_server_is_stopped_for_a_migration_that_cannot_start(scene)


async def test_a_secret_that_was_never_there_is_named(scene: MLflowScene) -> None:
    await surprises.a_secret_that_was_never_there_is_named(scene)
