"""Two children at one place: the same one is made once, different ones are refused, and nobody writes for ever."""

from __future__ import annotations

import asyncio

import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired, Stage
from modelyard.runtime.declaring.world import World
from modelyard.runtime.testing import bench as in_memory
from tests.unit.runtime.greetings import GREETING, Greeting, config, controller, obj, running

pytestmark = pytest.mark.looptime


async def test_two_different_children_at_one_place_are_refused_and_nothing_is_written() -> None:
    twice, passes = [config(text="one"), config(text="two"), config("other")], list[str]()

    def reconcile(resource: Greeting, world: World) -> Desired:
        passes.append(resource.name)
        # A loop takes no virtual time and would never end.
        return Desired(twice if len(passes) < 200 else [])

    async with running(controller(reconcile)) as bench:
        await bench.greet()
        found = await bench.condition("Reconciled")
        assert (found["status"], found["reason"]) == ("False", "Conflicting")
        assert "ConfigMap shop/c: two different objects with this name" in found["message"]
        assert await bench.user.find(ConfigMap, "shop", "c") is None
        assert await bench.user.find(ConfigMap, "shop", "other") is not None
        writes = len(bench.server.journal.writes())
        await asyncio.sleep(600.0)
        assert len(bench.server.journal.writes()) == writes


def greeter(desired: Desired) -> Controller:
    return controller(lambda r, w: desired)


def test_the_same_child_asked_for_twice_is_one_child() -> None:
    bench = in_memory(greeter(Desired([config(text="x"), config(text="x")])), obj(GREETING.kind, "hi", spec={}))
    outcome = bench.settle()
    assert not outcome.result.failures
    assert outcome.children[ConfigMap, "c"]["data"] == {"text": "x"}


def test_two_stages_cannot_ask_for_different_objects_at_one_place_either() -> None:
    stages = [Stage([config(text="x")]), Stage([config(text="y")])]
    outcome = in_memory(greeter(Desired(stages=stages)), obj(GREETING.kind, "hi", spec={})).settle()
    assert [failure.reason for failure in outcome.result.failures] == ["Conflicting"]
