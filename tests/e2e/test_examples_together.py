"""All examples on one laptop, one after another in several orders: each works, or it is said what it lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.laptop import Laptop

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(file for file in EXAMPLES.rglob("*.yaml") if file.parent.name != "ray" and "ray" not in file.name)
"""Ray clusters want the whole machine; they have tests of their own."""
STORES = [EXAMPLES / "mlflow" / name for name in ("postgres.yaml", "minio.yaml")]
ON_STORES = EXAMPLES / "mlflow" / "postgres-and-s3.yaml"
REFUSALS = ("backendStoreUri and backendStoreUriFrom are", "registryStoreUri and registryStoreUriFrom are")
"""There is one MLflow for a cluster: kubectl adds an example's store to the store that `up` set."""
LACKING = {
    "modelregistry-mysql": "model-registry-mysql",
    "modelregistry-mysql-full": 'secret "model-registry-mysql-client" not found',
    "modelregistry-postgres": "model-registry-db",
    "modelregistry-postgres-full": 'secret "model-registry-db-client" not found',
}
"""Examples that need what users bring themselves, a database or certificates, and what `status` says that they lack."""
WITHOUT_CA = {"mlflow": "Job mlflow-mg-"}
"""The one MLflow is that of `full.yaml`, whose migration never ends: its stores are those with TLS, whose CA only `stores-tls.yaml` names."""
ORDERS = {"as they are listed": (FILES, LACKING), "the other way round": (FILES[::-1], LACKING | WITHOUT_CA)}


@pytest.fixture(scope="module")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path_factory.mktemp("examples"), kubectl_program, operators="mlflow,model-registry,codeflare")
    cluster.start(EXAMPLES / "quickstart.yaml")
    cluster.kubectl("create", "namespace", "team-a")
    yield cluster
    cluster.stop()


@pytest.mark.parametrize("order", ORDERS)
def test_the_examples_work_in_any_order_or_it_is_said_what_they_lack(laptop: Laptop, order: str) -> None:
    files, expected = ORDERS[order]
    for file in files:
        said = laptop.kubectl("apply", "-f", str(file), code=None)
        assert "invalid" not in said or any(f"{each} mutually exclusive" in said for each in REFUSALS), (file, said)
        assert "Error from server" not in said, (file, said)
    laptop.wait(lambda: not unscheduled(laptop), "every pod has a place")
    laptop.wait(lambda: lacking(laptop, expected) == expected, f"what is not ready is {expected}", seconds=150)
    named = [word for file in FILES for word in ("-f", str(file))]
    laptop.kubectl("delete", *named, "--ignore-not-found", "--timeout=90s", timeout=120)


def test_an_mlflow_goes_on_with_stores_of_its_own(laptop: Laptop) -> None:
    for file in STORES:
        laptop.kubectl("apply", "-f", str(file))
    laptop.kubectl("delete", "mlflow", "mlflow", "--ignore-not-found", "--timeout=60s")
    laptop.kubectl("apply", "-f", str(ON_STORES))
    laptop.kubectl("wait", "mlflow/mlflow", "--for=condition=Available", "--timeout=120s", timeout=130)
    assert not unscheduled(laptop)


def unscheduled(laptop: Laptop) -> list[str]:
    """The pods without a node, with the scheduler's reason."""
    pods: list[dict[str, Any]] = laptop.get("pods", "-A")["items"]
    return [
        f"{pod['metadata']['name']}: {pod['status'].get('conditions')}"
        for pod in pods
        if not pod["spec"].get("nodeName")
    ]


def lacking(laptop: Laptop, expected: dict[str, str]) -> dict[str, str]:
    """What is not ready, and what it lacks as far as that is expected; all that `modelyard status` says where it is not."""
    roots: list[dict[str, Any]] = json.loads(laptop.modelyard("status", "-o", "json", code=None))
    said = {root["name"]: str(root["why"]) for root in roots if root["ready"] is False}
    return {name: expected[name] if expected.get(name, "?") in why else why for name, why in said.items()}
