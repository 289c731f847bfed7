"""All scenarios of the catalog's specification that need no pods, on an API server."""

from __future__ import annotations

import pytest

from tests.cluster.model_catalog.scenarios import ELSEWHERE, SCENARIOS, title
from tests.cluster.model_catalog.scenarios.story import Story


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, story: Story) -> None:
    await SCENARIOS[number](story)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS.keys() | ELSEWHERE.keys()) == list(range(1, 39))
