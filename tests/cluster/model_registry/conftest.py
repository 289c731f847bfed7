"""A ground on the API server under test, with the model registry's definition in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.operators.model_registry.api import DEFINITIONS
from tests.cluster.conftest import Api
from tests.cluster.model_registry.scenarios.scene import RegistryScene
from tests.ground import ApiGround


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[RegistryScene]:
    ground = ApiGround(api.client, await api.namespace("registry"), api.as_user)
    await ground.install(DEFINITIONS)
    told = RegistryScene(ground)
    yield told
    await told.close()
    await ground.stop()
