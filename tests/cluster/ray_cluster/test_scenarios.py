"""The RayCluster scenarios of the specification on an API server."""

from __future__ import annotations

import pytest

from tests.cluster.ray_cluster.scenarios import REASONS, SCENARIOS, title
from tests.cluster.ray_cluster.scenarios.scene import RayScene


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, scene: RayScene) -> None:
    await SCENARIOS[number](scene)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS) == list(range(1, 27))
    assert REASONS.keys() <= SCENARIOS.keys()
