"""The scenarios of the specification, in memory: no server, no waiting. The cluster tier runs the same ones on servers."""

from __future__ import annotations

import pytest

from tests.cluster.model_registry.scenarios import NEEDS_API, SCENARIOS, title
from tests.cluster.model_registry.scenarios.scene import RegistryScene


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](RegistryScene.in_memory())
