"""Scenarios 63 and 64 of the registry, with pods: the server, its database, proxy, certificates and RBAC are the real ones."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.laptop import Laptop
from tests.e2e.registries import NS, ask, python_with, token

EXAMPLE = Path(__file__).parents[2] / "examples/model-registry/generated-postgres-minimal.yaml"
REGISTRY = """
apiVersion: modelregistry.opendatahub.io/v1beta1
kind: ModelRegistry
metadata: {name: models, namespace: opendatahub}
spec: {rest: {}, kubeRBACProxy: {}, postgres: {generateDeployment: true}}
"""
MODELS = "/api/model_registry/v1alpha3/registered_models"
# As `modelyard env` says that the public client is called.
CLIENT = """
import os
from model_registry import ModelRegistry

registry = ModelRegistry(
    os.environ["MODEL_REGISTRY_ADDRESS"], int(os.environ["MODEL_REGISTRY_PORT"]), author="me",
    user_token=os.environ["MODEL_REGISTRY_TOKEN"], custom_ca=os.environ["MODEL_REGISTRY_CA"],
)
registry.register_model("m", "s3://b/m", version="1", model_format_name="onnx", model_format_version="1")
print([each.name for each in registry.get_registered_models()])
"""


@pytest.fixture(scope="module")
def cluster(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    directory = tmp_path_factory.mktemp("registry") / "cluster"
    laptop = Laptop(directory, kubectl_program, operators="model-registry")
    laptop.start()
    laptop.apply(REGISTRY)
    laptop.apply(EXAMPLE.read_text())
    yield laptop
    laptop.stop()


def available(cluster: Laptop, name: str = "models") -> tuple[str, str, str]:
    found = (cluster.get("modelregistry", name, "-n", NS).get("status") or {}).get("conditions") or []
    condition: dict[str, str] = next((c for c in found if c["type"] == "Available"), {})
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def test_only_those_with_the_role_get_in(cluster: Laptop) -> None:
    cluster.wait(lambda: available(cluster)[0] == "True", "the registry is available", seconds=300)
    ann, bob = token(cluster, "ann"), token(cluster, "bob")
    cluster.kubectl(
        "create", "rolebinding", "ann", "-n", NS, "--role=registry-user-models", f"--serviceaccount={NS}:ann"
    )
    cluster.wait(lambda: ask(cluster, "models", MODELS, ann) == 200, "ann gets in")
    assert ask(cluster, "models", MODELS, bob) == 403
    assert ask(cluster, "models", MODELS) == 401


@pytest.mark.parametrize("name", ["models", "modelregistry-sample"])
def test_what_env_says_lets_the_public_client_in(cluster: Laptop, name: str, tmp_path: Path) -> None:
    cluster.wait(lambda: available(cluster, name)[0] == "True", "the registry is available", seconds=300)
    python = python_with("model-registry", tmp_path / "client")
    given = json.loads(cluster.modelyard("env", name, "-o", "json"))
    done = subprocess.run([python, "-c", CLIENT], capture_output=True, text=True, env={**os.environ, **given})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['m']"


def test_status_and_url_know_the_registry(cluster: Laptop) -> None:
    cluster.wait(lambda: available(cluster)[0] == "True", "the registry is available", seconds=300)
    shown = {each["name"]: each for each in json.loads(cluster.modelyard("status", "modelregistry", "-o", "json"))}
    assert shown["models"]["ready"]
    address = cluster.modelyard("url", "models", "--plain").strip()
    assert address.endswith("/model-registry/models/")
    hosts = cluster.get("modelregistry", "models", "-n", NS)["status"]["hosts"]
    assert hosts[0] == address.removeprefix("https://").rstrip("/")
    assert "ModelRegistry(" in cluster.modelyard("env", "models")


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
