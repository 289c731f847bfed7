"""The scenarios of the catalog's specification, in memory. The cluster tier runs the same ones on servers."""

from __future__ import annotations

import pytest

from tests.cluster.model_catalog.scenarios import NEEDS_API, SCENARIOS, title
from tests.cluster.model_catalog.scenarios.scene import CatalogScene
from tests.ground import MemoryGround


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](CatalogScene(MemoryGround([], namespace="reg")))
