"""`url` and `env`: where a service is served, as whom one goes there, and under which names a client reads that."""

from __future__ import annotations

import pytest

from modelyard.cli.laptop.env import variables
from modelyard.failure import Failed
from modelyard.kube.builtin import HTTPRoute, Ingress
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.laptop.places import Place, find_published

GATEWAY = "https://localhost:8443"


def route(name: str, *paths: str, service: str = "backend") -> Object:
    rules = [
        {"matches": [{"path": {"type": "PathPrefix", "value": p}}], "backendRefs": [{"name": service, "port": 80}]}
        for p in paths
    ]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"rules": rules},
    }


async def test_a_route_is_found_by_its_name_or_by_its_service(server: ApiServer) -> None:
    client = server.client()
    await client.create(HTTPRoute, route("tracking", "/mlflow/api", "/mlflow", service="mlflow"))
    assert Place.of(await find_published(client, "tracking")) == Place("tracking", "default", "/mlflow/", "")
    assert (await find_published(client, "mlflow")).name == "tracking"


async def test_an_ingress_counts_too(server: ApiServer) -> None:
    client = server.client()
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/shop", "pathType": "Prefix", "backend": backend}]
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"rules": [{"http": {"paths": paths}}]},
    }
    await client.create(Ingress, ingress)
    assert (await find_published(client, "web")).path == "/shop/"


async def test_a_name_that_leads_nowhere_lists_what_is_served(server: ApiServer) -> None:
    client = server.client()
    with pytest.raises(Failed, match="leads to 'mlflow'; what is served: nothing yet"):
        await find_published(client, "mlflow")
    await client.create(HTTPRoute, route("tracking", "/mlflow"))
    with pytest.raises(Failed, match="what is served: tracking"):
        await find_published(client, "registry")


def test_a_page_of_mlflow_opens_in_a_workspace() -> None:
    assert Place("m", "a", "/mlflow/", "MLflow").page("team-a") == "/mlflow/#/experiments?workspace=team-a"
    assert Place("m", "a", "/other/", "").page("team-a") == "/other/"


def test_mlflow_gets_the_names_that_its_client_reads() -> None:
    place = Place("mlflow", "opendatahub", "/mlflow/", "MLflow")
    assert variables(place, GATEWAY, "secret", "ca.crt", "team-a") == {
        "MLFLOW_TRACKING_URI": "https://localhost:8443/mlflow",
        "MLFLOW_TRACKING_TOKEN": "secret",
        "MLFLOW_TRACKING_SERVER_CERT_PATH": "ca.crt",
        "MLFLOW_WORKSPACE": "team-a",
    }


def test_a_registry_gets_what_its_public_client_is_called_with() -> None:
    place = Place("model-registry-models", "opendatahub", "/model-registry/models/", "ModelRegistry")
    assert variables(place, GATEWAY, "secret", "ca.crt", "default") == {
        "MODEL_REGISTRY_ADDRESS": f"{GATEWAY}/model-registry/models",
        "MODEL_REGISTRY_PORT": "8443",
        "MODEL_REGISTRY_TOKEN": "secret",
        "MODEL_REGISTRY_CA": "ca.crt",
    }
    assert place.page("default") == "/model-registry/models/api/model_registry/v1alpha3/registered_models"


async def test_the_route_of_a_registry_is_known_by_its_label(server: ApiServer) -> None:
    client = server.client()
    made = route("model-registry-models", "/model-registry/models/")
    made["metadata"]["labels"] = {"component": "model-registry"}
    await client.create(HTTPRoute, made)
    assert Place.of(await find_published(client, "model-registry-models")).owner == "ModelRegistry"


def test_another_service_gets_names_made_from_its_own() -> None:
    made = variables(Place("my-registry", "a", "/", ""), GATEWAY, "secret", "ca.crt", "default")
    assert made == {"MY_REGISTRY_URL": GATEWAY, "MY_REGISTRY_TOKEN": "secret", "MY_REGISTRY_CA": "ca.crt"}
