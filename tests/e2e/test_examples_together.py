"""All examples on one laptop, one after another in any order: each works, or it is said why it does not."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.laptop import Laptop

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(file for file in EXAMPLES.rglob("*.yaml") if file.parent.name != "ray")
"""Ray clusters want the whole machine; they have tests of their own."""
STORES = [EXAMPLES / "mlflow" / name for name in ("postgres.yaml", "minio.yaml")]
ON_STORES = EXAMPLES / "mlflow" / "postgres-and-s3.yaml"
REFUSALS = ("backendStoreUri and backendStoreUriFrom are", "registryStoreUri and registryStoreUriFrom are")
"""There is one MLflow for a cluster: kubectl adds an example's store to the store that `up` set."""


@pytest.fixture(scope="module")
def laptop(kubectl_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    cluster = Laptop(tmp_path_factory.mktemp("examples"), kubectl_program, operators="mlflow,model-registry")
    cluster.start(EXAMPLES / "quickstart.yaml")
    yield cluster
    cluster.stop()


def test_the_examples_in_any_order_work_or_it_is_said_why_not(laptop: Laptop) -> None:
    # The same order in every run of CI; MODELYARD_SEED tries others.
    seed = int(os.environ.get("MODELYARD_SEED") or 2)
    order = random.Random(seed).sample(FILES, len(FILES))
    print(f"MODELYARD_SEED={seed}:", *(file.relative_to(EXAMPLES) for file in order))
    laptop.kubectl("create", "namespace", "team-a")
    for file in order:
        said = laptop.kubectl("apply", "-f", str(file), code=None)
        assert "invalid" not in said or any(f"{each} mutually exclusive" in said for each in REFUSALS), (file, said)
        assert "Error from server" not in said, (file, said)
    laptop.wait(lambda: not unscheduled(laptop), "every pod has a place")
    laptop.wait(lambda: not unexplained(laptop), "every resource is ready or says why not")

    for file in STORES:
        laptop.kubectl("apply", "-f", str(file))
    laptop.kubectl("delete", "mlflow", "mlflow", "--timeout=60s")
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


def unexplained(laptop: Laptop) -> list[str]:
    """The resources that are not ready and for which `modelyard status` gives no reason."""
    roots: list[dict[str, Any]] = json.loads(laptop.modelyard("status", "-o", "json", code=None))
    return [root["name"] for root in roots if root["ready"] is False and not root["why"]]
