"""What surprised users of the operator, on an API server."""

from __future__ import annotations

from tests.cluster.mlflow.scenarios import surprises
from tests.cluster.mlflow.scenarios.rendering import GC
from tests.cluster.mlflow.scenarios.scene import MLflowScene, refused


async def test_a_pod_of_another_deployment_blocks_no_migration(scene: MLflowScene) -> None:
    await surprises.a_pod_of_another_deployment_blocks_no_migration(scene)


async def test_pods_of_a_deleted_server_are_waited_for(scene: MLflowScene) -> None:
    await surprises.pods_of_a_deleted_server_are_waited_for(scene)


async def test_a_job_that_is_being_deleted_is_waited_for(scene: MLflowScene) -> None:
    await surprises.a_job_that_is_being_deleted_is_waited_for(scene)


async def test_a_refused_migration_that_nobody_asks_for_any_more_was_not_completed(scene: MLflowScene) -> None:
    await surprises.a_refused_migration_that_nobody_asks_for_any_more_was_not_completed(scene)


async def test_the_accounts_of_scheduled_jobs_are_refused_for_the_server(scene: MLflowScene) -> None:
    for account in ("mlflow-gc-sa", "mlflow-trace-archival-sa"):
        said = "serviceAccountName must not be mlflow-gc-sa or mlflow-trace-archival-sa"
        await refused(scene.create(serviceAccountName=account), said)
        await refused(scene.create(serviceAccountName=account, garbageCollection=GC), said)


async def test_a_deleted_secret_is_named_and_leaves_the_server_running(scene: MLflowScene) -> None:
    await surprises.a_deleted_secret_is_named_and_leaves_the_server_running(scene, "db", "spec.backendStoreUriFrom")


async def test_no_server_is_stopped_for_a_migration_that_cannot_start(scene: MLflowScene) -> None:
    await surprises.no_server_is_stopped_for_a_migration_that_cannot_start(scene)
