"""Upstream's defects (section 12 of the specification) that we do not have; one test each, named `test_qNN_...`."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import owners_of, status_of
from modelyard.operators.mlflow.api import DEFINITIONS, MLFLOW
from modelyard.operators.mlflow.config import Settings, Switch
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.facts import DELETE_STORAGE, FORCE_MIGRATE
from modelyard.operators.mlflow.namespace_rbac import MANAGED_BY
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.references import CONFIG_DIGEST
from modelyard.runtime.testing import FakeWorld
from modelyard.runtime.testing.inmemory import MemoryCluster
from tests.cluster.mlflow.scenarios.migrations import FAR_AHEAD, earlier_pods_do_not_count, older_version
from tests.cluster.mlflow.scenarios.platform import others_bindings_stay
from tests.cluster.mlflow.scenarios.rendering import ARCHIVAL, GC
from tests.cluster.mlflow.scenarios.routing import namesakes_stay
from tests.cluster.mlflow.scenarios.scene import JOB, POSTGRES, MLflowScene, Server
from tests.ground import MemoryGround

NS = "opendatahub"
FIXED = (*range(1, 28), 29, 31)
PEM = b"-----BEGIN CERTIFICATE-----\nCA\n-----END CERTIFICATE-----\n"


@pytest.fixture
def ground() -> MemoryGround:
    return MemoryGround(DEFINITIONS)


@pytest.fixture
def scene(ground: MemoryGround) -> MLflowScene:
    return MLflowScene(ground)


def cluster_of(scene: MLflowScene) -> MemoryCluster:
    assert isinstance(scene.ground, MemoryGround)
    return scene.ground.cluster


async def degraded(scene: MLflowScene) -> Object:
    return await scene.condition("Degraded", status="True")


async def claim(scene: MLflowScene) -> Object:
    return await scene.ground.get(builtin.PersistentVolumeClaim, "mlflow-pvc")


def storage(size: str, **more: Any) -> Object:
    return {"resources": {"requests": {"storage": size}}, **more}


@pytest.mark.parametrize(
    ("asked", "requests", "limits"),
    [
        ({"requests": {"cpu": "2"}}, {"cpu": "2", "memory": "2Gi"}, {"cpu": "4", "memory": "3Gi"}),
        ({"requests": {"memory": "8Gi"}}, {"cpu": "1", "memory": "8Gi"}, {"cpu": "4", "memory": "8Gi"}),
        ({"limits": {"memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "4", "memory": "1Gi"}),
    ],
)
async def test_q01_merged_resources_are_never_invalid(
    scene: MLflowScene, asked: Object, requests: Object, limits: Object
) -> None:
    await scene.start()
    await scene.create(resources=asked)
    assert (await scene.server()).container["resources"] == {"requests": requests, "limits": limits}


@pytest.mark.parametrize(
    ("asked", "requests", "limits"),
    [
        ({"requests": {"cpu": "200m"}}, {"cpu": "200m", "memory": "256Mi"}, {"cpu": "500m", "memory": "512Mi"}),
        ({"requests": {"memory": "1Gi"}}, {"cpu": "100m", "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}),
        ({"limits": {"cpu": "50m"}}, {"cpu": "50m", "memory": "256Mi"}, {"cpu": "50m", "memory": "512Mi"}),
    ],
)
async def test_q01_nor_are_those_of_the_scheduled_jobs(
    scene: MLflowScene, asked: Object, requests: Object, limits: Object
) -> None:
    await scene.start()
    await scene.create(garbageCollection={**GC, "resources": asked}, traceArchival={**ARCHIVAL, "resources": asked})
    for name in ("mlflow-gc", "mlflow-trace-archival"):
        job = Server(await scene.ground.get(builtin.CronJob, name), name)
        assert job.container["resources"] == {"requests": requests, "limits": limits}


async def test_q02_the_volume_outlives_the_mlflow_and_is_adopted_again(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(storage=storage("5Gi"))
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    await scene.ground.quiet()
    assert (await claim(scene))["metadata"]["labels"]["app"] == "mlflow"
    await scene.settled(storage=storage("5Gi"))
    assert "Degraded" not in {c["type"] for c in (await scene.status())["conditions"]}


async def test_q02_an_annotation_lets_the_volume_go_as_upstream_does(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(storage=storage("5Gi"))
    await scene.annotate(DELETE_STORAGE)
    await scene.ground.quiet()
    (owner,) = owners_of(await claim(scene))
    assert owner["kind"] == "MLflow"
    await scene.ground.delete(MLFLOW.kind, "mlflow")
    await scene.ground.gone(builtin.PersistentVolumeClaim, "mlflow-pvc")


async def test_q03_removed_storage_keeps_the_volume(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(storage=storage("5Gi"))
    await scene.edit(storage=None)
    assert (await claim(scene))["spec"]["resources"]["requests"] == {"storage": "5Gi"}


async def test_q03_a_volume_grows_where_its_class_lets_it(scene: MLflowScene) -> None:
    await scene.start()
    await scene.ground.create(builtin.StorageClass, "fast", provisioner="x", allowVolumeExpansion=True)
    await scene.settled(storage=storage("5Gi", storageClassName="fast"))
    await scene.ground.set_status(builtin.PersistentVolumeClaim, "mlflow-pvc", {"phase": "Bound"})
    await scene.edit(storage=storage("9Gi", storageClassName="fast"))
    assert (await claim(scene))["spec"]["resources"]["requests"] == {"storage": "9Gi"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (storage("9Gi", storageClassName="slow"), "storage class slow is not the fast it was made with"),
        (storage("9Gi", storageClassName="fast"), "size 9Gi is more than the 5Gi it has"),
        (storage("1Gi", storageClassName="fast"), "a volume cannot shrink"),
        (storage("5Gi", storageClassName="fast", accessModes=["ReadWriteMany"]), "access modes ReadWriteMany"),
    ],
)
async def test_q03_what_a_volume_cannot_be_is_said(scene: MLflowScene, asked: Object, said: str) -> None:
    await scene.start()
    await scene.settled(storage=storage("5Gi", storageClassName="fast"))
    await scene.edit(storage=asked)
    condition = await degraded(scene)
    assert condition["reason"] == "StorageNotUpdated"
    assert said in condition["message"]
    assert (await claim(scene))["spec"]["resources"]["requests"] == {"storage": "5Gi"}
    await scene.condition("Available", status="True")
    await scene.edit(storage=storage("5Gi", storageClassName="fast"))
    assert "Degraded" not in {c["type"] for c in (await scene.status())["conditions"]}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "artifacts are served from file:///mlflow/artifacts"),
        (
            {"artifactsDestination": "s3://b/a", "defaultArtifactRoot": "file:///x"},
            "spec.defaultArtifactRoot is file:///x",
        ),
        (
            {"artifactsDestination": "s3://b/a", "backendStoreUri": "sqlite+pysqlite:////x.db"},
            "spec.backendStoreUri is a",
        ),
        ({"storage": {}, "replicas": 2, "backendStoreUri": "sqlite:////mlflow/x.db"}, "only one server may write"),
        ({"storage": {}, "replicas": 2}, "the volume is ReadWriteOnce"),
    ],
)
async def test_q04_stores_that_cannot_last_or_be_shared_are_said(scene: MLflowScene, spec: Object, said: str) -> None:
    await scene.start()
    await scene.settled(**spec)
    assert said in (await degraded(scene))["message"]
    await scene.condition("Available", status="True")


async def test_q05_an_authors_variable_wins_where_it_may(scene: MLflowScene) -> None:
    env = [
        {"name": "MLFLOW_DISABLE_TELEMETRY", "value": "false"},
        {"name": "SSL_CERT_FILE", "value": "/mine"},
        {"name": "TWICE", "value": "1"},
        {"name": "TWICE", "value": "2"},
    ]
    await scene.ground.create(builtin.ConfigMap, "odh-trusted-ca-bundle", data={"ca-bundle.crt": "y"})
    await scene.start()
    await scene.create(env=env)
    found = (await scene.server()).env
    assert (found["MLFLOW_DISABLE_TELEMETRY"], found["SSL_CERT_FILE"], found["TWICE"]) == ("false", "/mine", "2")


async def test_q05_an_authors_variable_does_not_win_against_a_field(scene: MLflowScene) -> None:
    env = [
        {"name": "MLFLOW_BACKEND_STORE_URI", "value": "postgresql://evil"},
        {"name": "MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR", "value": "a=b"},
    ]
    await scene.start()
    await scene.create(env=env, workspaceLabelSelector={"matchLabels": {"team": "a"}})
    found = (await scene.server()).env
    assert found["MLFLOW_BACKEND_STORE_URI"] == POSTGRES
    assert found["MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR"] == "team=a"
    message = (await degraded(scene))["message"]
    assert "spec.env sets MLFLOW_BACKEND_STORE_URI, which only the operator may set" in message
    assert "but spec.workspaceLabelSelector does too" in message


async def test_q06_labels_that_select_the_pods_cannot_be_changed(scene: MLflowScene) -> None:
    labels = {"app": "x", "app.kubernetes.io/instance": "y", "team": "a"}
    await scene.start()
    await scene.create(podLabels=labels)
    assert (await scene.server()).template["metadata"]["labels"] == {
        "app": "mlflow",
        "app.kubernetes.io/instance": "mlflow",
        "component": "mlflow",
        "team": "a",
    }
    assert "app, app.kubernetes.io/instance" in (await degraded(scene))["message"]


async def test_q07_any_text_is_data(scene: MLflowScene) -> None:
    odd = "s3://b/: #\n- x: {{ 1 }}"
    await scene.start()
    await scene.create(artifactsDestination=odd, serviceAccountName="123", storage=storage("5Gi", storageClassName="0"))
    server = await scene.server()
    assert f"--artifacts-destination={odd}" in server.args
    assert server.pod["serviceAccountName"] == "123"
    assert (await claim(scene))["spec"]["storageClassName"] == "0"


async def test_q08_garbage_collection_can_do_its_work(scene: MLflowScene) -> None:
    endpoint = {"name": "MLFLOW_S3_ENDPOINT_URL", "value": "http://minio-service:9000"}
    await scene.start()
    await scene.create(garbageCollection=GC, env=[endpoint, {"name": "MLFLOW_TRACKING_URI", "value": "http://wrong"}])
    gc = Server(await scene.ground.get(builtin.CronJob, "mlflow-gc"), "mlflow-gc")
    assert gc.env["MLFLOW_TRACKING_URI"] == f"https://mlflow.{NS}.svc:8443/mlflow"
    assert gc.env["MLFLOW_S3_ENDPOINT_URL"] == endpoint["value"]
    rules = (await scene.ground.get(builtin.ClusterRole, "mlflow-gc"))["rules"]
    assert {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]} in rules
    held = mlflow_controller(Settings()).permissions
    for rule in rules:
        assert any(
            (list(p.groups), list(p.resources)) == (rule["apiGroups"], rule["resources"])
            and {*rule["verbs"]} <= {*p.verbs}
            for p in held
        ), f"the API refuses a role that grants more than its maker has: {rule}"


@pytest.mark.parametrize("labels", [{}, {"component": "mlflow"}], ids=["plain", "with our label"])
async def test_q09_namesakes_of_what_is_turned_off_are_left_alone(scene: MLflowScene, labels: dict[str, str]) -> None:
    await namesakes_stay(scene, labels)


async def test_q10_a_service_account_of_someone_else_is_used_as_it_is(scene: MLflowScene) -> None:
    await scene.ground.create(builtin.ServiceAccount, "robot", automountServiceAccountToken=True)
    await scene.start()
    await scene.settled(serviceAccountName="robot")
    account = await scene.ground.get(builtin.ServiceAccount, "robot")
    assert account["automountServiceAccountToken"] is True
    assert not owners_of(account)
    assert (await scene.server()).pod["serviceAccountName"] == "robot"
    await scene.edit(serviceAccountName="mlflow-sa")
    await scene.ground.until(builtin.ServiceAccount, "mlflow-sa")
    await scene.edit(serviceAccountName="robot")
    await scene.ground.quiet()
    await scene.ground.deployment_ready("mlflow")
    await scene.ground.gone(builtin.ServiceAccount, "mlflow-sa")
    assert await scene.ground.find(builtin.ServiceAccount, "robot")


async def test_q11_migrations_are_under_their_own_policy_alone(scene: MLflowScene) -> None:
    custom = {"ports": [{"protocol": "TCP", "port": 6543}]}
    await scene.start()
    await scene.create(networkPolicyEgressRules=[custom])
    labels = Server(await scene.ground.get(builtin.Job, JOB)).template["metadata"]["labels"]
    server_policy, own_policy = [
        (await scene.ground.get(builtin.NetworkPolicy, name))["spec"] for name in ("mlflow", "mlflow-migration")
    ]
    assert not server_policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert own_policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert custom in own_policy["egress"], "a database at another port is reached as before"


async def test_q12_pods_of_an_earlier_job_of_the_same_name_do_not_count(scene: MLflowScene) -> None:
    await earlier_pods_do_not_count(scene)


async def test_q13_the_migration_waits_for_terminating_pods(scene: MLflowScene) -> None:
    await older_version(scene, pods=0)
    await scene.ground.edit(builtin.Deployment, "mlflow", lambda d: d["spec"].update(replicas=0))
    await scene.ground.deployment_has("mlflow", 0)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "mlflow-1", "uid": "1", "controller": True}
    pod: Object = {"labels": {"app": "mlflow"}, "spec": {}, "status": {"phase": "Running"}}
    await scene.ground.create(builtin.Pod, "mlflow-old", ownerReferences=[owner], **pod)
    # Someone's pod that only carries the label does not count.
    await scene.ground.create(builtin.Pod, "bystander", **pod)
    await scene.start()
    condition = await scene.condition("Migration", reason="MigrationScalingDown")
    assert "1 replicas remain" in condition["message"]
    await scene.ground.absent(builtin.Job, JOB)
    await scene.ground.deployment_has("mlflow", 0)
    await scene.ground.absent(builtin.Job, JOB)
    await scene.ground.delete(builtin.Pod, "mlflow-old")
    await scene.ground.until(builtin.Job, JOB)


async def test_q13_the_migration_waits_until_the_scale_down_is_seen(scene: MLflowScene) -> None:
    await older_version(scene, pods=0)
    await scene.start()
    condition = await scene.condition("Migration", reason="MigrationScalingDown")
    assert "the scale-down has not been observed yet" in condition["message"]
    await scene.ground.absent(builtin.Job, JOB)


@pytest.mark.parametrize("behind", [{"observedGeneration": 0}, {"updatedReplicas": 0}, {"replicas": 2}])
async def test_q14_a_rollout_under_way_is_not_available(scene: MLflowScene, behind: Object) -> None:
    await scene.start()
    await scene.settled()
    status = status_of(await scene.ground.get(builtin.Deployment, "mlflow"))
    await scene.ground.set_status(builtin.Deployment, "mlflow", {**status, **behind})
    await scene.condition("Available", status="False", reason="DeploymentNotReady")
    await scene.condition("Progressing", status="True", reason="DeploymentProgressing")


async def test_q15_a_migration_that_does_not_start_says_why(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    await scene.ground.job_pod(JOB, "db-migrate", waiting={"reason": "ImagePullBackOff", "message": "no such image"})
    condition = await scene.condition("Migration", reason="MigrationRunning")
    assert condition["message"].endswith(": ImagePullBackOff: no such image")
    assert "MigrationNotStarting" in {note.reason for note in cluster_of(scene).events}


async def test_q15_a_missing_certificate_is_named(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    await scene.ground.job_pod(JOB, "db-migrate", waiting={"reason": "ContainerCreating"})
    condition = await scene.condition("Migration", reason="MigrationRunning")
    assert "Secret mlflow-tls with the serving certificate does not exist" in condition["message"]
    assert "Secret mlflow-tls" in (await degraded(scene))["message"]


async def test_q16_a_success_is_remembered_when_its_job_is_gone(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    await scene.ground.job_succeeds(JOB)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 1)
    await scene.ground.delete(builtin.Job, JOB)
    await scene.ground.absent(builtin.Job, JOB)
    assert (await scene.server()).spec["replicas"] == 1
    await scene.ground.deployment_ready("mlflow")
    await scene.condition("Migration", status="True", reason="MigrationSucceeded")
    assert (await scene.status())["version"] == "3.14.0"


async def pinned(scene: MLflowScene, **settings: Any) -> str:
    """A server of an older version with a pinned image is up; gives the name of the Job that looks into the image."""
    await scene.start(supported_version="3.9.0", **settings)
    await scene.create(image={"image": "quay.io/me/mlflow:mine"})
    await scene.migrate("mlflow-mg-390-g1", "3.9.0")
    await scene.ground.halt()
    await scene.start(supported_version="3.14.0", **settings)
    return preflight_of("quay.io/me/mlflow:mine")


def preflight_of(image: str, version: str = "3140") -> str:
    return f"mlflow-pf-{version}-g1-{hashlib.sha256(image.encode()).hexdigest()[:8]}"


async def test_q17_an_image_is_checked_before_its_server_is_stopped(scene: MLflowScene) -> None:
    preflight = await pinned(scene)
    await scene.ground.until(builtin.Job, preflight)
    await scene.condition("Migration", status="Unknown", reason="MigrationPreflight")
    await scene.condition("Available", status="True")
    assert (await scene.server()).spec["replicas"] == 1
    await scene.ground.job_pod(preflight, "check-version", exit_code=10)
    await scene.ground.job_fails(preflight, at=FAR_AHEAD)
    condition = await scene.condition("Migration", status="False", reason="MigrationImageMismatch")
    assert "quay.io/me/mlflow:mine does not hold MLflow 3.14.0" in condition["message"]
    await scene.condition("Available", status="True")
    assert (await scene.server()).spec["replicas"] == 1
    await scene.edit(image=None)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await scene.ground.deployment_has("mlflow", 0)
    await scene.migrate("mlflow-mg-3140-g2")


async def test_q17_an_image_that_fits_is_migrated(scene: MLflowScene) -> None:
    preflight = await pinned(scene)
    await scene.ground.until(builtin.Job, preflight)
    await scene.ground.job_succeeds(preflight)
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: d["spec"]["replicas"] == 0)
    await scene.ground.deployment_has("mlflow", 0)
    await scene.migrate(JOB)


async def test_q18_a_final_failure_stays_until_it_is_forced(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(migration={"mode": "Always"})
    await scene.edit(env=[{"name": "A", "value": "b"}])
    await scene.ground.quiet()
    await scene.ground.deployment_has("mlflow", 0)
    job = "mlflow-mg-3140-g2"
    await scene.ground.until(builtin.Job, job)
    await scene.ground.job_pod(job, "db-migrate", exit_code=13)
    await scene.ground.job_fails(job, at=FAR_AHEAD)
    await scene.condition("Migration", status="False", reason="MigrationFailed")
    await scene.edit(migration={"mode": "Automatic"})
    await scene.condition("Migration", status="False", reason="MigrationFailed", observedGeneration=3)
    assert (await scene.server()).spec["replicas"] == 0


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (15, "migration failed due to a retryable database or migration error. Retrying automatically after "),
        (137, "migration Job container exited with code 137. Retrying automatically after "),
    ],
)
async def test_q19_messages_are_true_and_readable(scene: MLflowScene, code: int, said: str) -> None:
    await scene.start()
    await scene.create()
    await scene.ground.until(builtin.Job, JOB)
    await scene.ground.job_pod(JOB, "db-migrate", exit_code=code)
    await scene.ground.job_fails(JOB, at=FAR_AHEAD)
    assert (await scene.condition("Migration", reason="MigrationRetrying"))["message"].startswith(said)


async def test_q19_the_reason_of_a_migration_is_true(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.annotate(FORCE_MIGRATE)
    await scene.ground.quiet()
    await scene.ground.deployment_has("mlflow", 0)
    await scene.ground.until(builtin.Job, JOB, lambda job: not status_of(job).get("succeeded"))
    await scene.ground.edit(MLFLOW.kind, "mlflow", lambda m: m["metadata"]["annotations"].clear())
    message = (await scene.condition("Migration", reason="MigrationRunning"))["message"]
    assert "the migration for generation 1 has not completed yet" in message
    assert "does not match" not in message


async def test_q20_a_downgrade_leaves_the_server_running(scene: MLflowScene) -> None:
    await scene.start(supported_version="3.15.0")
    await scene.create()
    await scene.migrate("mlflow-mg-3150-g1", "3.15.0")
    await scene.ground.halt()
    await scene.start()
    condition = await scene.condition("Migration", status="False", reason="MigrationDowngradeRefused")
    assert "3.15.0 is newer than the supported version 3.14.0" in condition["message"]
    await scene.condition("Available", status="True")
    assert (await scene.server()).spec["replicas"] == 1
    await scene.ground.halt()
    await scene.start(supported_version="3.15.0")
    await scene.condition("Migration", status="True", reason="MigrationSucceeded")
    assert (await scene.server()).spec["replicas"] == 1


async def test_q21_kinds_may_come_and_go(scene: MLflowScene) -> None:
    await scene.start(url="https://gw", url_configured=True)
    await scene.settled()
    await scene.ground.serve(builtin.HTTPRoute)
    await scene.ground.until(builtin.HTTPRoute, "mlflow")
    assert (await scene.status())["url"] == "https://gw/mlflow"
    cluster_of(scene).serve(builtin.HTTPRoute, False)
    assert not (await scene.status()).get("url")


@pytest.mark.parametrize(
    ("switch", "served", "exposed"), [("on", False, True), ("off", True, False), ("auto", True, True)]
)
async def test_q22_metrics_can_be_switched(scene: MLflowScene, switch: str, served: bool, exposed: bool) -> None:
    kinds = [builtin.ServiceMonitor] if served else []
    await scene.start(*kinds, metrics=Switch(switch))
    await scene.create()
    assert ("--expose-prometheus=/prometheus" in (await scene.server()).args) is exposed
    found = await scene.ground.find(builtin.ServiceMonitor, "mlflow-metrics-monitor")
    assert (found is not None) is (served and exposed)


async def test_q23_the_gateway_can_be_anywhere_and_checks_the_certificate(scene: MLflowScene) -> None:
    kinds = (builtin.HTTPRoute, BackendTLSPolicy)
    await scene.ground.create(
        builtin.Secret, "serving", data={"tls.crt": "eA==", "tls.key": "eA==", "ca.crt": base64.b64encode(PEM).decode()}
    )
    await scene.start(*kinds, gateway_namespace="gateways", hostnames=("ml.example.com",), tls_secret="serving")
    await scene.create()
    route = (await scene.ground.get(builtin.HTTPRoute, "mlflow"))["spec"]
    assert route["parentRefs"][0]["namespace"] == "gateways"
    assert route["hostnames"] == ["ml.example.com"]
    assert (await scene.server()).volumes["mlflow-tls"]["secret"]["secretName"] == "serving"
    policy = (await scene.ground.get(BackendTLSPolicy, "mlflow"))["spec"]
    assert policy["validation"]["hostname"] == f"mlflow.{NS}.svc"
    assert (await scene.ground.get(builtin.ConfigMap, "mlflow-serving-ca"))["data"] == {"ca.crt": PEM.decode()}


async def test_q24_without_a_url_there_is_no_console_link(scene: MLflowScene) -> None:
    await scene.start(builtin.ConsoleLink)
    await scene.create()
    await scene.ground.absent(builtin.ConsoleLink, "mlflow")


async def test_q25_a_changed_secret_restarts_the_server(scene: MLflowScene) -> None:
    reference = {"name": "db", "key": "uri"}
    await scene.ground.create(builtin.Secret, "db", data={"uri": "b25l", "other": "YQ=="})
    await scene.start()
    await scene.create(backendStoreUri=None, backendStoreUriFrom=reference)

    async def digest() -> str:
        found: str = (await scene.server()).template["metadata"]["annotations"][CONFIG_DIGEST]
        return found

    first = await digest()
    await scene.ground.edit(builtin.Secret, "db", lambda secret: secret["data"].update(other="Yg=="))
    assert await digest() == first, "only what the server reads counts"
    await scene.ground.edit(builtin.Secret, "db", lambda secret: secret["data"].update(uri="dHdv"))
    assert await digest() != first


def test_q25_what_the_server_reads_wakes_the_controller() -> None:
    controller = mlflow_controller(Settings())
    spec = {
        "backendStoreUriFrom": {"name": "db", "key": "uri"},
        "envFrom": [{"secretRef": {"name": "aws"}}, {"configMapRef": {"name": "more"}}],
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "k"}}}],
        "caBundleConfigMap": {"name": "my-ca"},
    }
    mlflow = {"apiVersion": MLFLOW.kind.api_version, "kind": "MLflow", "metadata": {"name": "mlflow"}, "spec": spec}
    world = FakeWorld([mlflow], kinds=[MLFLOW.kind], indexes=controller.indexes.values())
    for kind, names in (
        (builtin.Secret, ["db", "aws", "mlflow-tls"]),
        (builtin.ConfigMap, ["more", "conf", "my-ca", "odh-trusted-ca-bundle"]),
    ):
        (watch,) = [watch for watch in controller.watches if watch.kind == kind]
        assert watch.to is not None
        for name in (*names, "unrelated"):
            woken = list(watch.to({"metadata": {"name": name}}, world))
            assert woken == ([] if name == "unrelated" else [Key("", "mlflow")])
    assert {builtin.NetworkPolicy, builtin.ConfigMap} <= {owns.kind for owns in controller.owns}


async def test_q26_conditions_carry_the_generation_and_events_are_emitted(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(caBundleConfigMap={"name": "nope"})
    for type in ("Available", "Progressing"):
        await scene.condition(type, status="False", reason="CABundleConfigMapError", observedGeneration=1)
    assert "CABundleConfigMapError" in {note.reason for note in cluster_of(scene).events}
    await scene.edit(caBundleConfigMap=None)
    await scene.migrate("mlflow-mg-3140-g2")
    assert {"MigrationRunning", "MigrationSucceeded", "DeploymentReady"} <= {n.reason for n in cluster_of(scene).events}
    await scene.condition("Available", status="True", observedGeneration=2)


async def test_q27_one_child_that_cannot_be_made_does_not_stop_the_others(scene: MLflowScene) -> None:
    await scene.ground.create(builtin.Service, "mlflow", spec={"ports": [{"port": 1}]})
    await scene.start()
    await scene.create()
    condition = await scene.condition("Available", status="False", reason="ApplyFailed")
    assert condition["message"].startswith("Failed to apply resources: apply Service/mlflow: ")
    assert await scene.ground.find(builtin.Deployment, "mlflow")
    assert await scene.ground.find(builtin.Job, JOB) is None, "no migration before all is in place"


@pytest.mark.parametrize("field", ["garbageCollection", "traceArchival"])
async def test_q29_a_bad_schedule_stops_its_job_only(scene: MLflowScene, field: str) -> None:
    jobs: dict[str, Object] = {"garbageCollection": GC, "traceArchival": ARCHIVAL}
    job = jobs[field]
    await scene.start()
    await scene.settled(**{field: {**job, "schedule": "61 * * * *"}})
    condition = await degraded(scene)
    assert condition["reason"] == "InvalidSchedule"
    assert f'spec.{field}.schedule "61 * * * *" is not a cron schedule' in condition["message"]
    assert await scene.ground.names(builtin.CronJob) == []
    await scene.condition("Available", status="True")
    await scene.edit(**{field: job})
    await scene.ground.quiet()
    assert len(await scene.ground.names(builtin.CronJob)) == 1


@pytest.mark.parametrize("labels", [{}, MANAGED_BY], ids=["plain", "with our label"])
async def test_q31_role_bindings_of_others_are_left_alone(scene: MLflowScene, labels: dict[str, str]) -> None:
    await others_bindings_stay(scene, labels)


def test_every_defect_has_a_test() -> None:
    tested = {int(match[1]) for name in globals() if (match := re.match(r"test_q(\d\d)_", name))}
    assert tested == set(FIXED)
