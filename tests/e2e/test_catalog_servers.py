"""Scenario 38 of the catalog, with pods: database, proxy, certificates and RBAC are the real ones.

Only the catalog's own server, which is not built yet, has a stand-in; it logs in to its database as that one does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.laptop import Laptop
from tests.e2e.registries import NS, ask, token

STANDIN = Path(__file__).parent / "standin"
CATALOG = "/api/model_catalog/v1alpha1/models"


@pytest.fixture(scope="module")
def cluster(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    path = os.pathsep.join(filter(None, (str(STANDIN), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "REGISTRIES_NAMESPACE": NS, "ENABLE_MODEL_CATALOG": "true"}
    directory = tmp_path_factory.mktemp("catalog") / "cluster"
    laptop = Laptop(directory, kubectl_program, operators="model-registry", environment=environment)
    laptop.start()
    yield laptop
    laptop.stop()


def test_everyone_with_a_token_reads_the_catalog(cluster: Laptop) -> None:
    bob = token(cluster, "bob")

    def is_up() -> bool:
        health = cluster.get("configmap", "model-catalog-health", "-n", NS)
        return bool(health) and health["data"]["available"] == "true"

    cluster.wait(is_up, "the catalog is available", seconds=300)
    assert ask(cluster, "model-catalog", CATALOG, bob) == 200
    assert ask(cluster, "model-catalog", CATALOG) == 401
