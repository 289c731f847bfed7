"""What may go wrong around an MLflow, and what must not follow from it."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import name_of
from modelyard.operators.mlflow.api import DEFINITIONS, MLFLOW_OPERATOR
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from modelyard.operators.mlflow.module import MODULE_NAME
from modelyard.operators.mlflow.namespace_rbac import EDIT, VIEW, WORKSPACE
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.platform import Auth
from modelyard.runtime.desired import EventNote
from tests.cluster.mlflow.scenarios.platform import with_module
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.story import JOB, Story
from tests.unit.operators.mlflow.test_quirks import preflight_of, storage
from tests.yard import MemoryYard

NEXT = "mlflow-mg-3150-g1"
MINE = "quay.io/me/mlflow:mine"


@pytest.fixture
def story() -> Story:
    return Story(MemoryYard(DEFINITIONS))


def events(story: Story, reason: str) -> list[EventNote]:
    assert isinstance(story.yard, MemoryYard)
    return [note for note in story.yard.cluster.events if note.reason == reason]


async def restart(story: Story, **settings: Any) -> None:
    await story.yard.halt()
    await story.start(**settings)


async def take_the_route(story: Story) -> None:
    """The HTTPRoute is someone else's from now on."""
    await story.yard.delete(builtin.HTTPRoute, "mlflow")
    await story.yard.create(builtin.HTTPRoute, "mlflow", spec={})


# Migrations


async def test_a_route_that_cannot_be_made_does_not_stop_a_migration(story: Story) -> None:
    await story.start(builtin.HTTPRoute)
    await story.settled()
    await take_the_route(story)
    await restart(story, supported_version="3.15.0")
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await story.yard.deployment_has("mlflow", 0)
    await story.yard.until(builtin.Job, NEXT)
    await story.condition("Available", status="False", reason="HttpRouteFailed")
    await story.condition("Migration", status="Unknown", reason="MigrationRunning")
    await story.yard.job_succeeds(NEXT)
    await story.yard.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    await story.yard.deployment_ready("mlflow")
    await story.condition("Migration", status="True", reason="MigrationSucceeded")
    assert (await story.status())["version"] == "3.15.0"


async def test_a_migration_that_waits_for_an_object_does_not_claim_to_have_begun(story: Story) -> None:
    await story.yard.create(builtin.Service, "mlflow", spec={"ports": [{"port": 1}]})
    await story.start()
    await story.create()
    condition = await story.condition("Migration", status="Unknown", reason="MigrationError")
    assert condition["message"].startswith("Failed to reconcile migration: apply Service/mlflow: ")
    await story.yard.absent(builtin.Job, JOB)
    assert events(story, "MigrationRunning") == []


async def refuse(story: Story, preflight: str) -> None:
    """The image says that it holds another version."""
    await story.yard.until(builtin.Job, preflight)
    if await story.yard.find(builtin.Pod, f"{preflight}-10"):
        await story.yard.delete(builtin.Pod, f"{preflight}-10")
    await story.yard.job_pod(preflight, "check-version", exit_code=10)
    await story.yard.job_fails(preflight, at="2099-01-01T00:00:00Z")


async def test_a_configured_pair_that_does_not_match_is_found_while_the_server_runs(story: Story) -> None:
    await story.start()
    await story.settled()
    pair = {"image": MINE, "supported_version": "3.15.0", "image_vouched": False}
    await restart(story, **pair)
    preflight, other = preflight_of(MINE, "3150"), "quay.io/me/mlflow:other"
    await refuse(story, preflight)
    condition = await story.condition("Migration", status="False", reason="MigrationImageMismatch")
    assert "Set the operator's MLFLOW_IMAGE and MLFLOW_VERSION" in condition["message"]
    await story.condition("Available", status="True")
    assert (await story.server()).spec["replicas"] == 1
    # Another image is another question, and the answer about the first one goes.
    await restart(story, **pair | {"image": other})
    await story.yard.until(builtin.Job, preflight_of(other, "3150"))
    await story.yard.gone(builtin.Job, preflight)
    await story.condition("Migration", status="Unknown", reason="MigrationPreflight")


async def test_a_first_server_is_not_asked_before_its_migration(story: Story) -> None:
    await story.start(image=MINE, image_vouched=False)
    await story.create()
    await story.yard.until(builtin.Job, JOB)
    # The Deployment changes before its controller has looked at it: still there is no server to be stopped.
    await story.yard.deployment_has("mlflow", 0)
    await story.edit(podLabels={"a": "b"})
    await story.yard.quiet()
    assert not [name for name in await story.yard.names(builtin.Job) if "-pf-" in name]


async def test_a_refused_image_is_asked_again_when_that_is_forced(story: Story) -> None:
    await story.start()
    await story.settled()
    await restart(story, image=MINE, supported_version="3.15.0", image_vouched=False)
    preflight = preflight_of(MINE, "3150")
    await refuse(story, preflight)
    first = (await story.yard.get(builtin.Job, preflight))["metadata"]["uid"]
    await story.annotate(FORCE_MIGRATE)
    again = (await story.yard.get(builtin.Job, preflight))["metadata"]["uid"]
    assert again != first
    await refuse(story, preflight)
    await story.condition("Migration", status="False", reason="ForceMigrationImageMismatch")
    same = (await story.yard.get(builtin.Job, preflight))["metadata"]["uid"]
    assert same == again, "once for each time that it is forced"


async def test_a_server_that_is_left_alone_keeps_what_it_uses(story: Story) -> None:
    await story.start(supported_version="3.15.0")
    await story.create(serviceAccountName="one", traceArchival=ARCHIVAL, garbageCollection=GC)
    await story.migrate(NEXT, "3.15.0")
    before = [await story.yard.get(builtin.CronJob, name) for name in await story.yard.names(builtin.CronJob)]
    await restart(story, supported_version="3.14.0")
    await story.edit(serviceAccountName="two", traceArchival=None, garbageCollection=None)
    await story.condition("Migration", status="False", reason="MigrationDowngradeRefused")
    assert await story.yard.find(builtin.ServiceAccount, "one")
    assert await story.yard.find(builtin.ConfigMap, "mlflow-trace-archival-config")
    assert [await story.yard.get(builtin.CronJob, name_of(job)) for job in before] == before
    subjects = (await story.yard.get(builtin.ClusterRoleBinding, "mlflow"))["subjects"]
    assert [subject["name"] for subject in subjects] == ["one", "mlflow-trace-archival-sa"]
    await story.condition("Available", status="True")


async def test_a_job_that_gets_no_pod_says_so(story: Story) -> None:
    await story.start()
    await story.create()
    await story.yard.until(builtin.Job, JOB)
    assert "no pod" not in (await story.condition("Migration"))["message"]
    await story.yard.pass_time(90)
    condition = await story.condition("Migration", status="Unknown", reason="MigrationRunning")
    assert condition["message"].endswith(f"it has no pod; kubectl -n opendatahub describe job {JOB} says why")


async def test_a_failure_without_a_time_is_retried(story: Story) -> None:
    await story.start()
    await story.create()
    first = (await story.yard.until(builtin.Job, JOB))["metadata"]["uid"]
    failed = {"type": "Failed", "status": "True", "message": "it broke"}
    await story.yard.set_status(builtin.Job, JOB, {"conditions": [failed]})
    await story.condition("Migration", status="Unknown", reason="MigrationRetrying")
    await story.yard.pass_time(150)
    again = await story.yard.until(builtin.Job, JOB)
    assert again["metadata"]["uid"] != first


async def test_a_job_of_someone_else_on_the_mlflow_does_not_stop_its_migration(story: Story) -> None:
    uid = (await story.create())["metadata"]["uid"]
    api = "mlflow.opendatahub.io/v1"
    owner = {"apiVersion": api, "kind": "MLflow", "name": "mlflow", "uid": uid, "controller": True}
    await story.yard.create(builtin.Job, "backup", ownerReferences=[owner], spec={})
    await story.start()
    await story.yard.until(builtin.Job, JOB)


# Children


async def test_what_is_turned_off_goes_although_something_else_fails(story: Story) -> None:
    await story.start(builtin.HTTPRoute)
    await story.settled(garbageCollection=GC, traceArchival=ARCHIVAL)
    await take_the_route(story)
    await story.edit(garbageCollection=None, traceArchival=None)
    await story.condition("Available", reason="HttpRouteFailed")
    assert await story.yard.names(builtin.CronJob) == []
    assert await story.yard.names(builtin.ConfigMap) == []
    assert await story.yard.names(builtin.ServiceAccount) == ["mlflow-sa"]
    for kind in (builtin.ClusterRole, builtin.ClusterRoleBinding):
        assert await story.yard.names(kind) == ["mlflow"]


def variables(template: Object) -> list[tuple[str, str]]:
    (container,) = template["spec"]["containers"]
    return [(variable["name"], variable.get("value", "")) for variable in container["env"]]


async def test_variables_of_our_own_programs_cannot_be_set_twice(story: Story) -> None:
    ca = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    await story.yard.create(builtin.Secret, "mlflow-tls", data={"ca.crt": ca})
    await story.start()
    ours = ("SUPPORTED_MLFLOW_VERSION", "MIGRATION_PYTHON_SCRIPT", "MLFLOW_TRACKING_SERVER_CERT_PATH")
    await story.create(garbageCollection=GC, env=[{"name": name, "value": "mine"} for name in ours])
    job = variables((await story.yard.until(builtin.Job, JOB))["spec"]["template"])
    collection = await story.yard.until(builtin.CronJob, "mlflow-gc")
    collecting = variables(collection["spec"]["jobTemplate"]["spec"]["template"])
    for found in (job, collecting):
        assert max(Counter(name for name, _ in found).values()) == 1
    assert not {(name, "mine") for name in ours[:2]} & set(job)
    assert (ours[2], "mine") not in collecting


async def test_a_ca_that_is_no_text_is_not_used(story: Story) -> None:
    binary = base64.b64encode(b"\x30\x82\xff").decode()
    await story.yard.create(builtin.Secret, "mlflow-tls", data={"ca.crt": binary})
    await story.start(builtin.HTTPRoute, BackendTLSPolicy)
    await story.settled(garbageCollection=GC)
    await story.yard.absent(BackendTLSPolicy, "mlflow")
    pod = (await story.yard.get(builtin.CronJob, "mlflow-gc"))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert "serving-ca" not in {volume["name"] for volume in pod["volumes"]}


async def test_a_renamed_account_stays_until_no_pod_uses_it(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.edit(serviceAccountName="robot")
    deployment = await story.yard.get(builtin.Deployment, "mlflow")
    counts = {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
    rolling = {"observedGeneration": deployment["metadata"]["generation"], **counts}
    await story.yard.set_status(builtin.Deployment, "mlflow", rolling)
    await story.yard.quiet()
    assert await story.yard.names(builtin.ServiceAccount) == ["mlflow-sa", "robot"]
    await story.yard.deployment_ready("mlflow")
    await story.yard.gone(builtin.ServiceAccount, "mlflow-sa")


async def test_an_empty_account_name_is_the_default(story: Story) -> None:
    await story.start()
    await story.settled(serviceAccountName="")
    assert (await story.server()).pod["serviceAccountName"] == "mlflow-sa"
    assert await story.yard.names(builtin.ServiceAccount) == ["mlflow-sa"]


# What people are told


async def test_removed_storage_is_said_to_be_kept(story: Story) -> None:
    await story.start()
    await story.settled(storage=storage("5Gi"))
    await story.edit(storage=None)
    condition = await story.condition("Degraded", status="True", reason="StorageNotUpdated")
    assert "the volume claim mlflow-pvc and its data are kept and not used" in condition["message"]
    await story.yard.delete(builtin.PersistentVolumeClaim, "mlflow-pvc")
    await story.yard.quiet()
    assert "StorageNotUpdated" not in {one["reason"] for one in (await story.status())["conditions"]}


async def test_a_class_is_asked_of_a_claim_that_has_none(story: Story) -> None:
    await story.start()
    await story.settled(storage=storage("5Gi"))
    await story.edit(storage=storage("5Gi", storageClassName="fast"))
    condition = await story.condition("Degraded", status="True", reason="StorageNotUpdated")
    assert "storage class fast is not the none it was made with" in condition["message"]


@pytest.mark.parametrize("field", ["backendStoreUri", "registryStoreUri", "readReplicaBackendStoreUri"])
async def test_a_file_without_storage_is_told_by_its_field_and_not_by_its_password(story: Story, field: str) -> None:
    await story.start()
    spec: Object = {field: "sqlite+pysqlcipher://:TOPSECRET@/f.db", "artifactsDestination": "s3://b"}
    await story.create(**spec)
    condition = await story.condition("Degraded", status="True", reason="StorageMissing")
    assert f"spec.{field} is a SQLite file" in condition["message"]
    assert "TOPSECRET" not in str(await story.status())


async def test_the_module_moves_its_time_with_its_message(story: Story) -> None:
    module = (MLFLOW_OPERATOR.kind, MODULE_NAME)
    await with_module(story, gatewayName="gw")
    first = await story.yard.condition(*module, "Ready", reason="ConfigPending")
    await story.yard.pass_time(3600)
    await story.yard.edit(*module, lambda obj: obj["spec"].pop("gatewayName"))
    then = await story.yard.condition(*module, "Ready", reason="ConfigPending")
    assert then["message"] != first["message"]
    assert then["lastTransitionTime"] > first["lastTransitionTime"]


# Workspaces


async def test_a_foreign_binding_in_one_workspace_does_not_keep_the_rights_in_another(story: Story) -> None:
    await story.yard.serve(Auth)
    await story.yard.create(Auth, "auth", spec={"allowedGroups": ["a"], "adminGroups": ["b"]})
    foreign = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "theirs"}
    for name in ("one", "two"):
        await story.yard.create(builtin.Namespace, name, labels={WORKSPACE: "mlflow"})
    await story.yard.create(builtin.RoleBinding, VIEW, namespace="one", roleRef=foreign, subjects=[])
    await story.start(namespace_rbac=True)
    await story.create()
    await story.yard.until(builtin.RoleBinding, VIEW, namespace="two")
    await story.yard.edit(builtin.Namespace, "two", lambda namespace: namespace["metadata"].pop("labels"))
    for name in (VIEW, EDIT):
        await story.yard.gone(builtin.RoleBinding, name, namespace="two")
    assert (await story.yard.get(builtin.RoleBinding, VIEW, namespace="one"))["roleRef"] == foreign
    (note,) = events(story, "Foreign")
    assert note.message.startswith(f"RoleBinding one/{VIEW}: ")
