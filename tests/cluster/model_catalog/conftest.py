"""A ground on the API server under test, for the catalog."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.conftest import Api
from tests.cluster.model_catalog.scenarios.scene import CatalogScene
from tests.ground import ApiGround


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[CatalogScene]:
    told = CatalogScene(ApiGround(api.client, await api.namespace("catalog"), api.as_user))
    yield told
    await told.close()
