"""A yard on the API server under test, with the model registry's definition in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.operators.model_registry.api import DEFINITIONS
from tests.cluster.conftest import Api
from tests.cluster.model_registry.scenarios.story import Story
from tests.yard import ApiYard


@pytest.fixture
async def story(api: Api) -> AsyncIterator[Story]:
    yard = ApiYard(api.client, await api.namespace("registry"), api.as_user)
    await yard.install(DEFINITIONS)
    told = Story(yard)
    yield told
    await told.close()
    await yard.stop()
