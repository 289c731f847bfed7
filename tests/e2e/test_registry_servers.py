"""Scenarios 63 and 64 of the registry and 38 of the catalog, with pods: database, proxy, certificates and RBAC are the real ones.

Only the registry's own server, which is not built yet, has a stand-in; it logs in to its database as that one does.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.e2e.laptop import Laptop

NS = "opendatahub"
STANDIN = Path(__file__).parent / "standin"
REGISTRY = """
apiVersion: modelregistry.opendatahub.io/v1beta1
kind: ModelRegistry
metadata: {name: models, namespace: opendatahub}
spec: {rest: {}, kubeRBACProxy: {}, postgres: {generateDeployment: true}}
"""
MODELS = "/api/model_registry/v1alpha3/registered_models"
CATALOG = "/api/model_catalog/v1alpha1/models"


@pytest.fixture(scope="module")
def cluster(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    path = os.pathsep.join(filter(None, (str(STANDIN), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "REGISTRIES_NAMESPACE": NS, "ENABLE_MODEL_CATALOG": "true"}
    directory = tmp_path_factory.mktemp("registry") / "cluster"
    laptop = Laptop(directory, kubectl_program, operators="model-registry", environment=environment)
    laptop.start()
    laptop.apply(REGISTRY)
    yield laptop
    laptop.stop()


def available(cluster: Laptop) -> tuple[str, str, str]:
    found = (cluster.get("modelregistry", "models", "-n", NS).get("status") or {}).get("conditions") or []
    condition: dict[str, str] = next((c for c in found if c["type"] == "Available"), {})
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def token(cluster: Laptop, name: str) -> str:
    cluster.kubectl("create", "serviceaccount", name, "-n", NS, code=None)
    return cluster.kubectl("create", "token", name, "-n", NS).strip()


def ask(cluster: Laptop, service: str, path: str, bearer: str = "") -> int:
    """The status of an answer through the Service's proxy, whose certificate is checked for its name."""
    secret = cluster.get("secret", f"{service}-kube-rbac-proxy", "-n", NS)
    trusted = ssl.create_default_context(cadata=base64.b64decode(secret["data"]["ca.crt"]).decode())
    address = cluster.get("service", service, "-n", NS)["spec"]["clusterIP"]

    class Named(HTTPSConnection):
        def connect(self) -> None:
            super(HTTPSConnection, self).connect()
            self.sock = trusted.wrap_socket(self.sock, server_hostname=f"{service}.{NS}.svc")

    connection = Named(address, 8443, timeout=20)
    connection.request("GET", path, headers={"Authorization": f"Bearer {bearer}"} if bearer else {})
    return connection.getresponse().status


def test_only_those_with_the_role_get_in(cluster: Laptop) -> None:
    cluster.wait(lambda: available(cluster)[0] == "True", "the registry is available", seconds=300)
    ann, bob = token(cluster, "ann"), token(cluster, "bob")
    cluster.kubectl(
        "create", "rolebinding", "ann", "-n", NS, "--role=registry-user-models", f"--serviceaccount={NS}:ann"
    )
    cluster.wait(lambda: ask(cluster, "models", MODELS, ann) == 200, "ann gets in")
    assert ask(cluster, "models", MODELS, bob) == 403
    assert ask(cluster, "models", MODELS) == 401


def test_everyone_with_a_token_reads_the_catalog(cluster: Laptop) -> None:
    bob = token(cluster, "bob")

    def is_up() -> bool:
        health = cluster.get("configmap", "model-catalog-health", "-n", NS)
        return bool(health) and health["data"]["available"] == "true"

    cluster.wait(is_up, "the catalog is available", seconds=300)
    assert ask(cluster, "model-catalog", CATALOG, bob) == 200
    assert ask(cluster, "model-catalog", CATALOG) == 401


def test_a_wrong_password_of_the_database_is_told(cluster: Laptop) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "wrong", "namespace": NS},
        "stringData": {"pw": "not-this-one"},
    }
    cluster.apply(json.dumps(secret))
    database = {"host": "models-postgres", "username": "modelregistry", "database": "model_registry"}
    spec = {"rest": {}, "postgres": {**database, "passwordSecret": {"name": "wrong", "key": "pw"}}}
    metadata = {"name": "other", "namespace": NS}
    cluster.apply(
        json.dumps(
            {
                "apiVersion": "modelregistry.opendatahub.io/v1beta1",
                "kind": "ModelRegistry",
                "metadata": metadata,
                "spec": spec,
            }
        )
    )

    def said() -> str:
        found = (cluster.get("modelregistry", "other", "-n", NS).get("status") or {}).get("conditions") or []
        return next((f"{c['reason']}: {c['message']}" for c in found if c["type"] == "Available"), "")

    cluster.wait(lambda: said().startswith("ConfigurationError: "), "the status says what is wrong", seconds=300)
    assert "database configuration error: cannot log in: UNAUTHENTICATED" in said()
    assert 'password authentication failed for user "modelregistry"' in said()
