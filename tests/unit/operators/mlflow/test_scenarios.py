"""The scenarios of the specification, in memory: no server, no waiting. The cluster tier runs the same ones on servers."""

from __future__ import annotations

import pytest

from modelyard.operators.mlflow.api import DEFINITIONS
from tests.cluster.mlflow.scenarios import E2E, NEEDS_API, SCENARIOS, title
from tests.cluster.mlflow.scenarios.story import Story
from tests.yard import MemoryYard


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](Story(MemoryYard(DEFINITIONS)))


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS.keys() | E2E.keys()) == list(range(1, 73))
