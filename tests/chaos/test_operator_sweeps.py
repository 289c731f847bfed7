"""Every operator under every fault, alone and among all operators: its story ends as if nothing had happened, and nothing
foreign is touched. A new operator adds its stories to the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.chaos import (
    appwrapper_story,
    demo_story,
    endings,
    mlflow_story,
    ray_cluster_story,
    ray_story,
    registry_story,
    sweeps,
)
from tests.chaos.amount import FULL
from tests.chaos.subject import DATA, among_all
from tests.chaos.sweeps import SweptScenario

ALONE: dict[str, SweptScenario] = {
    "demo": demo_story.LIFE,
    "demo-again": demo_story.AGAIN,
    "mlflow": mlflow_story.LIFE,
    "mlflow-pinned": mlflow_story.PINNED,
    "mlflow-end": mlflow_story.END,
    "registry": registry_story.LIFE,
    "registry-end": registry_story.END,
    "catalog": registry_story.CATALOG,
    "ray-cluster": ray_cluster_story.LIFE,
    "ray-cluster-end": ray_cluster_story.END,
    "appwrapper": appwrapper_story.LIFE,
    "appwrapper-fails": appwrapper_story.FAILURE,
    "ray": ray_story.LIFE,
    "ray-end": ray_story.END,
}
TOGETHER = tuple(ALONE)
"""Each is told once more with all operators loaded."""

SWEEPS: tuple[Callable[[SweptScenario], None], ...] = (
    sweeps.crash_after_every_write,
    sweeps.lose_every_event,
    sweeps.every_watch_late,
    sweeps.random_errors,
    sweeps.partition,
    sweeps.permission_revoked,
    sweeps.settled_means_no_writes,
    sweeps.two_planes_one_lease,
)


@cache
def story(name: str) -> SweptScenario:
    alone, _, suffix = name.partition("+")
    return among_all(ALONE[alone]) if suffix else ALONE[alone]


STORIES = (*ALONE, *(f"{name}+all" for name in TOGETHER))
SHARE = 4
"""Of the stories among all operators, the sample plays each with one sweep in so many; the full amount plays all."""
PLAYED = [
    pytest.param(name, sweep, id=f"{name}-{sweep.__name__}")
    for place, name in enumerate(STORIES)
    for number, sweep in enumerate(SWEEPS)
    if FULL or name in ALONE or (place + number) % SHARE == 0
]


@pytest.mark.parametrize(("name", "sweep"), PLAYED)
def test_the_end_is_as_if_nothing_had_happened(name: str, sweep: Callable[[SweptScenario], None]) -> None:
    sweep(story(name))


@pytest.mark.parametrize("name", TOGETHER)
def test_the_end_is_the_same_whoever_else_is_loaded(name: str) -> None:
    alone, together = (sweeps.baseline(story(each)) for each in (name, f"{name}+all"))
    sweeps.compare(story(name), together.ending, alone.ending, "with all operators loaded")


@pytest.mark.parametrize("phases", [registry_story.PHASES, among_all(registry_story.PHASES)], ids=["alone", "all"])
def test_a_registry_may_be_deleted_in_every_phase(phases: SweptScenario) -> None:
    endings.deleted_in_every_phase(phases, registry_story.REGISTRIES.deleted)


def test_an_appwrapper_may_be_deleted_in_every_phase() -> None:
    endings.deleted_in_every_phase(appwrapper_story.PHASES, appwrapper_story.APPWRAPPERS.deleted)


def test_a_ray_cluster_may_be_deleted_in_every_phase() -> None:
    endings.deleted_in_every_phase(ray_cluster_story.PHASES, ray_cluster_story.OPENSHIFT.deleted)


# What an AppWrapper wraps is made once: that one of its objects goes ends it.
@pytest.mark.parametrize("name", [name for name in STORIES if not name.startswith("appwrapper")])
def test_children_that_someone_deletes_or_changes_come_back(name: str) -> None:
    sweeps.children_deleted_or_stomped(story(name), DATA)
