"""The scenarios of AppWrappers that need no API server, over a cluster in memory."""

from __future__ import annotations

import pytest

from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER
from tests.cluster.appwrapper.scenarios import NEEDS_API, SCENARIOS, title
from tests.cluster.appwrapper.scenarios.scene import AppWrapperScene
from tests.ground import MemoryGround


@pytest.mark.parametrize("number", sorted(SCENARIOS.keys() - NEEDS_API), ids=title)
async def test_scenario(number: int) -> None:
    await SCENARIOS[number](AppWrapperScene(MemoryGround([APPWRAPPER], collects=True)))
