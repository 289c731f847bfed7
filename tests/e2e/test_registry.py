"""A model registry on the laptop cluster: its generated database runs, is reached with its password, and keeps its data."""

from __future__ import annotations

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

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
MODELS = "/api/model_registry/v1alpha3/registered_models"


@pytest.fixture
def own(kubectl_program: str, tmp_path: Path, platform: str) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path / "cluster", kubectl_program, operators="model-registry", platform=platform)
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


@pytest.mark.platforms("openshift")
def test_on_openshift_every_registry_has_a_route_that_leads_to_it(own: Laptop) -> None:
    """A Route that names no host gets one from the router: without that the second registry would never be available."""
    proxied = REGISTRY.replace("rest: {}", "rest: {}, kubeRBACProxy: {}")
    names = ("models", "more")
    for name in names:
        own.kubectl("apply", "-f", "-", input=proxied.replace("name: models", f"name: {name}"))
    for name in names:
        own.kubectl("wait", f"mr/{name}", "-n", NS, "--for=condition=Available", "--timeout=180s", timeout=200)
    hosts = {own.get("route", f"{name}-https", "-n", NS)["status"]["ingress"][0]["host"] for name in names}
    assert len(hosts) == 2
    for name in names:
        given = json.loads(own.modelyard("env", f"{name}-https", "-o", "json"))
        address, trusted = (
            given["MODEL_REGISTRY_ADDRESS"],
            ssl.create_default_context(cafile=given["MODEL_REGISTRY_CA"]),
        )
        answers = [status_at(address, trusted, token) for token in (given["MODEL_REGISTRY_TOKEN"], "")]
        assert answers == [200, 401], name


def status_at(url: str, trusted: ssl.SSLContext, token: str) -> int:
    """How a registry answers. The gateway is on this machine, whatever name it is called by."""
    place = urlsplit(url)

    class Here(HTTPSConnection):
        def connect(self) -> None:
            plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
            self.sock = trusted.wrap_socket(plain, server_hostname=self.host)

    connection = Here(place.hostname or "", place.port or 443)
    connection.request("GET", f"{place.path}{MODELS}", headers={"Authorization": f"Bearer {token}"} if token else {})
    return connection.getresponse().status
