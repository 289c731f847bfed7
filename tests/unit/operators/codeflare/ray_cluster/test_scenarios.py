"""The RayCluster scenarios in memory: no server, no waiting. The cluster tier runs the same ones on servers."""

from __future__ import annotations

import pytest

from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from tests.cluster.ray_cluster.scenarios import NEEDS_API, SCENARIOS, title
from tests.cluster.ray_cluster.scenarios.scene import RayScene
from tests.ground import MemoryGround


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](RayScene(MemoryGround([RAY_CLUSTER])))
