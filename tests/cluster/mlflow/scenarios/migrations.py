"""Scenarios 51-62: migrations."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, status_of, uid_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from tests.cluster.mlflow.scenarios.story import JOB, Book, Server, Story

book = Book()
migrations = book.scenario
LONG_AGO = "2025-01-01T00:00:00Z"
FAR_AHEAD = "2099-01-01T00:00:00Z"
"""A failure that lies in the future is always too young to be retried."""
RETRYABLE = "migration failed due to a retryable database or migration error."
NOT_SQL = "operator-managed migration only supports SQL backend store URIs"
COMPLETED = "Migration for generation {} completed successfully"
AFTER_FIXING = f"After fixing the issue, add the {FORCE_MIGRATE} annotation to the MLflow resource to force a rerun."


async def older_version(story: Story, version: str = "3.9.0", pods: int = 1) -> None:
    """An MLflow that was settled with an older version, and whose server is up; nothing has reacted to that yet."""
    await story.create()
    await story.yard.set_status(MLFLOW.kind, "mlflow", {"version": version})
    deployment = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "mlflow"}},
        "template": {
            "metadata": {"labels": {"app": "mlflow"}},
            "spec": {"containers": [{"name": "mlflow", "image": "x"}]},
        },
    }
    owner = (await story.yard.find(MLFLOW.kind, "mlflow") or {})["metadata"]
    reference = {"apiVersion": MLFLOW.kind.api_version, "kind": "MLflow", "name": "mlflow", "uid": owner["uid"]}
    reference |= {"controller": True, "blockOwnerDeletion": True}
    await story.yard.create(builtin.Deployment, "mlflow", ownerReferences=[reference], spec=deployment)
    await story.yard.deployment_has("mlflow", pods, ready=0)


@migrations(51)
async def a_new_mlflow_is_migrated_first(story: Story) -> None:
    await story.start()
    await story.create()
    job = await story.yard.until(builtin.Job, JOB)
    assert (await story.server()).spec["replicas"] == 0
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("MLflow", "mlflow")
    await story.condition("Migration", status="Unknown", reason="MigrationRunning", observedGeneration=1)
    await story.condition("Available", status="False")
    assert not (await story.status()).get("version")


@migrations(52)
async def the_version_is_recorded_when_the_server_is_up(story: Story) -> None:
    await story.start()
    await story.create()
    await story.yard.until(builtin.Job, JOB)
    await story.yard.job_succeeds(JOB)
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    await story.condition("Migration", status="Unknown")
    assert not (await story.status()).get("version")
    await story.yard.deployment_ready("mlflow")
    await story.condition("Migration", status="True", reason="MigrationSucceeded")
    await story.condition("Progressing", status="False", reason="ReconcileComplete")
    assert (await story.status())["version"] == "3.14.0"


@migrations(53)
async def a_running_server_is_stopped_first(story: Story) -> None:
    await older_version(story)
    await story.start()
    condition = await story.condition("Migration", status="Unknown", reason="MigrationScalingDown")
    assert "1 replicas remain" in condition["message"]
    assert 'status.version="3.9.0" does not match supported version 3.14.0' in condition["message"]
    await story.yard.absent(builtin.Job, JOB)
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await story.yard.deployment_has("mlflow", 0)
    await story.yard.until(builtin.Job, JOB)


async def failed(story: Story, exit_code: int | None = None, *, message: str = "x", at: str = FAR_AHEAD) -> None:
    """A first migration whose Job has failed; its pod ended with the code, or is gone."""
    await story.create()
    await story.yard.until(builtin.Job, JOB)
    if exit_code is not None:
        await story.yard.job_pod(JOB, "db-migrate", exit_code=exit_code)
    await story.yard.job_fails(JOB, message=message, at=at)


@migrations(54)
async def a_hopeless_failure_is_final(story: Story) -> None:
    await story.start()
    await failed(story, 11)
    await story.condition("Migration", status="False", reason="MigrationFailed")
    await story.condition("Available", status="False", message=f"{NOT_SQL}. {AFTER_FIXING}")
    await story.condition("Progressing", status="False", reason="MigrationFailed")
    assert (await story.server()).spec["replicas"] == 0


@migrations(55)
async def a_final_failure_outlives_its_job_and_generation(story: Story) -> None:
    await story.start()
    await failed(story, 11)
    await story.condition("Migration", status="False", reason="MigrationFailed")
    await story.yard.delete(builtin.Job, JOB)
    await story.edit(env=[{"name": "A", "value": "b"}])
    condition = await story.condition("Migration", status="False", reason="MigrationFailed", observedGeneration=2)
    assert condition["message"].startswith(NOT_SQL)
    await story.yard.absent(builtin.Job, "mlflow-mg-3140-g2")
    await story.yard.gone(builtin.Job, JOB)


@migrations(56)
async def a_failure_without_pods_says_what_the_job_says(story: Story) -> None:
    await story.start()
    await failed(story, message="x")
    condition = await story.condition("Migration", status="Unknown", reason="MigrationRetrying")
    assert condition["message"].startswith("x Retrying automatically after ")


@migrations(57)
async def a_retryable_failure_is_retried(story: Story) -> None:
    await story.start()
    await story.create()
    first = uid_of(await story.yard.until(builtin.Job, JOB))
    await story.yard.job_pod(JOB, "db-migrate", exit_code=15)
    await story.yard.job_fails(JOB, at=LONG_AGO)
    again = await story.yard.until(builtin.Job, JOB, lambda job: uid_of(job) != first)
    assert not status_of(again).get("conditions")
    await story.yard.told(MLFLOW.kind, "mlflow", f"MigrationRetrying: {RETRYABLE} Retrying automatically after ")
    await story.condition("Migration", status="Unknown", reason="MigrationRunning")


@migrations(58)
async def a_failed_migration_can_be_forced(story: Story) -> None:
    await story.start()
    await failed(story, 11)
    await story.condition("Migration", status="False", reason="MigrationFailed")
    first = uid_of(await story.yard.get(builtin.Job, JOB))
    await story.annotate(FORCE_MIGRATE)
    again = await story.yard.until(builtin.Job, JOB, lambda job: uid_of(job) != first)
    assert not status_of(again).get("conditions")
    restart = f"ForceMigrationRestartRequested: Deleted failed migration Job {JOB} so the force-migrate annotation"
    await story.yard.told(MLFLOW.kind, "mlflow", restart)
    await story.condition("Migration", status="Unknown", reason="ForceMigrationRunning")


@migrations(59)
async def a_forced_migration_does_not_count_an_old_success(story: Story) -> None:
    await story.start()
    await story.create()
    await story.yard.until(builtin.Job, JOB)
    first = uid_of(await story.yard.get(builtin.Job, JOB))
    await story.yard.job_succeeds(JOB)
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    await story.annotate(FORCE_MIGRATE)
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await story.yard.deployment_has("mlflow", 0)
    await story.yard.until(builtin.Job, JOB, lambda job: uid_of(job) != first)
    await story.yard.told(
        MLFLOW.kind, "mlflow", f"ForceMigrationRestartRequested: Deleted completed migration Job {JOB}"
    )
    await story.condition("Migration", status="Unknown", reason="ForceMigrationRunning")
    await story.yard.job_succeeds(JOB)
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    assert FORCE_MIGRATE in annotations_of(await story.mlflow())
    await story.yard.deployment_ready("mlflow")
    await story.condition("Migration", status="True", reason="MigrationSucceeded")
    await story.yard.until(MLFLOW.kind, "mlflow", lambda mlflow: FORCE_MIGRATE not in annotations_of(mlflow))
    assert (await story.status())["version"] == "3.14.0"


@migrations(60)
async def mode_always_migrates_each_generation(story: Story) -> None:
    async def stopped_for(generation: int) -> str:
        """The server is down, and the Job of this generation is there; gives its name."""
        await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
        await story.yard.deployment_has("mlflow", 0)
        name = f"mlflow-mg-3140-g{generation}"
        await story.yard.until(builtin.Job, name)
        assert (await story.server()).spec["replicas"] == 0
        return name

    await story.start()
    await story.settled()
    await story.edit(env=[{"name": "A", "value": "b"}])
    await story.edit(migration={"mode": "Always"})
    third = await stopped_for(3)
    await story.migrate(third)
    settled = await story.condition(
        "Migration", status="True", reason="MigrationSucceeded", observedGeneration=3, message=COMPLETED.format(3)
    )
    await story.annotate("example.com/look-again")
    assert (await story.server()).spec["replicas"] == 1
    assert await story.condition("Migration") == settled
    assert await story.yard.names(builtin.Job) == [JOB, third]
    await story.edit(env=[{"name": "A", "value": "c"}])
    fourth = await stopped_for(4)
    assert await story.yard.names(builtin.Job) == [JOB, third, fourth]
    await story.migrate(fourth)
    await story.condition("Migration", status="True", observedGeneration=4, message=COMPLETED.format(4))


@migrations(61)
async def mode_automatic_changes_the_server_in_place(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.edit(env=[{"name": "A", "value": "b"}])
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: Server(d).env.get("A") == "b")
    assert (await story.server()).spec["replicas"] == 1
    assert await story.yard.names(builtin.Job) == [JOB]


@migrations(62)
async def the_migration_job_is_the_servers_pod_without_its_server(story: Story) -> None:
    stores: Object = {
        f"{field}From": {"name": f"{field.lower()}-secret", "key": "uri"}
        for field in ("backendStoreUri", "registryStoreUri", "readReplicaBackendStoreUri")
    }
    await story.start()
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    resources = {"claims": [{"name": "gpu"}]}
    await story.create(
        backendStoreUri=None, **stores, resourceClaims=claims, resources=resources, podAnnotations={"a": "b"}
    )
    job = Server(await story.yard.until(builtin.Job, JOB), "db-migrate")
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


async def earlier_pods_do_not_count(story: Story) -> None:
    """Pods of a Job that had the name before say nothing about this one (Q12)."""
    await story.start()
    await story.create()
    await story.yard.until(builtin.Job, JOB)
    await story.yard.job_pod(JOB, "db-migrate", exit_code=11, orphan="of-an-older-job")
    await story.yard.job_fails(JOB, message="x", at=FAR_AHEAD)
    condition = await story.condition("Migration", status="Unknown", reason="MigrationRetrying")
    assert condition["message"].startswith("x Retrying")
