"""What the public operator does wrong and we do not, on an API server."""

from __future__ import annotations

import pytest

from tests.cluster.ray_cluster.scenarios.defects import DEFECTS
from tests.cluster.ray_cluster.scenarios.scene import RayScene


@pytest.mark.parametrize("name", DEFECTS)
async def test_ours(name: str, scene: RayScene) -> None:
    await DEFECTS[name](scene)
