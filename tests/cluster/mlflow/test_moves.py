"""A server moves to another namespace, on an API server."""

from __future__ import annotations

from tests.cluster.mlflow.scenarios import moves
from tests.cluster.mlflow.scenarios.scene import MLflowScene


async def test_a_changed_namespace_is_said_and_starts_no_second_server(scene: MLflowScene) -> None:
    await moves.a_changed_namespace_is_said_and_starts_no_second_server(scene)


async def test_a_server_moves_and_never_runs_twice(scene: MLflowScene) -> None:
    await moves.a_server_moves_and_never_runs_twice(scene)


async def test_data_in_a_volume_does_not_get_lost_on_the_way(scene: MLflowScene) -> None:
    await moves.data_in_a_volume_does_not_get_lost_on_the_way(scene)
