"""All scenarios of the specification that need no pods, on an API server. `SCENARIOS` maps each number to its story."""

from __future__ import annotations

import pytest

from tests.cluster.mlflow.scenarios import E2E, SCENARIOS, title
from tests.cluster.mlflow.scenarios.story import Story


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, story: Story) -> None:
    await SCENARIOS[number](story)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS) == list(range(1, 70))
    assert sorted(E2E) == [70, 71, 72]
