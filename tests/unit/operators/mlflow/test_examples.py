"""The examples are what they say: valid for the definitions, and made into what they promise."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.openshift import INJECT_CA, SERVING_CERTIFICATE
from modelyard.operators.mlflow.api import DEFINITIONS, MLFLOW, MLflow
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.operators.mlflow.operator import operator
from modelyard.pins import pins
from modelyard.runtime.testing import make_ready, settle

EXAMPLES = Path(__file__).parents[4] / "examples" / "mlflow"
OURS = {(definition.kind.api_version, definition.kind_name): definition for definition in DEFINITIONS}


def objects(name: str) -> list[Object]:
    return [obj for obj in yaml.safe_load_all((EXAMPLES / name).read_text()) if obj]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_an_example_fits_its_type(file: Path) -> None:
    for obj in objects(file.name):
        definition = OURS.get((obj["apiVersion"], obj["kind"]))
        if definition is not None:
            parsed = definition.type.parse(obj).to_dict()
            assert obj["spec"].keys() <= parsed["spec"].keys(), "a field is misspelt"


@pytest.mark.parametrize("name", ["minimal.yaml", "postgres-and-s3.yaml", "stores-tls.yaml", "full.yaml"])
def test_an_example_settles_without_complaint(name: str) -> None:
    (mlflow,) = [MLflow.parse(obj) for obj in objects(name) if obj["kind"] == MLFLOW.kind_name]
    maps = [obj for obj in objects(name) if obj["kind"] == builtin.ConfigMap.kind]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mlflow-tls", "namespace": "opendatahub"}}

    def react(obj: Object) -> Object | None:
        if obj.get("kind") == "Job":
            return obj | {"status": {"succeeded": 1}}
        return make_ready(obj)

    outcome = settle(mlflow_controller(Settings()), mlflow, [secret, *maps], react=react)
    assert outcome.condition("Available")["status"] == "True"
    assert "Degraded" not in outcome.conditions


def test_the_stores_of_the_seed_page_are_shipped() -> None:
    services = {
        (obj["metadata"]["name"], obj["spec"]["ports"][0]["port"])
        for name in ("postgres.yaml", "minio.yaml")
        for obj in objects(name)
        if obj["kind"] == builtin.Service.kind
    }
    declared = {(service.name, service.port) for service in operator({}).services if service.role == "sample"}
    assert services == declared == {("postgres-service", 5432), ("minio-service", 9000)}


def test_the_stores_with_tls_have_the_seed_pages_ports_and_ask_for_the_certificates_that_they_use() -> None:
    declared = {(s.name, s.port, s.port_name) for s in operator({}).services if s.role == "sample"}
    shipped = set()
    for name in ("postgres-tls.yaml", "minio-tls.yaml"):
        found = {obj["kind"]: obj for obj in objects(name)}
        service, pod = found["Service"], found["Deployment"]["spec"]["template"]["spec"]
        (port,) = service["spec"]["ports"]
        shipped.add((service["metadata"]["name"], port["port"], port.get("name", "")))
        (used,) = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        assert service["metadata"]["annotations"] == {SERVING_CERTIFICATE: used}
        # OpenShift chooses the user and the group.
        assert "securityContext" not in pod
    assert shipped == declared


def test_with_tls_whom_the_server_talks_to_is_checked() -> None:
    trust, mlflow = objects("stores-tls.yaml")
    assert trust["metadata"]["annotations"] == {INJECT_CA: "true"}
    assert mlflow["spec"]["caBundleConfigMap"]["name"] == trust["metadata"]["name"]
    assert mlflow["spec"]["env"][0]["value"].startswith("https://minio-service.opendatahub.svc.cluster.local:9000")
    (uris,) = [
        obj["stringData"] for obj in objects("postgres-tls.yaml") if "backend-store-uri" in obj.get("stringData", {})
    ]
    assert all(uri.endswith("?sslmode=verify-full") for uri in uris.values())


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_the_images_of_the_stores_are_the_pinned_ones(file: Path) -> None:
    pinned = {pins()[name].reference for name in ("postgres", "minio")}
    pods = [obj["spec"]["template"]["spec"] for obj in objects(file.name) if obj["kind"] == "Deployment"]
    images = {each["image"] for pod in pods for each in [*pod.get("initContainers", []), *pod["containers"]]}
    assert images <= pinned


@pytest.mark.parametrize(
    ("stores", "example"),
    [
        (("postgres.yaml", "minio.yaml"), "postgres-and-s3.yaml"),
        (("postgres-tls.yaml", "minio-tls.yaml"), "stores-tls.yaml"),
    ],
)
def test_the_example_uses_the_secrets_that_the_stores_bring(stores: tuple[str, ...], example: str) -> None:
    brought = {
        obj["metadata"]["name"]: obj["stringData"].keys()
        for name in stores
        for obj in objects(name)
        if obj["kind"] == "Secret"
    }
    (mlflow,) = [MLflow.parse(obj) for obj in objects(example) if obj["kind"] == MLFLOW.kind_name]
    for reference in (mlflow.spec.backend_store_uri_from, mlflow.spec.registry_store_uri_from):
        assert reference is not None
        assert reference.key in brought[reference.name]
    assert mlflow.spec.env_from == [{"secretRef": {"name": "aws-credentials"}}]
    assert "aws-credentials" in brought
