"""A model registry on the laptop cluster: its generated database runs, is reached with its password, and keeps its data."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import wait_until
from tests.e2e.laptop import Laptop

NS = "opendatahub"
REGISTRY = """
apiVersion: modelregistry.opendatahub.io/v1beta1
kind: ModelRegistry
metadata: {name: models, namespace: opendatahub}
spec: {rest: {}, postgres: {generateDeployment: true}}
"""


@pytest.fixture
def own(kubectl_program: str, tmp_path: Path) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path / "cluster", kubectl_program, operators="model-registry")
    cluster.start()
    yield cluster
    cluster.stop()


def pod_of(cluster: Laptop) -> str:
    """The running pod of the database."""
    text = cluster.kubectl("get", "pods", "-n", NS, "-l", "app.kubernetes.io/name=models-postgres", "-o", "json")
    ready = [
        pod["metadata"]["name"]
        for pod in json.loads(text)["items"]
        if "deletionTimestamp" not in pod["metadata"]
        and all(status["ready"] for status in pod["status"].get("containerStatuses") or [{"ready": False}])
    ]
    return ready[0] if ready else ""


def sql(cluster: Laptop, pod: str, text: str) -> str:
    secret = json.loads(cluster.kubectl("get", "secret", "-n", NS, "models-postgres-credentials", "-o", "json"))["data"]
    user, password = (base64.b64decode(secret[key]).decode() for key in ("username", "password"))
    address = json.loads(cluster.kubectl("get", "pod", "-n", NS, pod, "-o", "json"))["status"]["podIP"]
    url = f"postgresql://{user}:{password}@{address}:5432/model_registry"
    return cluster.kubectl("exec", "-n", NS, pod, "--", "psql", url, "-At", "-c", text).strip()


def test_a_generated_database_runs_and_keeps_its_data(own: Laptop) -> None:
    own.kubectl("apply", "-f", "-", input=REGISTRY)
    wait_until(lambda: pod_of(own) != "", "the database is ready", seconds=240)
    first = pod_of(own)
    sql(own, first, "create table kept (word text); insert into kept values ('yes')")
    own.kubectl("delete", "pod", "-n", NS, first)
    wait_until(lambda: pod_of(own) not in ("", first), "another pod is ready", seconds=240)
    assert sql(own, pod_of(own), "select word from kept") == "yes"


def test_a_server_without_a_recipe_says_so(own: Laptop) -> None:
    unknown = REGISTRY.replace("rest: {}", "rest: {image: example.com/nobody/models:1}")
    own.kubectl("apply", "-f", "-", input=unknown)

    def said() -> str:
        found = json.loads(own.kubectl("get", "modelregistry", "-n", NS, "models", "-o", "json"))
        conditions = (found.get("status") or {}).get("conditions") or []
        return next((c["message"] for c in conditions if c["type"] == "Available"), "")

    wait_until(lambda: "no recipe for image" in said(), "the status names the image", seconds=240)
