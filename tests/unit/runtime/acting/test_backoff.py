"""A key that fails comes again after growing pauses, whatever its own failing passes write. In virtual time."""

from __future__ import annotations

import asyncio

import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.conditions import ConditionStatus, condition
from modelyard.kube.kinds import Object
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.world import World
from tests.unit.runtime.greetings import GREETING, Greeting, config, controller, running

pytestmark = pytest.mark.looptime

FINALIZER = "demo.dev/end"
OUTAGE = 'failed calling webhook "check.demo.dev": connection refused'
FEW = 20
MANY = 200
"""Passes after which a loop is let go, as it takes no virtual time and would never end."""


async def test_a_finalizer_that_cannot_be_removed_is_tried_again_after_growing_pauses() -> None:
    tries: list[str] = []

    def said(status: ConditionStatus) -> Object:
        return {"conditions": [condition("Degraded", status, "Finalizing", f"the end is {status}")]}

    def cleanup(resource: Greeting, world: World) -> Desired:
        tries.append(resource.name)
        if len(tries) == MANY:
            bench.server.faults.clear()
        return Desired(status_first=said("Unknown"), status=said("True"))

    made = controller(lambda r, w: Desired([config()]), finalizer=FINALIZER)
    made.cleanup(cleanup)
    async with running(made) as bench:
        await bench.greet()
        bench.server.faults.add("patch", resource="greetings", subresource="", status=500, message=OUTAGE)
        await bench.user.delete(GREETING.kind, "shop", "hi")
        before = bench.server.journal.total
        await asyncio.sleep(600.0)
        assert len(tries) <= FEW
        assert bench.server.journal.total - before <= 10 * FEW
        failed = await bench.condition("Reconciled")
        assert failed["reason"] == "FinalizerNotRemoved"
        assert FINALIZER in failed["message"]
        assert OUTAGE in failed["message"]
        bench.server.faults.clear()
        await asyncio.sleep(600.0)
        assert await bench.user.find(GREETING.kind, "shop", "hi") is None


async def test_a_failure_that_says_something_else_each_time_backs_off() -> None:
    tries: list[str] = []

    def reconcile(resource: Greeting, world: World) -> Desired:
        tries.append(resource.name)
        if len(tries) < MANY:
            raise RuntimeError(f"port {len(tries)} does not answer")
        return Desired()

    async with running(controller(reconcile)) as bench:
        await bench.greet()
        await asyncio.sleep(600.0)
        assert len(tries) <= FEW


async def test_a_change_by_someone_else_ends_the_pause_at_once() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        if resource.spec.text == "bad":
            raise RuntimeError("no idea")
        return Desired([config(text=resource.spec.text)])

    async with running(controller(reconcile)) as bench:
        await bench.greet(text="bad")
        await asyncio.sleep(600.0)
        await bench.greet(text="good")
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "good"}
