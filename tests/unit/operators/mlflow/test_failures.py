"""What may go wrong around an MLflow, and what must not follow from it."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import name_of
from modelyard.operators.mlflow.api import MLFLOW_OPERATOR
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from modelyard.operators.mlflow.module import MODULE_NAME
from modelyard.operators.mlflow.namespace_rbac import EDIT, VIEW, WORKSPACE
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.platform import Auth
from modelyard.runtime.declaring.desired import EventNote
from tests.cluster.mlflow.scenarios.platform import with_module
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.scene import JOB, MLflowScene
from tests.ground import MemoryGround
from tests.unit.operators.mlflow.test_quirks import preflight_of, storage

NEXT = "mlflow-mg-3150-g1"
MINE = "quay.io/me/mlflow:mine"


@pytest.fixture
def scene() -> MLflowScene:
    return MLflowScene.in_memory()


def events(scene: MLflowScene, reason: str) -> list[EventNote]:
    assert isinstance(scene.ground, MemoryGround)
    return [note for note in scene.ground.cluster.events if note.reason == reason]


async def restart(scene: MLflowScene, **settings: Any) -> None:
    await scene.ground.halt()
    await scene.start(**settings)


async def take_the_route(scene: MLflowScene) -> None:
    """The HTTPRoute is someone else's from now on."""
    await scene.ground.delete(builtin.HTTPRoute, "mlflow")
    await scene.ground.create(builtin.HTTPRoute, "mlflow", spec={})


async def test_a_route_that_cannot_be_made_does_not_stop_a_migration(scene: MLflowScene) -> None:
    await scene.start(builtin.HTTPRoute)
    await scene.settled()
    await take_the_route(scene)
    await restart(scene, supported_version="3.15.0")
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await scene.ground.deployment_has("mlflow", 0)
    await scene.ground.until(builtin.Job, NEXT)
    await scene.condition("Available", status="False", reason="HttpRouteFailed")
    await scene.condition("Migration", status="Unknown", reason="MigrationRunning")
    await scene.ground.job_succeeds(NEXT)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    await scene.ground.deployment_ready("mlflow")
    await scene.condition("Migration", status="True", reason="MigrationSucceeded")
    assert (await scene.status())["version"] == "3.15.0"


async def test_a_migration_that_waits_for_an_object_does_not_claim_to_have_begun(scene: MLflowScene) -> None:
    await scene.ground.create(builtin.Service, "mlflow", spec={"ports": [{"port": 1}]})
    await scene.start()
    await scene.create()
    condition = await scene.condition("Migration", status="Unknown", reason="MigrationError")
    assert condition["message"].startswith("Failed to reconcile migration: apply Service/mlflow: ")
    await scene.ground.absent(builtin.Job, JOB)
    assert events(scene, "MigrationRunning") == []


async def refuse(scene: MLflowScene, preflight: str) -> None:
    """The image says that it holds another version."""
    await scene.ground.until(builtin.Job, preflight)
    if await scene.ground.find(builtin.Pod, f"{preflight}-10"):
        await scene.ground.delete(builtin.Pod, f"{preflight}-10")
    await scene.ground.job_pod(preflight, "check-version", exit_code=10)
    await scene.ground.job_fails(preflight, at="2099-01-01T00:00:00Z")


async def test_a_configured_pair_that_does_not_match_is_found_while_the_server_runs(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    pair = {"image": MINE, "supported_version": "3.15.0", "image_vouched": False}
    await restart(scene, **pair)
    preflight, other = preflight_of(MINE, "3150"), "quay.io/me/mlflow:other"
    await refuse(scene, preflight)
    condition = await scene.condition("Migration", status="False", reason="MigrationImageMismatch")
    assert "Set the operator's MLFLOW_IMAGE and MLFLOW_VERSION" in condition["message"]
    await scene.condition("Available", status="True")
    assert (await scene.server()).spec["replicas"] == 1
    # Another image is another question, and the answer about the first one goes.
    await restart(scene, **pair | {"image": other})
    await scene.ground.until(builtin.Job, preflight_of(other, "3150"))
    await scene.ground.gone(builtin.Job, preflight)
    await scene.condition("Migration", status="Unknown", reason="MigrationPreflight")


async def test_a_first_server_is_not_asked_before_its_migration(scene: MLflowScene) -> None:
    await scene.start(image=MINE, image_vouched=False)
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    # The Deployment changes before its controller has looked at it: still there is no server to be stopped.
    await scene.ground.deployment_has("mlflow", 0)
    await scene.edit(podLabels={"a": "b"})
    await scene.ground.quiet()
    assert not [name for name in await scene.ground.names(builtin.Job) if "-pf-" in name]


async def test_a_refused_image_is_asked_again_when_that_is_forced(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    await restart(scene, image=MINE, supported_version="3.15.0", image_vouched=False)
    preflight = preflight_of(MINE, "3150")
    await refuse(scene, preflight)
    first = (await scene.ground.get(builtin.Job, preflight))["metadata"]["uid"]
    await scene.annotate(FORCE_MIGRATE)
    again = (await scene.ground.get(builtin.Job, preflight))["metadata"]["uid"]
    assert again != first
    await refuse(scene, preflight)
    await scene.condition("Migration", status="False", reason="ForceMigrationImageMismatch")
    same = (await scene.ground.get(builtin.Job, preflight))["metadata"]["uid"]
    assert same == again, "once for each time that it is forced"


async def test_a_server_that_is_left_alone_keeps_what_it_uses(scene: MLflowScene) -> None:
    await scene.start(supported_version="3.15.0")
    await scene.create(serviceAccountName="one", traceArchival=ARCHIVAL, garbageCollection=GC)
    await scene.migrate(NEXT, "3.15.0")
    before = [await scene.ground.get(builtin.CronJob, name) for name in await scene.ground.names(builtin.CronJob)]
    await restart(scene, supported_version="3.14.0")
    await scene.edit(serviceAccountName="two", traceArchival=None, garbageCollection=None)
    await scene.condition("Migration", status="False", reason="MigrationDowngradeRefused")
    assert await scene.ground.find(builtin.ServiceAccount, "one")
    assert await scene.ground.find(builtin.ConfigMap, "mlflow-trace-archival-config")
    assert [await scene.ground.get(builtin.CronJob, name_of(job)) for job in before] == before
    subjects = (await scene.ground.get(builtin.ClusterRoleBinding, "mlflow"))["subjects"]
    assert [subject["name"] for subject in subjects] == ["one", "mlflow-trace-archival-sa"]
    await scene.condition("Available", status="True")


async def test_a_job_that_gets_no_pod_says_so(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    assert "no pod" not in (await scene.condition("Migration"))["message"]
    await scene.ground.pass_time(90)
    condition = await scene.condition("Migration", status="Unknown", reason="MigrationRunning")
    assert condition["message"].endswith(f"it has no pod; kubectl -n opendatahub describe job {JOB} says why")


async def test_a_failure_without_a_time_is_retried(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    first = (await scene.ground.until(builtin.Job, JOB))["metadata"]["uid"]
    failed = {"type": "Failed", "status": "True", "message": "it broke"}
    await scene.ground.set_status(builtin.Job, JOB, {"conditions": [failed]})
    await scene.condition("Migration", status="Unknown", reason="MigrationRetrying")
    await scene.ground.pass_time(150)
    again = await scene.ground.until(builtin.Job, JOB)
    assert again["metadata"]["uid"] != first


async def test_a_job_of_someone_else_on_the_mlflow_does_not_stop_its_migration(scene: MLflowScene) -> None:
    uid = (await scene.create())["metadata"]["uid"]
    api = "mlflow.opendatahub.io/v1"
    owner = {"apiVersion": api, "kind": "MLflow", "name": "mlflow", "uid": uid, "controller": True}
    await scene.ground.create(builtin.Job, "backup", ownerReferences=[owner], spec={})
    await scene.start()
    await scene.ground.until(builtin.Job, JOB)


async def test_what_is_turned_off_goes_although_something_else_fails(scene: MLflowScene) -> None:
    await scene.start(builtin.HTTPRoute)
    await scene.settled(garbageCollection=GC, traceArchival=ARCHIVAL)
    await take_the_route(scene)
    await scene.edit(garbageCollection=None, traceArchival=None)
    await scene.condition("Available", reason="HttpRouteFailed")
    assert await scene.ground.names(builtin.CronJob) == []
    assert await scene.ground.names(builtin.ConfigMap) == []
    assert await scene.ground.names(builtin.ServiceAccount) == ["mlflow-sa"]
    for kind in (builtin.ClusterRole, builtin.ClusterRoleBinding):
        assert await scene.ground.names(kind) == ["mlflow"]


def variables(template: Object) -> list[tuple[str, str]]:
    (container,) = template["spec"]["containers"]
    return [(variable["name"], variable.get("value", "")) for variable in container["env"]]


async def test_variables_of_our_own_programs_cannot_be_set_twice(scene: MLflowScene) -> None:
    ca = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    await scene.ground.create(builtin.Secret, "mlflow-tls", data={"ca.crt": ca})
    await scene.start()
    ours = ("SUPPORTED_MLFLOW_VERSION", "MIGRATION_PYTHON_SCRIPT", "MLFLOW_TRACKING_SERVER_CERT_PATH")
    await scene.create(garbageCollection=GC, env=[{"name": name, "value": "mine"} for name in ours])
    job = variables((await scene.ground.until(builtin.Job, JOB))["spec"]["template"])
    collection = await scene.ground.until(builtin.CronJob, "mlflow-gc")
    collecting = variables(collection["spec"]["jobTemplate"]["spec"]["template"])
    for found in (job, collecting):
        assert max(Counter(name for name, _ in found).values()) == 1
    assert not {(name, "mine") for name in ours[:2]} & set(job)
    assert (ours[2], "mine") not in collecting


async def test_a_ca_that_is_no_text_is_not_used(scene: MLflowScene) -> None:
    binary = base64.b64encode(b"\x30\x82\xff").decode()
    await scene.ground.create(builtin.Secret, "mlflow-tls", data={"ca.crt": binary})
    await scene.start(builtin.HTTPRoute, BackendTLSPolicy)
    await scene.settled(garbageCollection=GC)
    await scene.ground.absent(BackendTLSPolicy, "mlflow")
    pod = (await scene.ground.get(builtin.CronJob, "mlflow-gc"))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert "serving-ca" not in {volume["name"] for volume in pod["volumes"]}


async def test_a_renamed_account_stays_until_no_pod_uses_it(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.edit(serviceAccountName="robot")
    deployment = await scene.ground.get(builtin.Deployment, "mlflow")
    counts = {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
    rolling = {"observedGeneration": deployment["metadata"]["generation"], **counts}
    await scene.ground.set_status(builtin.Deployment, "mlflow", rolling)
    await scene.ground.quiet()
    assert await scene.ground.names(builtin.ServiceAccount) == ["mlflow-sa", "robot"]
    await scene.ground.deployment_ready("mlflow")
    await scene.ground.gone(builtin.ServiceAccount, "mlflow-sa")


async def test_an_empty_account_name_is_the_default(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(serviceAccountName="")
    assert (await scene.server()).pod["serviceAccountName"] == "mlflow-sa"
    assert await scene.ground.names(builtin.ServiceAccount) == ["mlflow-sa"]


async def test_removed_storage_is_said_to_be_kept(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(storage=storage("5Gi"))
    await scene.edit(storage=None)
    condition = await scene.condition("Degraded", status="True", reason="StorageNotUpdated")
    assert "the volume claim mlflow-pvc and its data are kept and not used" in condition["message"]
    await scene.ground.delete(builtin.PersistentVolumeClaim, "mlflow-pvc")
    await scene.ground.quiet()
    assert "StorageNotUpdated" not in {one["reason"] for one in (await scene.status())["conditions"]}


async def test_a_class_is_asked_of_a_claim_that_has_none(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(storage=storage("5Gi"))
    await scene.edit(storage=storage("5Gi", storageClassName="fast"))
    condition = await scene.condition("Degraded", status="True", reason="StorageNotUpdated")
    assert "storage class fast is not the none it was made with" in condition["message"]


@pytest.mark.parametrize("field", ["backendStoreUri", "registryStoreUri", "readReplicaBackendStoreUri"])
async def test_a_file_without_storage_is_told_by_its_field_and_not_by_its_password(
    scene: MLflowScene, field: str
) -> None:
    await scene.start()
    spec: Object = {field: "sqlite+pysqlcipher://:TOPSECRET@/f.db", "artifactsDestination": "s3://b"}
    await scene.create(**spec)
    condition = await scene.condition("Degraded", status="True", reason="StorageMissing")
    assert f"spec.{field} is a SQLite file" in condition["message"]
    assert "TOPSECRET" not in str(await scene.status())


async def test_the_module_moves_its_time_with_its_message(scene: MLflowScene) -> None:
    module = (MLFLOW_OPERATOR.kind, MODULE_NAME)
    await with_module(scene, gatewayName="gw")
    first = await scene.ground.condition(*module, "Ready", reason="ConfigPending")
    await scene.ground.pass_time(3600)
    await scene.ground.edit(*module, lambda obj: obj["spec"].pop("gatewayName"))
    then = await scene.ground.condition(*module, "Ready", reason="ConfigPending")
    assert then["message"] != first["message"]
    assert then["lastTransitionTime"] > first["lastTransitionTime"]


async def test_a_foreign_binding_in_one_workspace_does_not_keep_the_rights_in_another(scene: MLflowScene) -> None:
    await scene.ground.serve(Auth)
    await scene.ground.create(Auth, "auth", spec={"allowedGroups": ["a"], "adminGroups": ["b"]})
    foreign = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "theirs"}
    for name in ("one", "two"):
        await scene.ground.create(builtin.Namespace, name, labels={WORKSPACE: "mlflow"})
    await scene.ground.create(builtin.RoleBinding, VIEW, namespace="one", roleRef=foreign, subjects=[])
    await scene.start(namespace_rbac=True)
    await scene.create()
    await scene.ground.until(builtin.RoleBinding, VIEW, namespace="two")
    await scene.ground.edit(builtin.Namespace, "two", lambda namespace: namespace["metadata"].pop("labels"))
    for name in (VIEW, EDIT):
        await scene.ground.gone(builtin.RoleBinding, name, namespace="two")
    assert (await scene.ground.get(builtin.RoleBinding, VIEW, namespace="one"))["roleRef"] == foreign
    (note,) = events(scene, "Foreign")
    assert note.message.startswith(f"RoleBinding one/{VIEW}: ")
