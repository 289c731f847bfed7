"""What surprised users of the operator: each scene says what they see now."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import conditions_of, uid_of
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.parts.references import CONFIG_DIGEST
from tests.cluster.mlflow.scenarios.scene import JOB, POSTGRES, MLflowScene

NEXT = "mlflow-mg-3150-g1"


def reference(kind: Kind, name: str, uid: str) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid, "controller": True}


async def pod_of(scene: MLflowScene, deployment: str, *, labels: dict[str, str]) -> str:
    """A ReplicaSet of a Deployment with one pod, as their controllers make them; gives the pod's name."""
    owner = await scene.ground.find(builtin.Deployment, deployment)
    assert owner is not None
    name, template = f"{deployment}-7d4", {"metadata": {"labels": labels}, "spec": _pod()}
    found = await scene.ground.create(
        builtin.ReplicaSet,
        name,
        labels=labels,
        ownerReferences=[reference(builtin.Deployment, deployment, uid_of(owner))],
        spec={"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    )
    holder = [reference(builtin.ReplicaSet, name, uid_of(found))]
    await scene.ground.create(builtin.Pod, f"{name}-x", labels=labels, ownerReferences=holder, spec=_pod())
    await scene.ground.set_status(builtin.Pod, f"{name}-x", {"phase": "Running"})
    return f"{name}-x"


def _pod() -> Object:
    return {"containers": [{"name": "c", "image": "x"}]}


async def upgraded(scene: MLflowScene, version: str = "3.15.0", **settings: Any) -> None:
    """The operator comes back with another MLflow version."""
    await scene.ground.halt()
    await scene.start(supported_version=version, **settings)


async def a_pod_of_another_deployment_blocks_no_migration(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    labels = {"app": "mlflow"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": _pod()}}
    await scene.ground.create(builtin.Deployment, "tracker", spec=spec)
    theirs = await pod_of(scene, "tracker", labels=labels)
    ours = await pod_of(scene, "mlflow", labels={**labels, "app.kubernetes.io/instance": "mlflow"})
    await upgraded(scene)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await scene.ground.deployment_has("mlflow", 0)
    waiting = await scene.condition("Migration", reason="MigrationScalingDown")
    assert f"1 replicas remain (pod {ours}" in waiting["message"]
    assert theirs not in waiting["message"]
    await scene.ground.delete(builtin.Pod, ours)
    await scene.ground.until(builtin.Job, NEXT)


async def pods_of_a_deleted_server_are_waited_for(scene: MLflowScene) -> None:
    """Someone deletes the Deployment: the server of the next one does not exist yet, but the former still runs."""
    await scene.start()
    await scene.settled()
    labels = {"app": "mlflow", "app.kubernetes.io/instance": "mlflow"}
    holder = [reference(builtin.ReplicaSet, "mlflow-old", "11111111-1111-1111-1111-111111111111")]
    await scene.ground.halt()
    await scene.ground.create(
        builtin.Pod, "mlflow-old-x", labels=labels, ownerReferences=holder, finalizers=["example.com/hold"], spec=_pod()
    )
    await scene.ground.delete(builtin.Deployment, "mlflow")
    await upgraded(scene)
    waiting = await scene.condition("Migration", reason="MigrationScalingDown")
    assert "pod mlflow-old-x" in waiting["message"]
    await scene.ground.edit(builtin.Pod, "mlflow-old-x", lambda pod: pod["metadata"].update(finalizers=[]))
    await _gone(scene, builtin.Pod, "mlflow-old-x")
    await scene.ground.until(builtin.Job, NEXT)


async def _gone(scene: MLflowScene, kind: Kind, name: str) -> None:
    if await scene.ground.find(kind, name) is not None:
        await scene.ground.delete(kind, name)
    await scene.ground.gone(kind, name)


async def a_job_that_is_being_deleted_is_waited_for(scene: MLflowScene) -> None:
    """A Job of an MLflow that had the name before, held by someone's finalizer."""
    other = reference(Kind("mlflow.opendatahub.io", "v1", "MLflow", "mlflows", namespaced=False), "other", "x" * 8)
    template = {"spec": {**_pod(), "restartPolicy": "Never"}}
    await scene.ground.create(
        builtin.Job, JOB, ownerReferences=[other], finalizers=["example.com/hold"], spec={"template": template}
    )
    await scene.ground.delete(builtin.Job, JOB)
    await scene.start()
    await scene.create()
    waiting = await scene.condition("Migration", reason="MigrationRunning")
    assert f"Waiting for Job {scene.namespace}/{JOB}, which is being deleted, to be gone" in waiting["message"]
    await scene.condition("Available", status="False", reason="MigrationRunning")
    await scene.ground.edit(builtin.Job, JOB, lambda job: job["metadata"].update(finalizers=[]))
    await scene.ground.until(builtin.Job, JOB, lambda job: "deletionTimestamp" not in job["metadata"])


async def a_refused_migration_that_nobody_asks_for_any_more_was_not_completed(scene: MLflowScene) -> None:
    await scene.start(supported_version="3.15.0")
    await scene.create()
    await scene.migrate(NEXT, "3.15.0")
    await upgraded(scene, "3.14.0")
    await scene.condition("Migration", status="False", reason="MigrationDowngradeRefused")
    await upgraded(scene, "3.15.0")
    found = await scene.condition("Migration", status="True")
    assert "completed successfully" not in found["message"]
    assert "was not carried out" in found["message"]
    assert "MLflow 3.15.0" in found["message"]


async def secret(scene: MLflowScene, name: str, **data: str) -> None:
    await scene.ground.create(builtin.Secret, name, data=_encoded(data))


def _encoded(data: dict[str, str]) -> dict[str, str]:
    return {key: b64encode(value.encode()).decode() for key, value in data.items()}


DATABASE: dict[str, Any] = {
    "backendStoreUri": None,
    "backendStoreUriFrom": {"name": "db", "key": "uri"},
    "artifactsDestination": "s3://bucket/artifacts",
}


async def with_secrets(scene: MLflowScene, **spec: Any) -> str:
    """A server that runs, with its database in a Secret; gives the digest that its pods carry."""
    await secret(scene, "db", uri=POSTGRES)
    await secret(scene, "mlflow-tls", **{"tls.crt": "c", "tls.key": "k"})
    await scene.start()
    await scene.settled(**{**DATABASE, **spec})
    return await _digest(scene)


async def _digest(scene: MLflowScene) -> str:
    template = (await scene.server()).spec["template"]
    return str(template["metadata"]["annotations"][CONFIG_DIGEST])


async def a_deleted_secret_is_named_and_leaves_the_server_running(scene: MLflowScene, lost: str, reader: str) -> None:
    digest = await with_secrets(scene)
    await scene.ground.delete(builtin.Secret, lost)
    found = await scene.condition("Degraded", status="True", reason="SecretMissing")
    assert f"Secret {lost} does not exist in namespace {scene.namespace}" in found["message"]
    assert reader in found["message"]
    assert "the running server keeps the values that it has read" in found["message"]
    assert await _digest(scene) == digest
    await scene.condition("Available", status="True")
    await scene.ground.told(MLFLOW.kind, "mlflow", f"SecretMissing: Secret {lost} does not exist")
    # What else changes meanwhile is not a reason either.
    other = "db" if lost == "mlflow-tls" else "mlflow-tls"
    await scene.ground.edit(
        builtin.Secret, other, lambda s: s["data"].update(_encoded({"tls.crt": "new", "uri": "new"}))
    )
    assert await _digest(scene) == digest


async def a_restored_secret_ends_the_complaint(scene: MLflowScene) -> None:
    digest = await with_secrets(scene)
    await scene.ground.delete(builtin.Secret, "db")
    await scene.condition("Degraded", reason="SecretMissing")
    await secret(scene, "db", uri=POSTGRES)
    await scene.ground.until(MLFLOW.kind, "mlflow", lambda m: all(c["type"] != "Degraded" for c in conditions_of(m)))
    assert await _digest(scene) == digest
    await scene.ground.edit(builtin.Secret, "db", lambda s: s["data"].update(_encoded({"uri": POSTGRES + "2"})))
    await scene.ground.until(
        builtin.Deployment,
        "mlflow",
        lambda d: d["spec"]["template"]["metadata"]["annotations"][CONFIG_DIGEST] != digest,
    )


async def a_key_that_is_taken_out_is_named(scene: MLflowScene) -> None:
    digest = await with_secrets(scene)
    await scene.ground.edit(builtin.Secret, "db", lambda s: s.update(data=_encoded({"url": POSTGRES})))
    found = await scene.condition("Degraded", status="True", reason="SecretMissing")
    assert f"Secret db in namespace {scene.namespace} has no key uri" in found["message"]
    assert await _digest(scene) == digest


async def a_config_map_counts_as_well(scene: MLflowScene) -> None:
    await scene.ground.create(builtin.ConfigMap, "extra", data={"A": "b"})
    digest = await with_secrets(scene, envFrom=[{"configMapRef": {"name": "extra"}}])
    await scene.ground.delete(builtin.ConfigMap, "extra")
    found = await scene.condition("Degraded", status="True", reason="ConfigMapMissing")
    assert "ConfigMap extra does not exist" in found["message"]
    assert "spec.envFrom" in found["message"]
    assert await _digest(scene) == digest


async def no_server_is_stopped_for_a_migration_that_cannot_start(scene: MLflowScene) -> None:
    await with_secrets(scene)
    await scene.ground.delete(builtin.Secret, "db")
    await upgraded(scene)
    found = await scene.condition("Migration", status="Unknown", reason="MigrationReferencesMissing")
    assert "Secret db does not exist" in found["message"]
    assert (await scene.server()).spec["replicas"] == 1
    await secret(scene, "db", uri=POSTGRES)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)


async def a_secret_that_was_never_there_is_named(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(**DATABASE)
    found = await scene.condition("Degraded", status="True", reason="SecretMissing")
    assert "Secret db does not exist" in found["message"]
    assert "the server cannot start without it" in found["message"]
