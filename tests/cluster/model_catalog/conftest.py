"""The scene of the catalog on the API server under test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.conftest import Api
from tests.cluster.model_catalog.scenarios.scene import CatalogScene


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[CatalogScene]:
    async with CatalogScene.on(api, "catalog") as made:
        yield made
