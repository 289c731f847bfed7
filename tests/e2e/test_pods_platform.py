"""The platform's programs as pods: PostgreSQL, an S3 store, MLflow on both, and the authorising proxy."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.secrets import encoded
from tests.e2e.pods import NAMESPACE, Plane, is_ready, plane
from tests.unit.kube.certificates import issue

pytestmark = pytest.mark.asyncio(loop_scope="module")

POSTGRES = {
    "image": "postgres:18",
    "env": [
        {"name": "POSTGRES_USER", "value": "mlflow"},
        {"name": "POSTGRES_DB", "value": "mydatabase"},
        {"name": "POSTGRES_PASSWORD", "value": "my'secret"},
        {"name": "PGDATA", "value": "/var/lib/postgresql/data/pgdata"},
    ],
    "ports": [{"containerPort": 5432}],
    "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"}],
    "readinessProbe": {"exec": {"command": ["pg_isready", "-U", "mlflow"]}, "periodSeconds": 1, "timeoutSeconds": 5},
}
STORE = {
    "image": "minio/minio:latest",
    "args": ["server", "/data", "--console-address", ":9001"],
    "env": [{"name": "MINIO_ROOT_USER", "value": "minio"}, {"name": "MINIO_ROOT_PASSWORD", "value": "minio123"}],
    "ports": [{"containerPort": 9000}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "readinessProbe": {"tcpSocket": {"port": 9000}, "periodSeconds": 1},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    async with plane(tmp_path_factory.mktemp("ground")) as one:
        await claim(one, "pgdata")
        await claim(one, "buckets")
        yield one


async def claim(ground: Plane, name: str) -> None:
    """A bound PersistentVolumeClaim on a directory, as the workload controllers make it."""
    path = ground.directory / "volumes" / name
    size = {"storage": "1Gi"}
    wanted: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": name}
    meta = {"name": name, "namespace": NAMESPACE}
    made = await ground.client.create(builtin.PersistentVolumeClaim, {"metadata": meta, "spec": wanted})
    spec: Object = {
        "capacity": size,
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": str(path)},
        "claimRef": {"namespace": NAMESPACE, "name": name, "uid": made["metadata"]["uid"]},
    }
    await ground.client.create(builtin.PersistentVolume, {"metadata": {"name": name}, "spec": spec})
    await ground.client.patch(
        builtin.PersistentVolumeClaim, NAMESPACE, name, {"status": {"phase": "Bound"}}, subresource="status"
    )


def volume(name: str, claim_name: str) -> list[Object]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": claim_name}}]


async def start(ground: Plane, name: str, container: Object, port: int, claim_name: str) -> Object:
    await ground.pod(name, container, volumes=volume("data", claim_name), terminationGracePeriodSeconds=10)
    pod = await ground.ready(name, within=120)
    await ground.endpoints(name, port, [pod["status"]["podIP"]])
    return pod


async def test_postgres_keeps_its_data_over_pods(ground: Plane) -> None:
    await ground.service("postgres", 5432)
    await start(ground, "postgres", POSTGRES, 5432, "pgdata")
    host = f"postgres.{NAMESPACE}.svc.cluster.local"
    query = f'PGPASSWORD="my\'secret" psql -h {host} -U mlflow -d mydatabase -At -c'
    code, output = await ground.execute(
        "postgres", "sh", "-c", f'{query} "create table t as select 42 as x; select x from t"'
    )
    assert (code, output.split()[-1]) == (0, "42"), output
    code, output = await ground.execute(
        "postgres", "sh", "-c", f"PGPASSWORD=wrong psql -h {host} -U mlflow mydatabase -c 'select 1'"
    )
    assert code != 0
    assert "password authentication failed" in output
    await ground.client.delete(builtin.Pod, NAMESPACE, "postgres")
    await ground.gone("postgres")
    await start(ground, "postgres", POSTGRES, 5432, "pgdata")
    code, output = await ground.execute("postgres", "sh", "-c", f'{query} "select x from t"')
    assert (code, output.strip()) == (0, "42")


async def test_the_s3_store_checks_credentials_and_keeps_objects(ground: Plane) -> None:
    await ground.service("store", 9000)
    await start(ground, "store", STORE, 9000, "buckets")
    script = """
        import boto3, botocore.exceptions
        from botocore.config import Config
        def client(secret):
            return boto3.client("s3", endpoint_url="http://store.demo.svc:9000", aws_access_key_id="minio",
                                aws_secret_access_key=secret, region_name="us-east-1",
                                config=Config(response_checksum_validation="when_required"))
        good = client("minio123")
        good.create_bucket(Bucket="mlflow")
        good.put_object(Bucket="mlflow", Key="dir/hello.txt", Body=b"hello")
        print(good.get_object(Bucket="mlflow", Key="dir/hello.txt")["Body"].read().decode())
        try:
            client("wrong").list_buckets()
        except botocore.exceptions.ClientError as error:
            print(error.response["ResponseMetadata"]["HTTPStatusCode"])
    """
    container = {"image": "quay.io/opendatahub/mlflow:3.17", "command": ["python", "-c", textwrap.dedent(script)]}
    await ground.pod("s3-client", container, restartPolicy="Never")
    pod = await ground.finished("s3-client", within=600)
    assert pod["status"]["phase"] == "Succeeded", await ground.log("s3-client")
    assert (await ground.log("s3-client")).split() == ["hello", "403"]
    assert (ground.directory / "volumes" / "buckets" / "mlflow" / "dir" / "hello.txt").read_text() == "hello"


def certificate(*names: str) -> dict[str, str]:
    """A self-signed certificate as the data of a TLS Secret."""
    made = issue(names[0], hosts=names)
    return {"tls.crt": encoded(made.pem), "tls.key": encoded(made.key_pem)}


async def grant(ground: Plane, account: str, rules: list[Object]) -> str:
    """A service account that may do this, and its token."""
    meta = {"name": account, "namespace": NAMESPACE}
    await ground.client.create(builtin.ServiceAccount, {"metadata": meta})
    await ground.client.create(builtin.Role, {"metadata": meta, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
    await ground.client.create(builtin.RoleBinding, {"metadata": meta, "roleRef": reference, "subjects": subjects})
    return await ground.token(account)


async def grant_cluster(ground: Plane, account: str, role: str, rules: list[Object] | None = None) -> None:
    await ground.client.create(builtin.ServiceAccount, {"metadata": {"name": account, "namespace": NAMESPACE}})
    if rules is not None:
        await ground.client.create(builtin.ClusterRole, {"metadata": {"name": role}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
    body = {"metadata": {"name": f"{account}-{role.replace(':', '-')}"}, "roleRef": reference, "subjects": subjects}
    await ground.client.create(builtin.ClusterRoleBinding, body)


ML = "mlflow.kubeflow.org"
SERVER_ARGS = [
    "server", "--serve-artifacts", "--artifacts-destination=s3://mlflow/artifacts", "--app-name=kubernetes-auth",
    "--enable-workspaces", "--workspace-store-uri=kubernetes://", "--host=0.0.0.0", "--port=8443", "--workers=1",
    "--uvicorn-opts=--ssl-keyfile=/etc/tls/private/tls.key --ssl-certfile=/etc/tls/private/tls.crt --proxy-headers",
    "--allowed-hosts", "*", "--static-prefix=/mlflow",
]  # fmt: skip
CLIENT = """
    import mlflow
    mlflow.set_workspace("demo")
    mlflow.set_experiment("first")
    with mlflow.start_run() as run:
        mlflow.log_param("a", 1)
        mlflow.log_metric("m", 0.5)
        mlflow.log_text("hello", "note.txt")
    client = mlflow.MlflowClient()
    print(client.get_run(run.info.run_id).data.params, mlflow.artifacts.load_text(run.info.artifact_uri + "/note.txt"))
"""


async def test_mlflow_with_the_operators_arguments_on_postgres_and_s3(ground: Plane) -> None:
    """Runs after the two above, whose pods it uses."""
    store = f"postgresql://mlflow:my%27secret@postgres.{NAMESPACE}.svc.cluster.local:5432/mydatabase?sslmode=disable"
    names = (f"mlflow.{NAMESPACE}.svc.cluster.local", f"mlflow.{NAMESPACE}.svc", "mlflow")
    secret: Object = {"metadata": {"name": "mlflow-tls", "namespace": NAMESPACE}, "data": certificate(*names)}
    await ground.client.create(builtin.Secret, secret)
    rules = [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [ML], "resources": ["mlflowconfigs"], "verbs": ["get", "list", "watch"]},
    ]
    await grant_cluster(ground, "mlflow-sa", "mlflow", rules)
    alice = await grant(ground, "alice", [{"apiGroups": [ML], "resources": ["*"], "verbs": ["*"]}])
    only_first: Object = {"apiGroups": [ML], "resources": ["experiments"], "resourceNames": ["first"], "verbs": ["get"]}
    bob = await grant(ground, "bob", [only_first])
    env = [
        {"name": "MLFLOW_DISABLE_TELEMETRY", "value": "true"},
        {"name": "MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "value": "false"},
        {"name": "MLFLOW_BACKEND_STORE_URI", "value": store},
        {"name": "MLFLOW_REGISTRY_STORE_URI", "value": store},
        {"name": "MLFLOW_K8S_AUTH_AUTHORIZATION_MODE", "value": "self_subject_access_review"},
        {"name": "MLFLOW_S3_ENDPOINT_URL", "value": f"http://store.{NAMESPACE}.svc.cluster.local:9000"},
        {"name": "AWS_ACCESS_KEY_ID", "value": "minio"},
        {"name": "AWS_SECRET_ACCESS_KEY", "value": "minio123"},
    ]
    server: Object = {
        "image": "quay.io/opendatahub/mlflow:odh-stable",
        "command": ["mlflow"],
        "args": SERVER_ARGS,
        "env": env,
        "ports": [{"name": "https", "containerPort": 8443}],
        "readinessProbe": {
            "httpGet": {"path": "/mlflow/api/3.0/mlflow/server-info", "port": "https", "scheme": "HTTPS"},
            "periodSeconds": 1, "timeoutSeconds": 5,
        },
        "securityContext": {"readOnlyRootFilesystem": True},
        "resources": {"limits": {"memory": "3Gi"}},
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "tls", "mountPath": "/etc/tls/private", "readOnly": True},
        ],
    }  # fmt: skip
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "tls", "secret": {"secretName": "mlflow-tls", "defaultMode": 416}},
    ]
    address = await ground.service("mlflow", 8443)
    await ground.pod(
        "mlflow", server, volumes=volumes, serviceAccountName="mlflow-sa", securityContext={"runAsNonRoot": True}
    )
    pod = await ground.ready("mlflow", within=180)
    await ground.endpoints("mlflow", 8443, [pod["status"]["podIP"]])
    client: Object = {
        "image": "quay.io/opendatahub/mlflow:odh-stable",
        "command": ["python", "-c", textwrap.dedent(CLIENT)],
        "env": [
            {"name": "MLFLOW_TRACKING_URI", "value": f"https://mlflow.{NAMESPACE}.svc:8443/mlflow"},
            {"name": "MLFLOW_TRACKING_TOKEN", "value": alice},
            {"name": "MLFLOW_TRACKING_SERVER_CERT_PATH", "value": "/tls/tls.crt"},
            {"name": "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "value": "1"},
        ],
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    }
    await ground.pod("ml-client", client, volumes=[volumes[1]], restartPolicy="Never")
    done = await ground.finished("ml-client", within=120)
    assert done["status"]["phase"] == "Succeeded", await ground.log("ml-client")
    assert "{'a': '1'} hello" in await ground.log("ml-client")
    stored = list((ground.directory / "volumes" / "buckets" / "mlflow" / "artifacts").rglob("note.txt"))
    assert [path.read_text() for path in stored] == ["hello"]
    base = f"https://{address}:8443/mlflow"
    by_name = "/api/2.0/mlflow/experiments/get-by-name?experiment_name="
    for token, path, status in (
        ("", f"{by_name}first", 401),
        ("no such token", f"{by_name}first", 401),
        (alice, f"{by_name}first", 200),
        (bob, f"{by_name}first", 200),
        (bob, f"{by_name}second", 403),
        (bob, "/api/2.0/mlflow/experiments/search?max_results=5", 403),
        ("", "/health", 200),
    ):
        assert await ask(base + path, token) == status, (path, status)


async def ask(url: str, token: str = "", method: str = "GET", **headers: str) -> int:
    sent: dict[str, Any] = {"X-MLFLOW-WORKSPACE": NAMESPACE} | headers
    if token:
        sent["Authorization"] = f"Bearer {token}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        async with session.request(method, url, headers=sent) as response:
            await response.read()
            return response.status


async def test_the_proxy_lets_in_who_may_and_nobody_else(ground: Plane) -> None:
    config = {
        "config-file.yaml": f"authorization: {{resourceAttributes: {{apiVersion: v1, resource: services, namespace: {NAMESPACE}, "
        "name: registry, verb: get}}"
    }
    await ground.client.create(
        builtin.ConfigMap, {"metadata": {"name": "proxy", "namespace": NAMESPACE}, "data": config}
    )
    secret = {"metadata": {"name": "proxy-tls", "namespace": NAMESPACE}, "data": certificate("registry")}
    await ground.client.create(builtin.Secret, secret)
    await grant_cluster(ground, "registry-sa", "system:auth-delegator")
    carol = await grant(ground, "carol", [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}])
    dave = await grant(ground, "dave", [])
    proxy: Object = {
        "name": "kube-rbac-proxy",
        "image": "quay.io/openshift/origin-kube-rbac-proxy:latest",
        "args": [
            "--secure-listen-address=0.0.0.0:8443", "--upstream=http://127.0.0.1:8080/", "--proxy-endpoints-port=8888",
            "--logtostderr=true", "--v=0", "--config-file=/etc/kube-rbac-proxy/config-file.yaml",
            "--tls-cert-file=/etc/tls/tls.crt", "--tls-private-key-file=/etc/tls/tls.key",
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8888, "scheme": "HTTPS"}, "periodSeconds": 1},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/kube-rbac-proxy"}, {"name": "tls", "mountPath": "/etc/tls"}],
    }  # fmt: skip
    body: Object = {
        "metadata": {"name": "registry", "namespace": NAMESPACE},
        "spec": {
            "nodeName": "local",
            "serviceAccountName": "registry-sa",
            "containers": [{"name": "main", "image": "modelyard/http-echo:1", "args": ["--text", "inside"]}, proxy],
            "volumes": [
                {"name": "config", "configMap": {"name": "proxy"}},
                {"name": "tls", "secret": {"secretName": "proxy-tls", "defaultMode": 384}},
            ],
        },
    }
    await ground.client.create(builtin.Pod, body)
    pod = await ground.until("registry", is_ready, within=60)
    url = f"https://{pod['status']['podIP']}:8443/"
    answers = [
        await ask(url, token, method)
        for token, method in ((carol, "GET"), (carol, "POST"), (dave, "GET"), ("", "GET"), ("x", "GET"))
    ]
    assert answers == [200, 200, 403, 401, 401]
