"""A ground on the API server under test, with the MLflow definitions in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.operators.mlflow.api import DEFINITIONS
from tests.cluster.conftest import Api
from tests.cluster.mlflow.scenarios.scene import MLflowScene
from tests.ground import ApiGround


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[MLflowScene]:
    ground = ApiGround(api.client, await api.namespace("mlflow"), api.as_user)
    await ground.install(DEFINITIONS)
    yield MLflowScene(ground)
    await ground.stop()
