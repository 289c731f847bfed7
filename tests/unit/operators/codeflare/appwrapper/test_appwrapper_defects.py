"""Upstream's defects, shown mended in memory: also those that take hours."""

from __future__ import annotations

import pytest

from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER
from tests.cluster.appwrapper.scenarios.defects import ANYWHERE, OVER_TIME, Story
from tests.cluster.appwrapper.scenarios.scene import AppWrapperScene
from tests.ground import MemoryGround

NEEDS_COLLECTION = {"an_object_of_an_earlier_namesake_is_not_taken_for_ones_own"}


@pytest.mark.parametrize("story", [*ANYWHERE, *OVER_TIME], ids=lambda story: story.__name__)
async def test_defect(story: Story) -> None:
    collects = story.__name__ not in NEEDS_COLLECTION
    await story(AppWrapperScene(MemoryGround([APPWRAPPER], collects=collects)))
