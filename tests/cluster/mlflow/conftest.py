"""The scene of MLflow on the API server under test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.conftest import Api
from tests.cluster.mlflow.scenarios.scene import MLflowScene


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[MLflowScene]:
    async with MLflowScene.on(api, "mlflow") as made:
        yield made
