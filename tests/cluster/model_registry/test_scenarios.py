"""All scenarios of the specification that need no pods, on an API server. `SCENARIOS` maps each number to its story."""

from __future__ import annotations

import pytest

from tests.cluster.model_registry.scenarios import ELSEWHERE, SCENARIOS, title
from tests.cluster.model_registry.scenarios.story import Story


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, story: Story) -> None:
    await SCENARIOS[number](story)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS.keys() | ELSEWHERE.keys()) == list(range(1, 65))
    assert not SCENARIOS.keys() & ELSEWHERE.keys()
