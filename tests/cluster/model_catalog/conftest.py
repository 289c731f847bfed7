"""A yard on the API server under test, for the catalog."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.conftest import Api
from tests.cluster.model_catalog.scenarios.story import Story
from tests.yard import ApiYard


@pytest.fixture
async def story(api: Api) -> AsyncIterator[Story]:
    told = Story(ApiYard(api.client, await api.namespace("catalog"), api.as_user))
    yield told
    await told.close()
