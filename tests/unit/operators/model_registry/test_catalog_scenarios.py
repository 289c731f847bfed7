"""The scenarios of the catalog's specification, in memory. The cluster tier runs the same ones on servers."""

from __future__ import annotations

import pytest

from tests.cluster.model_catalog.scenarios import NEEDS_API, SCENARIOS, title
from tests.cluster.model_catalog.scenarios.story import Story
from tests.yard import MemoryYard


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](Story(MemoryYard([], namespace="reg")))
