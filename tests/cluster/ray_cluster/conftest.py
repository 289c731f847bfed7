"""A ground on the API server under test, with KubeRay's definition of RayClusters in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from tests.cluster.conftest import Api
from tests.cluster.ray_cluster.scenarios.scene import RayScene
from tests.ground import ApiGround


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[RayScene]:
    ground = ApiGround(api.client, await api.namespace("ray"), api.as_user)
    await ground.install([RAY_CLUSTER])
    told = RayScene(ground)
    yield told
    await told.close()
    await ground.stop()
