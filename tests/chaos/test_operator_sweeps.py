"""Every operator under every fault: its story ends as if nothing had happened, and nothing foreign is touched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from modelyard.kube.kinds import Kind, Object
from tests.chaos import endings, mlflow_story, registry_story, sweeps
from tests.chaos.sweeps import Stage, Story

Owned = Callable[[Stage], Awaitable[list[tuple[Kind, Object]]]]
STORIES: dict[str, tuple[Story, Owned]] = {
    "mlflow": (mlflow_story.LIFE, mlflow_story.owned),
    "mlflow-pinned": (mlflow_story.PINNED, mlflow_story.owned),
    "mlflow-end": (mlflow_story.END, mlflow_story.owned),
    "registry": (registry_story.LIFE, registry_story.owned),
    "registry-end": (registry_story.END, registry_story.owned),
    "catalog": (registry_story.CATALOG, registry_story.catalog_owned),
}
"""One row an operator's story, and which of its children may be vandalised."""

SWEEPS = [
    sweeps.crash_after_every_write,
    sweeps.lose_every_event,
    sweeps.every_watch_late,
    sweeps.random_errors,
    sweeps.partition,
    sweeps.permission_revoked,
    sweeps.settled_means_no_writes,
    sweeps.two_planes_one_lease,
]


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.__name__)
@pytest.mark.parametrize("name", STORIES)
def test_the_end_is_as_if_nothing_had_happened(name: str, sweep: Any) -> None:
    sweep(STORIES[name][0])


def test_a_registry_may_be_deleted_in_every_phase() -> None:
    endings.deleted_in_every_phase(registry_story.PHASES, registry_story.deleted)


@pytest.mark.parametrize("name", STORIES)
def test_children_that_someone_deletes_or_changes_come_back(name: str) -> None:
    sweeps.children_deleted_or_stomped(*STORIES[name])
