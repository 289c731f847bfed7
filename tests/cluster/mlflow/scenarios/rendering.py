"""Scenarios 17-39: what is made of a spec."""

from __future__ import annotations

import yaml

from modelyard.kube import builtin
from tests.cluster.mlflow.scenarios.scene import JOB, OPENSHIFT, POSTGRES, Book, MLflowScene, Server, named

book = Book()
rendering = book.scenario
GC = {"schedule": "0 2 * * 0"}
ARCHIVAL = {"enabled": True, "location": "s3://b/traces", "retention": "30d", "maxTracesPerPass": 500}
SELECTOR = "MLFLOW_K8S_WORKSPACE_LABEL_SELECTOR"
CIPHERS = "UVICORN_SSL_CIPHERS"
CA_FILE = "/etc/pki/tls/certs/combined/ca-bundle.crt"
CA_VARIABLES = {
    **dict.fromkeys(
        ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "PGSSLROOTCERT"), CA_FILE
    ),
    "PGSSLMODE": "verify-full",
    "MLFLOW_MYSQL_CA": CA_FILE,
    "MLFLOW_S3_IGNORE_TLS": "false",
}


async def cron_job(scene: MLflowScene, name: str) -> Server:
    return Server(await scene.ground.get(builtin.CronJob, name), name)


@rendering(17)
async def the_defaults_make_these_objects(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled()
    ground = scene.ground
    assert await ground.names(builtin.Deployment) == ["mlflow"]
    assert await ground.names(builtin.Service) == ["mlflow"]
    assert "mlflow-sa" in await ground.names(builtin.ServiceAccount)
    assert await ground.names(builtin.NetworkPolicy) == ["mlflow", "mlflow-migration"]
    for kind in (builtin.ClusterRole, builtin.ClusterRoleBinding):
        assert await ground.find(kind, "mlflow") is not None
        assert await ground.find(kind, "mlflow-gc") is None
    assert await ground.names(builtin.PersistentVolumeClaim) == []
    assert await ground.names(builtin.CronJob) == []
    # Kubernetes puts its own ConfigMap into every namespace.
    assert set(await ground.names(builtin.ConfigMap)) <= {"kube-root-ca.crt"}


@rendering(18)
async def the_server_is_called_with_these_arguments(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    server = await scene.server()
    args = server.args
    said = {"--static-prefix=/mlflow", "--app-name=kubernetes-auth", "--workspace-store-uri=kubernetes://"}
    assert (args[0], said - set(args)) == ("server", set())
    assert args[args.index("--allowed-hosts") + 1] == "*"
    liveness, readiness = server.container["livenessProbe"], server.container["readinessProbe"]
    assert liveness["httpGet"] == {"path": "/mlflow/health", "port": "https", "scheme": "HTTPS"}
    assert readiness["httpGet"]["path"] == "/mlflow/api/3.0/mlflow/server-info"
    assert (liveness["initialDelaySeconds"], liveness["periodSeconds"]) == (30, 10)
    assert (readiness["initialDelaySeconds"], readiness["periodSeconds"]) == (5, 5)


@rendering(19)
async def artifacts_that_are_not_served_have_a_root(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(serveArtifacts=False, defaultArtifactRoot="s3://b/r")
    args = (await scene.server()).args
    assert args[1:3] == ["--no-serve-artifacts", "--default-artifact-root=s3://b/r"]
    assert not any(arg.startswith("--artifacts-destination") for arg in args)


@rendering(20)
async def storage_is_a_claim_as_asked(scene: MLflowScene) -> None:
    await scene.start()
    storage = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "fast-ssd",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    await scene.create(storage=storage)
    spec = (await scene.ground.get(builtin.PersistentVolumeClaim, "mlflow-pvc"))["spec"]
    assert spec["accessModes"] == ["ReadWriteMany"]
    assert spec["storageClassName"] == "fast-ssd"
    assert spec["resources"]["requests"] == {"storage": "20Gi"}
    server = await scene.server()
    assert server.volumes["mlflow-storage"]["persistentVolumeClaim"] == {"claimName": "mlflow-pvc"}
    assert server.mounts["/mlflow"]["name"] == "mlflow-storage"
    assert server.spec["strategy"] == {"type": "Recreate"}
    # No controller is there that would let a claim in use go.
    await scene.ground.edit(
        builtin.PersistentVolumeClaim, "mlflow-pvc", lambda claim: claim["metadata"].pop("finalizers", 0)
    )
    await scene.edit(storage={})
    await scene.ground.quiet()
    await scene.ground.delete(builtin.PersistentVolumeClaim, "mlflow-pvc")
    claim = await scene.ground.until(
        builtin.PersistentVolumeClaim, "mlflow-pvc", lambda claim: claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    )
    assert claim["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    assert not claim["spec"].get("storageClassName")


@rendering(21)
async def without_storage_servers_are_rolled(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert (await scene.server()).spec["strategy"] == rolling


@rendering(22)
async def the_registry_uses_the_backend_store_unless_told(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    assert (await scene.server()).env["MLFLOW_REGISTRY_STORE_URI"] == POSTGRES


@rendering(23)
async def a_read_replica_is_a_variable(scene: MLflowScene) -> None:
    name = "MLFLOW_READ_REPLICA_BACKEND_STORE_URI"
    await scene.start()
    await scene.create()
    assert name not in (await scene.server()).env
    await scene.edit(readReplicaBackendStoreUri="postgresql://replica/db")
    assert (await scene.server()).env[name] == "postgresql://replica/db"
    reference = {"name": "replica", "key": "uri", "optional": True}
    await scene.edit(readReplicaBackendStoreUri=None, readReplicaBackendStoreUriFrom=reference)
    assert (await scene.server()).env[name] == {"secretKeyRef": reference}


@rendering(24)
async def workspaces_are_chosen_by_a_selector_text(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(workspaceLabelSelector={})
    assert SELECTOR not in (await scene.server()).env
    selector = {
        "matchLabels": {"mlflow-enabled": "true", "team": "a"},
        "matchExpressions": [{"key": "environment", "operator": "In", "values": ["staging", "prod"]}],
    }
    await scene.edit(workspaceLabelSelector=selector)
    text = "environment in (prod,staging),mlflow-enabled=true,team=a"
    assert (await scene.server()).env[SELECTOR] == text
    await scene.edit(workspaceLabelSelector=None)
    assert SELECTOR not in (await scene.server()).env


@rendering(25)
async def a_bad_selector_is_a_render_failure(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(workspaceLabelSelector={"matchExpressions": [{"key": "a", "operator": "InvalidOp"}]})
    condition = await scene.condition("Available", status="False", reason="RenderFailed")
    assert "workspaceLabelSelector" in condition["message"]
    await scene.condition("Progressing", status="False", reason="RenderFailed")
    await scene.ground.absent(builtin.Deployment, "mlflow")


@rendering(26)
async def variables_of_all_sources_arrive_unchanged(scene: MLflowScene) -> None:
    variables = [
        {"name": "PLAIN", "value": 'a: b # "c"'},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    ]
    await scene.start()
    await scene.create(env=variables)
    found = (await scene.server()).container["env"]
    assert [variable for variable in found if variable["name"] in ("PLAIN", "SECRET", "CONFIG")] == variables


@rendering(27)
async def openshift_has_its_cipher_profile(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    server = await scene.server()
    assert CIPHERS not in server.env
    assert server.volumes["mlflow-tls"]["secret"] == {"secretName": "mlflow-tls", "defaultMode": 420}
    await scene.ground.serve(*OPENSHIFT)
    deployment = await scene.ground.until(
        builtin.Deployment, "mlflow", lambda d: Server(d).env.get(CIPHERS) == "PROFILE=SYSTEM"
    )
    assert Server(deployment).volumes["mlflow-tls"]["secret"]["defaultMode"] == 416
    await scene.edit(env=[{"name": CIPHERS, "value": "DEFAULT"}])
    await scene.ground.until(builtin.Deployment, "mlflow", lambda d: Server(d).env.get(CIPHERS) == "DEFAULT")


@rendering(28)
async def metrics_are_exposed_where_they_are_scraped(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create()
    server = await scene.server()
    assert "metrics" not in server.volumes
    assert "--expose-prometheus=/prometheus" not in server.args
    await scene.ground.serve(builtin.ServiceMonitor)
    monitor = await scene.ground.until(builtin.ServiceMonitor, "mlflow-metrics-monitor")
    endpoint = {"path": "/metrics", "port": "https", "scheme": "https", "tlsConfig": {"insecureSkipVerify": True}}
    assert monitor["spec"] == {"selector": {"matchLabels": {"app": "mlflow"}}, "endpoints": [endpoint]}
    server = await scene.server()
    assert server.args[-1] == "--expose-prometheus=/prometheus"
    assert server.volumes["metrics"]["emptyDir"] == {"sizeLimit": "100Mi"}
    await scene.ground.serve(*OPENSHIFT)
    trusted = {
        "ca": {"configMap": {"name": "openshift-service-ca.crt", "key": "service-ca.crt"}},
        "serverName": f"mlflow.{scene.namespace}.svc",
    }
    await scene.ground.until(
        builtin.ServiceMonitor, "mlflow-metrics-monitor", lambda m: m["spec"]["endpoints"][0]["tlsConfig"] == trusted
    )


@rendering(29)
async def origins_that_cannot_be_used_are_left_out(scene: MLflowScene) -> None:
    await scene.start(url="https://gw:9443/mlflow", url_configured=True)
    await scene.create(extraAllowedOrigins=["", "  ", "https://a.com,https://b.com", "https://ok.com"])
    ns = scene.namespace
    assert (await scene.server()).env["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"].split(",") == [
        "https://mlflow:8443",
        f"https://mlflow.{ns}.svc:8443",
        f"https://mlflow.{ns}.svc.cluster.local:8443",
        "localhost:*",
        "127.0.0.1:*",
        "https://gw:9443",
        "https://ok.com",
    ]


@rendering(30)
async def temporary_storage_is_the_same_everywhere(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(garbageCollection=GC, traceArchival=ARCHIVAL)
    for size in ("1Gi", "5Gi"):
        if size != "1Gi":
            await scene.edit(temporaryStorage={"sizeLimit": size})
        gc, archival = await cron_job(scene, "mlflow-gc"), await cron_job(scene, "mlflow-trace-archival")
        for pod in (await scene.server(), gc, archival):
            assert pod.volumes["tmp"]["emptyDir"] == {"sizeLimit": size}


@rendering(31)
async def garbage_collection_is_a_cron_job_with_its_own_rights(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(garbageCollection=GC)
    gc = await cron_job(scene, "mlflow-gc")
    assert gc.spec["concurrencyPolicy"] == "Forbid"
    assert gc.pod["serviceAccountName"] == "mlflow-gc-sa"
    assert gc.args == ["gc", f"--backend-store-uri={POSTGRES}", "--all-workspaces"]
    role = await scene.ground.get(builtin.ClusterRole, "mlflow-gc")
    experiments = {
        "apiGroups": ["mlflow.kubeflow.org"],
        "resources": ["experiments"],
        "verbs": ["get", "list", "update"],
    }
    assert experiments in role["rules"]
    binding = await scene.ground.get(builtin.ClusterRoleBinding, "mlflow-gc")
    subject = {"kind": "ServiceAccount", "name": "mlflow-gc-sa", "namespace": scene.namespace}
    assert binding["subjects"] == [subject]
    assert subject not in (await scene.ground.get(builtin.ClusterRoleBinding, "mlflow"))["subjects"]
    await scene.edit(garbageCollection={**GC, "olderThan": "30d"})
    assert (await cron_job(scene, "mlflow-gc")).args[-2:] == ["--older-than=30d", "--all-workspaces"]


@rendering(32)
async def garbage_collection_takes_the_store_from_the_secret(scene: MLflowScene) -> None:
    await scene.start()
    reference = {"name": "db", "key": "uri"}
    await scene.create(backendStoreUri=None, backendStoreUriFrom=reference, garbageCollection=GC)
    gc = await cron_job(scene, "mlflow-gc")
    assert gc.args[1] == "--backend-store-uri=$(MLFLOW_BACKEND_STORE_URI)"
    assert gc.env["MLFLOW_BACKEND_STORE_URI"] == {"secretKeyRef": reference}


@rendering(33)
async def trace_archival_is_a_cron_job_with_a_config(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(traceArchival=ARCHIVAL)
    await cron_job(scene, "mlflow-trace-archival")
    config = await scene.ground.get(builtin.ConfigMap, "mlflow-trace-archival-config")
    text = config["data"]["trace-archival.yaml"]
    for line in ("enabled: true", 'location: "s3://b/traces"', 'retention: "30d"', "max_traces_per_pass: 500"):
        assert line in text
    assert yaml.safe_load(text)["trace_archival"]["enabled"] is True
    server = await scene.server()
    assert server.env["MLFLOW_TRACE_ARCHIVAL_CONFIG"] == "/etc/mlflow/trace-archival.yaml"
    assert server.env["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    assert server.mounts["/etc/mlflow"]["readOnly"] is True
    subjects = (await scene.ground.get(builtin.ClusterRoleBinding, "mlflow"))["subjects"]
    assert [subject["name"] for subject in subjects] == ["mlflow-sa", "mlflow-trace-archival-sa"]


@rendering(34)
async def archival_does_not_split_the_servers(scene: MLflowScene) -> None:
    await scene.start()
    await scene.settled(replicas=3, traceArchival=ARCHIVAL)
    assert await scene.ground.names(builtin.Deployment) == ["mlflow"]
    assert (await scene.server()).spec["replicas"] == 3


@rendering(35)
async def ca_bundles_are_joined(scene: MLflowScene) -> None:
    await scene.start()
    await scene.ground.create(builtin.ConfigMap, "my-ca", data={"ca.crt": "x"})
    await scene.create()
    plain = await scene.server()
    assert "initContainers" not in plain.pod
    assert len(plain.pod["containers"]) == 1
    assert not CA_VARIABLES.keys() & plain.env.keys()
    await scene.ground.create(builtin.ConfigMap, "odh-trusted-ca-bundle", data={"ca-bundle.crt": "y"})
    await scene.edit(caBundleConfigMap={"name": "my-ca"})
    deployment = await scene.ground.until(builtin.Deployment, "mlflow", lambda d: "ca-bundle-1" in Server(d).volumes)
    server = Server(deployment)
    assert named(server.pod["initContainers"], "combine-ca-bundles")["image"] == server.container["image"]
    named(server.pod["containers"], "ca-bundle-watcher")
    sources = [server.volumes[f"ca-bundle-{index}"]["configMap"] for index in (0, 1)]
    assert [(source["name"], source["optional"]) for source in sources] == [
        ("odh-trusted-ca-bundle", True),
        ("my-ca", True),
    ]
    assert CA_VARIABLES.items() <= server.env.items()


@rendering(36)
async def pod_labels_and_annotations_are_for_pods(scene: MLflowScene) -> None:
    await scene.start()
    await scene.create(podLabels={"team": "a"}, podAnnotations={"note": "b"}, garbageCollection=GC)
    server = await scene.server()
    assert server.template["metadata"]["labels"]["team"] == "a"
    assert server.template["metadata"]["annotations"]["note"] == "b"
    gc = await cron_job(scene, "mlflow-gc")
    for metadata in (
        server.object["metadata"],
        (await scene.ground.get(builtin.Service, "mlflow"))["metadata"],
        gc.object["metadata"],
        gc.template["metadata"],
    ):
        assert "team" not in metadata["labels"]
        assert "note" not in metadata.get("annotations", {})


@rendering(37)
async def resource_claims_come_with_the_default_resources(scene: MLflowScene) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    await scene.start()
    await scene.create(resourceClaims=claims, resources={"claims": [{"name": "gpu"}]})
    server = await scene.server()
    assert server.pod["resourceClaims"] == claims
    assert server.container["resources"] == {
        "claims": [{"name": "gpu"}],
        "requests": {"cpu": "1", "memory": "2Gi"},
        "limits": {"cpu": "4", "memory": "3Gi"},
    }


@rendering(38)
async def additional_egress_is_for_both_policies(scene: MLflowScene) -> None:
    extra = {"ports": [{"protocol": "TCP", "port": 15432}]}
    await scene.start()
    await scene.create(networkPolicyAdditionalEgressRules=[extra])
    for name, rules in (("mlflow", 6), ("mlflow-migration", 3)):
        egress = (await scene.ground.get(builtin.NetworkPolicy, name))["spec"]["egress"]
        assert len(egress) == rules
        assert egress[-1] == extra


@rendering(39)
async def the_image_is_the_same_everywhere(scene: MLflowScene) -> None:
    image = "quay.io/me/mlflow@sha256:" + "a" * 64
    await scene.start()
    await scene.ground.create(builtin.ConfigMap, "odh-trusted-ca-bundle", data={"ca-bundle.crt": "y"})
    await scene.create(garbageCollection=GC, traceArchival=ARCHIVAL)
    job = Server(await scene.ground.get(builtin.Job, JOB))
    # The policy is left open, and the API fills in what fits an image with a tag.
    default = "IfNotPresent" if scene.ground.fills_in else None
    assert images(job, await scene.server(), *await cron_jobs(scene)) == {(scene.settings.image, default)}
    await scene.edit(image={"image": image, "imagePullPolicy": "Never"})
    assert images(await scene.server(), *await cron_jobs(scene)) == {(image, "Never")}


async def cron_jobs(scene: MLflowScene) -> list[Server]:
    return [await cron_job(scene, name) for name in ("mlflow-gc", "mlflow-trace-archival")]


def images(*servers: Server) -> set[tuple[str, str | None]]:
    """With its pull policy, each image that a container of these uses."""
    pods = [server.pod for server in servers]
    containers = [one for pod in pods for one in (*pod["containers"], *pod["initContainers"])]
    return {(container["image"], container.get("imagePullPolicy")) for container in containers}
