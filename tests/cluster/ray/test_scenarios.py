"""The scenarios of RayClusters without KubeRay, on an API server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.conftest import Api
from tests.cluster.ray.scenarios import APPENDIX, FURTHER, Scenario
from tests.cluster.ray.scene import RayScene


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[RayScene]:
    async with RayScene.on(api, "ray") as scene:
        yield scene


@pytest.mark.parametrize("scenario", [*APPENDIX, *FURTHER], ids=lambda scenario: scenario.__name__)
async def test_scenario(scenario: Scenario, scene: RayScene) -> None:
    await scenario(scene)


def test_no_scenario_is_missing() -> None:
    assert [scenario.__name__.partition("_")[0] for scenario in APPENDIX] == [f"k{number}" for number in range(1, 11)]
