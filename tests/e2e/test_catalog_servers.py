"""Scenario 38 of the catalog, with pods: its server, its database, proxy, certificates, RBAC and sample lists are the real ones."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.laptop import Laptop
from tests.e2e.registries import NS, ask, token

CATALOG = "/api/model_catalog/v1alpha1"
EXAMPLE = f"{CATALOG}/sources/other_models/models/modelyard/example-chat"


@pytest.fixture(scope="module")
def cluster(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    directory = tmp_path_factory.mktemp("catalog") / "cluster"
    laptop = Laptop(directory, kubectl_program, operators="model-registry")
    laptop.start()

    def is_up() -> bool:
        health = laptop.get("configmap", "model-catalog-health", "-n", NS)
        return bool(health) and health["data"]["available"] == "true"

    laptop.wait(is_up, "the catalog is available", seconds=300)
    yield laptop
    laptop.stop()


@pytest.fixture(scope="module")
def known(cluster: Laptop) -> dict[str, str]:
    """What `modelyard env` says."""
    found: dict[str, str] = json.loads(cluster.modelyard("env", "model-catalog", "-o", "json"))
    return found


def read(known: dict[str, str], path: str) -> Any:
    request = urllib.request.Request(
        known["MODEL_CATALOG_URL"] + path, headers={"Authorization": f"Bearer {known['MODEL_CATALOG_TOKEN']}"}
    )
    trusted = ssl.create_default_context(cafile=known["MODEL_CATALOG_CA"])
    with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
        return json.load(answer)


def test_everyone_with_a_token_reads_the_catalog(cluster: Laptop) -> None:
    bob = token(cluster, "bob")
    assert ask(cluster, "model-catalog", f"{CATALOG}/models", bob) == 200
    assert ask(cluster, "model-catalog", f"{CATALOG}/models") == 401


def test_the_gateway_serves_the_sample_lists_and_their_measurements(cluster: Laptop, known: dict[str, str]) -> None:
    listed = read(known, f"{CATALOG}/models?source=other_models&q=laptop")
    assert [item["name"] for item in listed["items"]] == ["HuggingFaceTB/SmolLM2-360M-Instruct"]
    counts = read(known, EXAMPLE)["artifactCounts"]
    assert counts == {"accuracy-metrics": 1, "model-artifact": 1, "performance-metrics": 3}
    assert f"{CATALOG.removeprefix('/')}/models" in cluster.modelyard("url", "model-catalog")


def test_an_edit_of_the_users_list_is_served_without_a_restart(cluster: Laptop, known: dict[str, str]) -> None:
    pods = cluster.kubectl("get", "pods", "-n", NS, "-l", "app.kubernetes.io/name=model-catalog", "-o", "name")
    text = "model_catalogs: [{id: other_models, enabled: false}]\n"
    patch = json.dumps({"data": {"sources.yaml": text}})
    cluster.kubectl("patch", "configmap", "model-catalog-sources", "-n", NS, "--type=merge", "-p", patch)
    cluster.wait(lambda: read(known, f"{CATALOG}/models")["size"] == 0, "the samples are off")
    patch = json.dumps({"data": {"sources.yaml": "model_catalogs: [{id: other_models"}})
    cluster.kubectl("patch", "configmap", "model-catalog-sources", "-n", NS, "--type=merge", "-p", patch)

    def status() -> dict[str, Any]:
        found: list[dict[str, Any]] = read(known, f"{CATALOG}/sources")["items"]
        return {str(item["id"]): item for item in found}["other_models"]

    cluster.wait(lambda: status()["status"] == "error", "the mistake is told")
    assert "user-model-sources/sources.yaml" in status()["error"]
    patch = json.dumps({"data": {"sources.yaml": "model_catalogs: []\n"}})
    cluster.kubectl("patch", "configmap", "model-catalog-sources", "-n", NS, "--type=merge", "-p", patch)
    cluster.wait(lambda: read(known, f"{CATALOG}/models")["size"] == 5, "the samples are back")
    assert pods == cluster.kubectl("get", "pods", "-n", NS, "-l", "app.kubernetes.io/name=model-catalog", "-o", "name")
