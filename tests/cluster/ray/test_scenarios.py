"""The scenarios of RayClusters without KubeRay, on an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from tests.cluster.conftest import Api
from tests.cluster.ray.scenarios import APPENDIX, FURTHER, Scenario
from tests.cluster.ray.scene import RayScene
from tests.ground import ApiGround


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[RayScene]:
    ground = ApiGround(api.client, await api.namespace("ray"), api.as_user)
    await ground.install([RAY_CLUSTER])
    yield RayScene(ground)
    await ground.stop()


@pytest.mark.parametrize("scenario", [*APPENDIX, *FURTHER], ids=lambda scenario: scenario.__name__)
async def test_scenario(scenario: Scenario, scene: RayScene) -> None:
    await scenario(scene)


def test_no_scenario_is_missing() -> None:
    assert [scenario.__name__.partition("_")[0] for scenario in APPENDIX] == [f"k{number}" for number in range(1, 11)]
