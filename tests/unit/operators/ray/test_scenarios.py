"""The scenarios of RayClusters without KubeRay, in memory. The cluster tier runs the same ones on servers."""

from __future__ import annotations

import pytest

from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from tests.cluster.ray.scenarios import APPENDIX, FURTHER, Scenario
from tests.cluster.ray.scene import RayScene
from tests.ground import MemoryGround


@pytest.mark.parametrize("scenario", [*APPENDIX, *FURTHER], ids=lambda scenario: scenario.__name__)
async def test_scenario(scenario: Scenario) -> None:
    await scenario(RayScene(MemoryGround([RAY_CLUSTER])))
