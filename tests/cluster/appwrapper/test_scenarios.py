"""The scenarios of AppWrappers on an API server. `SCENARIOS` maps each number to its scene."""

from __future__ import annotations

import pytest

from tests.cluster.appwrapper.scenarios import SCENARIOS, title
from tests.cluster.appwrapper.scenarios.scene import AppWrapperScene


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, scene: AppWrapperScene) -> None:
    await SCENARIOS[number](scene)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS) == list(range(27, 60))
