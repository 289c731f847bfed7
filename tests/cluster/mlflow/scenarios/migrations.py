"""Scenarios 51-62: migrations."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, status_of, uid_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from tests.cluster.mlflow.scenarios.scene import JOB, Book, MLflowScene, Server

book = Book()
migrations = book.scenario
LONG_AGO = "2025-01-01T00:00:00Z"
FAR_AHEAD = "2099-01-01T00:00:00Z"
"""A failure that lies in the future is always too young to be retried."""
RETRYABLE = "migration failed due to a retryable database or migration error."
NOT_SQL = "operator-managed migration only supports SQL backend store URIs"
COMPLETED = "Migration for generation {} completed successfully"
AFTER_FIXING = f"After fixing the issue, add the {FORCE_MIGRATE} annotation to the MLflow resource to force a rerun."


async def older_version(scene: MLflowScene, version: str = "3.9.0", pods: int = 1) -> None:
    """An MLflow that was settled with an older version, and whose server is up; nothing has reacted to that yet."""
    await scene.create()
    await scene.ground.set_status(MLFLOW.kind, "mlflow", {"version": version})
    deployment = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "mlflow"}},
        "template": {
            "metadata": {"labels": {"app": "mlflow"}},
            "spec": {"containers": [{"name": "mlflow", "image": "x"}]},
        },
    }
    owner = (await scene.ground.find(MLFLOW.kind, "mlflow") or {})["metadata"]
    reference = {"apiVersion": MLFLOW.kind.api_version, "kind": "MLflow", "name": "mlflow", "uid": owner["uid"]}
    reference |= {"controller": True, "blockOwnerDeletion": True}
    await scene.ground.create(builtin.Deployment, "mlflow", ownerReferences=[reference], spec=deployment)
    await scene.ground.deployment_has("mlflow", pods, ready=0)


@migrations(51)
async def a_new_mlflow_is_migrated_first(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    job = await scene.ground.until(builtin.Job, JOB)
    assert (await scene.server()).spec["replicas"] == 0
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("MLflow", "mlflow")
    await scene.condition("Migration", status="Unknown", reason="MigrationRunning", observedGeneration=1)
    await scene.condition("Available", status="False")
    assert not (await scene.status()).get("version")


@migrations(52)
async def the_version_is_recorded_when_the_server_is_up(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    await scene.ground.job_succeeds(JOB)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    await scene.condition("Migration", status="Unknown")
    assert not (await scene.status()).get("version")
    await scene.ground.deployment_ready("mlflow")
    await scene.condition("Migration", status="True", reason="MigrationSucceeded")
    await scene.condition("Progressing", status="False", reason="ReconcileComplete")
    assert (await scene.status())["version"] == "3.14.0"


@migrations(53)
async def a_running_server_is_stopped_first(scene: MLflowScene) -> None:
    await older_version(scene)
    await scene.start()
    condition = await scene.condition("Migration", status="Unknown", reason="MigrationScalingDown")
    assert "1 replicas remain" in condition["message"]
    assert 'status.version="3.9.0" does not match supported version 3.14.0' in condition["message"]
    await scene.ground.absent(builtin.Job, JOB)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await scene.ground.deployment_has("mlflow", 0)
    await scene.ground.until(builtin.Job, JOB)


async def failed(scene: MLflowScene, exit_code: int | None = None, *, message: str = "x", at: str = FAR_AHEAD) -> None:
    """A first migration whose Job has failed; its pod ended with the code, or is gone."""
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    if exit_code is not None:
        await scene.ground.job_pod(JOB, "db-migrate", exit_code=exit_code)
    await scene.ground.job_fails(JOB, message=message, at=at)


@migrations(54)
async def a_hopeless_failure_is_final(scene: MLflowScene) -> None:
    await scene.start()
    await failed(scene, 11)
    await scene.condition("Migration", status="False", reason="MigrationFailed")
    await scene.condition("Available", status="False", message=f"{NOT_SQL}. {AFTER_FIXING}")
    await scene.condition("Progressing", status="False", reason="MigrationFailed")
    assert (await scene.server()).spec["replicas"] == 0


@migrations(55)
async def a_final_failure_outlives_its_job_and_generation(scene: MLflowScene) -> None:
    await scene.start()
    await failed(scene, 11)
    await scene.condition("Migration", status="False", reason="MigrationFailed")
    await scene.ground.delete(builtin.Job, JOB)
    await scene.edit(env=[{"name": "A", "value": "b"}])
    condition = await scene.condition("Migration", status="False", reason="MigrationFailed", observedGeneration=2)
    assert condition["message"].startswith(NOT_SQL)
    await scene.ground.absent(builtin.Job, "mlflow-mg-3140-g2")
    await scene.ground.gone(builtin.Job, JOB)


@migrations(56)
async def a_failure_without_pods_says_what_the_job_says(scene: MLflowScene) -> None:
    await scene.start()
    await failed(scene, message="x")
    condition = await scene.condition("Migration", status="Unknown", reason="MigrationRetrying")
    assert condition["message"].startswith("x Retrying automatically after ")


@migrations(57)
async def a_retryable_failure_is_retried(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    first = uid_of(await scene.ground.until(builtin.Job, JOB))
    await scene.ground.job_pod(JOB, "db-migrate", exit_code=15)
    await scene.ground.job_fails(JOB, at=LONG_AGO)
    again = await scene.ground.until(builtin.Job, JOB, lambda job: uid_of(job) != first)
    assert not status_of(again).get("conditions")
    await scene.ground.told(MLFLOW.kind, "mlflow", f"MigrationRetrying: {RETRYABLE} Retrying automatically after ")
    await scene.condition("Migration", status="Unknown", reason="MigrationRunning")


@migrations(58)
async def a_failed_migration_can_be_forced(scene: MLflowScene) -> None:
    await scene.start()
    await failed(scene, 11)
    await scene.condition("Migration", status="False", reason="MigrationFailed")
    first = uid_of(await scene.ground.get(builtin.Job, JOB))
    await scene.annotate(FORCE_MIGRATE)
    again = await scene.ground.until(builtin.Job, JOB, lambda job: uid_of(job) != first)
    assert not status_of(again).get("conditions")
    restart = f"ForceMigrationRestartRequested: Deleted failed migration Job {JOB} so the force-migrate annotation"
    await scene.ground.told(MLFLOW.kind, "mlflow", restart)
    await scene.condition("Migration", status="Unknown", reason="ForceMigrationRunning")


@migrations(59)
async def a_forced_migration_does_not_count_an_old_success(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    first = uid_of(await scene.ground.get(builtin.Job, JOB))
    await scene.ground.job_succeeds(JOB)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    await scene.annotate(FORCE_MIGRATE)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await scene.ground.deployment_has("mlflow", 0)
    await scene.ground.until(builtin.Job, JOB, lambda job: uid_of(job) != first)
    await scene.ground.told(
        MLFLOW.kind, "mlflow", f"ForceMigrationRestartRequested: Deleted completed migration Job {JOB}"
    )
    await scene.condition("Migration", status="Unknown", reason="ForceMigrationRunning")
    await scene.ground.job_succeeds(JOB)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    assert FORCE_MIGRATE in annotations_of(await scene.resource())
    await scene.ground.deployment_ready("mlflow")
    await scene.condition("Migration", status="True", reason="MigrationSucceeded")
    await scene.ground.until(MLFLOW.kind, "mlflow", lambda mlflow: FORCE_MIGRATE not in annotations_of(mlflow))
    assert (await scene.status())["version"] == "3.14.0"


@migrations(60)
async def mode_always_migrates_each_generation(scene: MLflowScene) -> None:
    async def stopped_for(generation: int) -> str:
        """The server is down, and the Job of this generation is there; gives its name."""
        await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
        await scene.ground.deployment_has("mlflow", 0)
        name = f"mlflow-mg-3140-g{generation}"
        await scene.ground.until(builtin.Job, name)
        assert (await scene.server()).spec["replicas"] == 0
        return name

    await scene.start()
    await scene.settled()
    await scene.edit(env=[{"name": "A", "value": "b"}])
    await scene.edit(migration={"mode": "Always"})
    third = await stopped_for(3)
    await scene.migrate(third)
    settled = await scene.condition(
        "Migration", status="True", reason="MigrationSucceeded", observedGeneration=3, message=COMPLETED.format(3)
    )
    await scene.annotate("example.com/look-again")
    assert (await scene.server()).spec["replicas"] == 1
    assert await scene.condition("Migration") == settled
    assert await scene.ground.names(builtin.Job) == [JOB, third]
    await scene.edit(env=[{"name": "A", "value": "c"}])
    fourth = await stopped_for(4)
    assert await scene.ground.names(builtin.Job) == [JOB, third, fourth]
    await scene.migrate(fourth)
    await scene.condition("Migration", status="True", observedGeneration=4, message=COMPLETED.format(4))


@migrations(61)
async def mode_automatic_changes_the_server_in_place(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.edit(env=[{"name": "A", "value": "b"}])
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: Server(d).env.get("A") == "b")
    assert (await scene.server()).spec["replicas"] == 1
    assert await scene.ground.names(builtin.Job) == [JOB]


@migrations(62)
async def the_migration_job_is_the_servers_pod_without_its_server(scene: MLflowScene) -> None:
    stores: Object = {
        f"{field}From": {"name": f"{field.lower()}-secret", "key": "uri"}
        for field in ("backendStoreUri", "registryStoreUri", "readReplicaBackendStoreUri")
    }
    await scene.start()
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    resources = {"claims": [{"name": "gpu"}]}
    await scene.create(
        backendStoreUri=None, **stores, resourceClaims=claims, resources=resources, podAnnotations={"a": "b"}
    )
    job = Server(await scene.ground.until(builtin.Job, JOB), "db-migrate")
    assert job.env["MLFLOW_BACKEND_STORE_URI"] == {"secretKeyRef": stores["backendStoreUriFrom"]}
    assert job.env["MLFLOW_REGISTRY_STORE_URI"] == {"secretKeyRef": stores["registryStoreUriFrom"]}
    assert job.env["MLFLOW_READ_REPLICA_BACKEND_STORE_URI"] == ""
    assert job.env["SUPPORTED_MLFLOW_VERSION"] == "3.14.0"
    assert "app" not in job.template["metadata"]["labels"]
    assert "app" not in job.object["metadata"]["labels"]
    assert not job.template["metadata"].get("annotations")
    assert not {"ports", "livenessProbe", "readinessProbe"} & job.container.keys()
    assert "claims" not in job.container["resources"]
    assert "resourceClaims" not in job.pod
    assert job.spec["ttlSecondsAfterFinished"] == 86400
    assert job.spec["backoffLimit"] == 3


async def earlier_pods_do_not_count(scene: MLflowScene) -> None:
    """Pods of a Job that had the name before say nothing about this one (Q12)."""
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    await scene.ground.job_pod(JOB, "db-migrate", exit_code=11, orphan="of-an-older-job")
    await scene.ground.job_fails(JOB, message="x", at=FAR_AHEAD)
    condition = await scene.condition("Migration", status="Unknown", reason="MigrationRetrying")
    assert condition["message"].startswith("x Retrying")
