"""The scene of the model registry on the API server under test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.conftest import Api
from tests.cluster.model_registry.scenarios.scene import RegistryScene


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[RegistryScene]:
    async with RegistryScene.on(api, "registry") as made:
        yield made
