"""What the public operator does wrong and we do not, in memory."""

from __future__ import annotations

import pytest

from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from tests.cluster.ray_cluster.scenarios.defects import DEFECTS, NEEDS_API
from tests.cluster.ray_cluster.scenarios.scene import RayScene
from tests.ground import MemoryGround


@pytest.mark.parametrize("name", [name for name in DEFECTS if name not in NEEDS_API])
async def test_ours(name: str) -> None:
    await DEFECTS[name](RayScene(MemoryGround([RAY_CLUSTER])))
