"""A server moves to another namespace, in memory."""

from __future__ import annotations

import pytest

from tests.cluster.mlflow.scenarios import moves
from tests.cluster.mlflow.scenarios.scene import MLflowScene


@pytest.fixture
def scene() -> MLflowScene:
    return MLflowScene.in_memory()


async def test_a_changed_namespace_is_said_and_starts_no_second_server(scene: MLflowScene) -> None:
    await moves.a_changed_namespace_is_said_and_starts_no_second_server(scene)


async def test_a_server_moves_and_never_runs_twice(scene: MLflowScene) -> None:
    await moves.a_server_moves_and_never_runs_twice(scene)


async def test_data_in_a_volume_does_not_get_lost_on_the_way(scene: MLflowScene) -> None:
    await moves.data_in_a_volume_does_not_get_lost_on_the_way(scene)


async def test_a_namespace_that_is_gone_took_its_server_along(scene: MLflowScene) -> None:
    await moves.a_namespace_that_is_gone_took_its_server_along(scene)
