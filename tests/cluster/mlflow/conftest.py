"""A yard on the API server under test, with the MLflow definitions in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.operators.mlflow.api import DEFINITIONS
from tests.cluster.conftest import Api
from tests.cluster.mlflow.scenarios.story import Story
from tests.yard import ApiYard


@pytest.fixture
async def story(api: Api) -> AsyncIterator[Story]:
    yard = ApiYard(api.client, await api.namespace("mlflow"), api.as_user)
    await yard.install(DEFINITIONS)
    yield Story(yard)
    await yard.stop()
