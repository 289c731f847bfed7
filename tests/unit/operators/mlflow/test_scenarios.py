"""The scenarios of the specification, in memory: no server, no waiting. The cluster tier runs the same ones on servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.kube.kinds import Key
from modelyard.operators.mlflow.api import DEFINITIONS
from modelyard.operators.mlflow.config import Settings
from modelyard.operators.mlflow.controller import mlflow_controller
from modelyard.runtime.memory import KeyMemory
from modelyard.runtime.passes import Pass
from tests.cluster.mlflow.scenarios import E2E, NEEDS_API, SCENARIOS, title
from tests.cluster.mlflow.scenarios.story import Story
from tests.yard import MemoryYard


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](Story(MemoryYard(DEFINITIONS)))


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS.keys() | E2E.keys()) == list(range(1, 73))
    e2e = (Path(__file__).parents[3] / "e2e" / "test_mlflow.py").read_text()
    assert [name for name in E2E.values() if f"def {name}(" not in e2e] == []


@pytest.mark.parametrize(
    ("what", "module", "seconds"),
    [("48: not ready yet", False, 10.0), ("63: the module is missing", True, 10.0)],
)
async def test_how_soon_it_looks_again(what: str, module: bool, seconds: float) -> None:
    """The rest of the waiting times are in the table of migration steps."""
    yard = MemoryYard(DEFINITIONS)
    story = Story(yard)
    await story.start()
    await story.settled(replicas=2)
    await yard.deployment_has("mlflow", 2, ready=0)
    controller = mlflow_controller(Settings(namespace=yard.namespace, module=module))
    result = await Pass(controller, yard.cluster, KeyMemory(), Key("", "mlflow")).run()
    assert result.requeue_after == seconds
