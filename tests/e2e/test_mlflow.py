"""A real MLflow on the laptop cluster, driven with MLflow's own client: scenarios 70-72, and a life with data in it."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from modelyard.kube.openshift import PLATFORMS
from modelyard.local.images.build import Builder
from modelyard.local.images.recipes.mlflow import recipe
from modelyard.operators.mlflow.facts import FORCE_MIGRATE
from tests.e2e.browser import shown
from tests.e2e.laptop import Laptop

EXAMPLES = Path(__file__).parents[2] / "examples" / "mlflow"
EXAMPLE = EXAMPLES / "minimal.yaml"
STORES = [EXAMPLES / name for name in ("postgres.yaml", "minio.yaml", "postgres-and-s3.yaml")]
STORES_TLS = [EXAMPLES / name for name in ("postgres-tls.yaml", "minio-tls.yaml", "stores-tls.yaml")]
NS = "opendatahub"
SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
"""What a client of PostgreSQL says when it wants TLS."""

LOG_A_RUN = """
import json, mlflow
mlflow.set_workspace("team-a")
mlflow.set_experiment("first")
with mlflow.start_run() as run:
    mlflow.log_param("depth", 3)
    mlflow.log_metric("accuracy", 0.9)
    mlflow.log_text("hello", "note.txt")
print(json.dumps(run.info.run_id))
"""
REGISTER_A_MODEL = """
import json, mlflow, sys
mlflow.set_workspace("team-a")
client = mlflow.MlflowClient()
client.create_registered_model("model")
client.create_model_version("model", f"runs:/{sys.argv[1]}/model", sys.argv[1])
print("{}")
"""
READ_A_RUN = """
import json, mlflow, sys
mlflow.set_workspace("team-a")
client = mlflow.MlflowClient()
run = client.get_run(sys.argv[1])
note = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/note.txt")
models = [[v.name, str(v.version), v.run_id] for v in client.search_model_versions("name='model'")]
print(json.dumps({"params": run.data.params, "metrics": run.data.metrics, "note": note, "models": models}))
"""
DELETE_A_RUN = """
import json, mlflow, sys
mlflow.set_workspace("team-a")
mlflow.MlflowClient().delete_run(sys.argv[1])
print("{}")
"""
RUN_EXISTS = """
import json, mlflow, sys
from mlflow.exceptions import MlflowException
mlflow.set_workspace("team-a")
try:
    mlflow.MlflowClient().get_run(sys.argv[1])
    print(json.dumps(True))
except MlflowException as error:
    print(json.dumps(False if error.error_code == "RESOURCE_DOES_NOT_EXIST" else str(error)))
"""
EXPERIMENT = """
import json, mlflow, sys
from mlflow.exceptions import MlflowException
mlflow.set_workspace(sys.argv[1])
client = mlflow.MlflowClient()
try:
    if sys.argv[2] == "create":
        client.create_experiment(sys.argv[3])
    found = client.get_experiment_by_name(sys.argv[3])
    print(json.dumps(found and found.artifact_location))
except MlflowException as error:
    print(json.dumps({"refused": error.error_code}))
"""
WORKSPACE = """
import json, mlflow, sys
from mlflow.exceptions import MlflowException
try:
    print(json.dumps(str(getattr(mlflow, sys.argv[1])(*sys.argv[2:]))))
except MlflowException as error:
    print(json.dumps({"status": error.get_http_status_code(), "message": str(error)}))
"""


@dataclass(frozen=True)
class Started:
    cluster: Laptop
    said: str
    """What `up` printed."""


@pytest.fixture(scope="module")
def started(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory, platform: str) -> Iterator[Started]:
    laptop = Laptop(tmp_path_factory.mktemp("mlflow") / "cluster", kubectl_program, platform=platform)
    yield Started(laptop, laptop.start(EXAMPLE))
    laptop.stop()


@pytest.fixture
def cluster(started: Started) -> Laptop:
    return started.cluster


@pytest.fixture(scope="module")
def alice(started: Started) -> str:
    """Someone who may edit in team-a."""
    return member(started.cluster, "team-a", "alice", "edit")


def member(cluster: Laptop, namespace: str, name: str, role: str) -> str:
    """A service account with a role in its namespace; gives its token."""
    cluster.kubectl("create", "namespace", namespace, code=None)
    cluster.kubectl("create", "serviceaccount", name, "-n", namespace)
    if role:
        account = f"--serviceaccount={namespace}:{name}"
        cluster.kubectl("create", "rolebinding", name, "-n", namespace, f"--clusterrole={role}", account)
    return cluster.kubectl("create", "token", name, "-n", namespace).strip()


def client(cluster: Laptop, token: str, script: str, *arguments: str) -> Any:
    """Runs a program with MLflow's client from PyPI; gives what it printed."""
    built = Builder().find(recipe)
    assert built is not None
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": cluster.get("mlflow", "mlflow")["status"]["url"],
        "MLFLOW_TRACKING_TOKEN": token,
        "MLFLOW_TRACKING_INSECURE_TLS": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    done = subprocess.run(
        [str(built.python), "-c", script, *arguments], env=environment, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def status(cluster: Laptop) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get("mlflow", "mlflow")["status"]
    return found


@pytest.mark.platforms(*PLATFORMS)
def test_70_a_fresh_mlflow_is_migrated_and_answers(cluster: Laptop) -> None:
    (job,) = cluster.get("jobs", "-n", NS)["items"]
    assert job["status"]["succeeded"] == 1
    assert status(cluster)["version"] == job["spec"]["template"]["spec"]["containers"][0]["env"][-1]["value"]
    service, secret = cluster.get("service", "mlflow", "-n", NS), cluster.get("secret", "mlflow-tls", "-n", NS)
    trusted = ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())

    class Named(HTTPSConnection):
        """Checks the certificate for the Service's name, at its address."""

        def connect(self) -> None:
            super(HTTPSConnection, self).connect()
            self.sock = trusted.wrap_socket(self.sock, server_hostname=f"mlflow.{NS}.svc")

    connection = Named(service["spec"]["clusterIP"], 8443, timeout=20)
    connection.request("GET", "/mlflow/api/3.0/mlflow/server-info")
    answer = connection.getresponse()
    assert (answer.status, bool(answer.read())) == (200, True)
    connection.request("GET", "/mlflow/version")
    assert connection.getresponse().read().decode() == status(cluster)["version"]


def open_page(url: str, profile: Path) -> str:
    return shown(url, profile, "--ignore-certificate-errors", milliseconds=20_000).stdout


@pytest.mark.platforms(*PLATFORMS)
def test_the_link_that_up_prints_opens_a_workspace_logged_in(started: Started, tmp_path: Path) -> None:
    link = re.search(r"mlflow: (https://\S+)", started.said)
    assert link is not None, started.said
    page = open_page(link[1], tmp_path / "first")
    assert "Create your first experiment" in page
    assert re.search(r'<input[^>]*value="default"|>default<', page), "the workspace is chosen"
    again = open_page(link[1], tmp_path / "second")
    assert "This link does not work any more" in again
    assert f"modelyard url mlflow --dir {started.cluster.directory}" in again


@pytest.mark.platforms(*PLATFORMS)
def test_the_start_page_leads_to_mlflow_and_a_stranger_is_told_how_to_log_in(cluster: Laptop, tmp_path: Path) -> None:
    start = open_page(cluster.modelyard("url").strip(), tmp_path / "user")
    assert "<h2>mlflow</h2>" in start
    assert "Ready." in start
    for place in ("/", "/mlflow/"):
        page = open_page(cluster.state()["gateway"] + place, tmp_path / "stranger")
        assert "This browser is not logged in here" in page
        assert "modelyard url" in page


@pytest.mark.platforms(*PLATFORMS)
def test_the_gateway_leads_to_it(cluster: Laptop) -> None:
    url = f"{status(cluster)['url']}/api/3.0/mlflow/server-info"
    unchecked = ssl._create_unverified_context()
    with urllib.request.urlopen(url, context=unchecked, timeout=20) as answer:
        assert answer.status == 200


def test_72_a_reader_can_read_and_no_more(cluster: Laptop, alice: str) -> None:
    assert client(cluster, alice, EXPERIMENT, "team-a", "create", "seen")
    assert client(cluster, member(cluster, "team-b", "carol", "edit"), EXPERIMENT, "team-b", "create", "unseen")
    reader = member(cluster, "team-a", "reader", "")
    rule = {"apiGroups": ["mlflow.kubeflow.org"], "resources": ["experiments"], "verbs": ["get"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [rule]}
    cluster.apply(json.dumps(role | {"metadata": {"name": "getter", "namespace": "team-a"}}))
    cluster.kubectl(
        "create", "rolebinding", "getter", "-n", "team-a", "--role=getter", "--serviceaccount=team-a:reader"
    )
    assert client(cluster, reader, EXPERIMENT, "team-a", "get", "seen")
    refused = {"refused": "PERMISSION_DENIED"}
    assert client(cluster, reader, EXPERIMENT, "team-a", "create", "more") == refused
    assert client(cluster, reader, EXPERIMENT, "team-b", "get", "unseen") == refused


def test_71_a_namespace_keeps_its_artifacts_in_its_own_bucket(cluster: Laptop) -> None:
    token = member(cluster, "team-s3", "bob", "edit")
    keys = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_S3_BUCKET": "ds-team-bucket",
        "AWS_S3_ENDPOINT": "http://s3",
    }
    metadata = {"namespace": "team-s3"}
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": keys}
    config = {"apiVersion": "mlflow.kubeflow.org/v1", "kind": "MLflowConfig"}
    spec = {"artifactRootSecret": "mlflow-artifact-connection", "artifactRootPath": "experiments"}
    cluster.apply(json.dumps(secret | {"metadata": metadata | {"name": "mlflow-artifact-connection"}}))
    cluster.apply(json.dumps(config | {"metadata": metadata | {"name": "mlflow"}, "spec": spec}))
    names = iter(range(100))

    def follows() -> bool:
        location = client(cluster, token, EXPERIMENT, "team-s3", "create", f"e{next(names)}")
        return str(location).startswith("s3://ds-team-bucket/experiments/")

    cluster.wait(follows, "new experiments are in the namespace's bucket")


def test_a_forced_migration_asks_the_image_first_and_keeps_the_data(cluster: Laptop, alice: str) -> None:
    run = client(cluster, alice, LOG_A_RUN)
    (before,) = cluster.get("jobs", "-n", NS)["items"]
    cluster.kubectl("annotate", "mlflow", "mlflow", f"{FORCE_MIGRATE}=now")
    cluster.wait(
        lambda: FORCE_MIGRATE not in cluster.get("mlflow", "mlflow")["metadata"].get("annotations", {}),
        "the migration is over",
        seconds=180,
    )
    cluster.wait(lambda: _available(cluster), "MLflow is available again", seconds=60)
    jobs = {job["metadata"]["name"]: job for job in cluster.get("jobs", "-n", NS)["items"]}
    assert jobs.pop(before["metadata"]["name"])["metadata"]["uid"] != before["metadata"]["uid"]
    ((name, asked),) = jobs.items()
    assert name.startswith("mlflow-pf-")
    assert asked["status"]["succeeded"] == 1
    assert client(cluster, alice, READ_A_RUN, run)["note"] == "hello"


def test_deleted_runs_are_collected_and_the_rest_survives_a_restart(cluster: Laptop, alice: str) -> None:
    kept, doomed = client(cluster, alice, LOG_A_RUN), client(cluster, alice, LOG_A_RUN)
    client(cluster, alice, REGISTER_A_MODEL, kept)
    logged = {"params": {"depth": "3"}, "metrics": {"accuracy": 0.9}, "note": "hello", "models": [["model", "1", kept]]}
    assert client(cluster, alice, READ_A_RUN, kept) == logged
    assert _artifacts_of(cluster, doomed)

    client(cluster, alice, DELETE_A_RUN, doomed)
    assert client(cluster, alice, RUN_EXISTS, doomed) is True
    _collect(cluster, {"schedule": "* * * * *"})
    cluster.wait(lambda: client(cluster, alice, RUN_EXISTS, doomed) is False, "the deleted run is gone", seconds=180)
    _collect(cluster, None)
    assert not _artifacts_of(cluster, doomed)

    cluster.stop()
    cluster.start()
    cluster.wait(lambda: _available(cluster), "MLflow is available again", seconds=180)
    again = cluster.kubectl("create", "token", "alice", "-n", "team-a").strip()
    assert client(cluster, again, READ_A_RUN, kept) == logged
    assert client(cluster, again, RUN_EXISTS, doomed) is False


def _collect(cluster: Laptop, collection: dict[str, str] | None) -> None:
    patch = json.dumps({"spec": {"garbageCollection": collection}})
    cluster.kubectl("patch", "mlflow", "mlflow", "--type=merge", "-p", patch)


def _artifacts_of(cluster: Laptop, run: str) -> str:
    return in_pod(cluster, "mlflow", f"find /mlflow/artifacts -type f -path '*/{run}/*'").strip()


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (("create_workspace", "team-z"), "kubectl create namespace team-z"),
        (("update_workspace", "team-a", "ours"), "kubectl annotate --overwrite namespace team-a description="),
        (("delete_workspace", "team-a"), "kubectl delete namespace team-a"),
    ],
)
def test_a_workspace_is_made_with_kubernetes_and_mlflow_says_so(
    cluster: Laptop, alice: str, call: tuple[str, ...], remedy: str
) -> None:
    answer = client(cluster, alice, WORKSPACE, *call)
    assert answer["status"] == 400
    assert remedy in answer["message"]


@pytest.mark.platforms("openshift")
def test_what_is_logged_through_the_gateway_survives_a_restart(cluster: Laptop, alice: str) -> None:
    run = client(cluster, alice, LOG_A_RUN)
    cluster.stop()
    cluster.start()
    cluster.wait(lambda: _available(cluster), "MLflow is available again", seconds=180)
    again = cluster.kubectl("create", "token", "alice", "-n", "team-a").strip()
    found = client(cluster, again, READ_A_RUN, run)
    assert found == {"params": {"depth": "3"}, "metrics": {"accuracy": 0.9}, "note": "hello", "models": []}


def _keeps_a_run(laptop: Laptop) -> None:
    """What is logged is read again, and lies in the two stores."""
    token = member(laptop, "team-a", "alice", "edit")
    run = client(laptop, token, LOG_A_RUN)
    found = client(laptop, token, READ_A_RUN, run)
    assert found == {"params": {"depth": "3"}, "metrics": {"accuracy": 0.9}, "note": "hello", "models": []}
    runs = "PGPASSWORD=$POSTGRES_PASSWORD psql -U $POSTGRES_USER -d $POSTGRES_DB -tAc 'select run_uuid from runs'"
    assert run in in_pod(laptop, "postgres-deployment", runs)
    assert f"{run}/artifacts/note.txt" in in_pod(laptop, "minio-deployment", "find /data/mlflow")


def test_the_sample_stores_hold_an_mlflows_data(kubectl_program: str, tmp_path: Path) -> None:
    """The three examples as they are: metadata in postgres-service:5432, artifacts in minio-service:9000."""
    laptop = Laptop(tmp_path / "cluster", kubectl_program)
    laptop.start(*STORES)
    try:
        _keeps_a_run(laptop)
        ports = {
            name: [port["port"] for port in laptop.get("service", name, "-n", NS)["spec"]["ports"]]
            for name in ("postgres-service", "minio-service")
        }
        assert ports == {"postgres-service": [5432], "minio-service": [9000]}
    finally:
        laptop.stop()


def test_the_sample_stores_with_tls_hold_an_mlflows_data(kubectl_program: str, tmp_path: Path) -> None:
    """The three examples as they are: our own CA signs for both stores, and the server trusts no one else."""
    laptop = Laptop(tmp_path / "cluster", kubectl_program)
    laptop.start(*STORES_TLS)
    try:
        _keeps_a_run(laptop)
        port = laptop.get("service", "minio-service", "-n", NS)["spec"]["ports"][0]
        assert (port["name"], port["port"]) == ("https", 9000)
        ca = laptop.get("configmap", "mlflow-ca-bundle", "-n", NS)["data"]["service-ca.crt"]
        for store, number, ask in (("minio", 9000, b""), ("postgres", 5432, SSL_REQUEST)):
            with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get local issuer"):
                _handshake(laptop, store, number, ask, ssl.create_default_context())
            names = _handshake(laptop, store, number, ask, ssl.create_default_context(cadata=ca))
            assert f"{store}-service.opendatahub.svc" in names
    finally:
        laptop.stop()


def _handshake(cluster: Laptop, store: str, port: int, ask: bytes, context: ssl.SSLContext) -> list[str]:
    """The names that a store's certificate is for, if the context trusts it."""
    pods = cluster.get("pods", "-n", NS, "-l", f"app=mlflow-{store}")["items"]
    host = f"{store}-service.opendatahub.svc.cluster.local"
    with socket.create_connection((pods[0]["status"]["podIP"], port), timeout=10) as plain:
        if ask:
            plain.sendall(ask)
            assert plain.recv(1) == b"S"
        with context.wrap_socket(plain, server_hostname=host) as secure:
            found: Any = secure.getpeercert()
            return [name for kind, name in found["subjectAltName"] if kind == "DNS"]


def in_pod(cluster: Laptop, deployment: str, command: str) -> str:
    return cluster.kubectl("exec", "-n", NS, f"deploy/{deployment}", "--", "sh", "-c", command)


def _available(cluster: Laptop) -> bool:
    conditions = status(cluster).get("conditions") or ()
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)
