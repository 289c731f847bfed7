"""All scenarios of the specification that need no pods, on an API server. `SCENARIOS` maps each number to its scene."""

from __future__ import annotations

import pytest

from tests.cluster.mlflow.scenarios import E2E, SCENARIOS, title
from tests.cluster.mlflow.scenarios.scene import MLflowScene


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, scene: MLflowScene) -> None:
    await SCENARIOS[number](scene)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS) == list(range(1, 70))
    assert sorted(E2E) == [70, 71, 72]
