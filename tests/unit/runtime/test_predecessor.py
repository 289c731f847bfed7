"""Another operator for the same resources: while it runs nothing is touched, afterwards its objects go on as ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Event, Lease
from modelyard.kube.kinds import Key, Object
from modelyard.kube.times import format_micro_time
from modelyard.runtime.controller import Controller, Fixed, Owns
from modelyard.runtime.desired import Desired
from modelyard.runtime.plan import plan
from modelyard.runtime.predecessor import Predecessor
from modelyard.runtime.rbac import grants
from tests.unit.runtime.test_engine import GREETING, Bench, clock, config, obj, running

pytestmark = pytest.mark.looptime

OLD = Predecessor(
    "old-operator",
    "123.demo.dev",
    ("old", "manager"),
    labels={"made-by": "old"},
    stop="kubectl -n {namespace} scale deployment old --replicas=0",
)


def greeter(**settings: Any) -> Controller:
    controller = Controller("greetings", GREETING, owns=[Owns(ConfigMap)], predecessor=OLD, **settings)
    controller.reconcile(lambda resource, world: Desired([config(text="new")], status={"phase": "Done"}))
    return controller


async def hold_lease(bench: Bench) -> None:
    spec = {"holderIdentity": "old-1", "leaseDurationSeconds": 60, "renewTime": format_micro_time(clock())}
    await bench.user.create(Lease, obj(Lease, OLD.lease, spec=spec))


async def renew_lease(bench: Bench) -> None:
    spec = {"renewTime": format_micro_time(clock())}
    await bench.user.patch(Lease, "shop", OLD.lease, {"spec": spec})


async def old_child(bench: Bench, *, owned: bool = True, **labels: str) -> Object:
    """A child as the old operator applied it, with a field that nobody wants any more."""
    body = config(text="old", dropped="x") | {"apiVersion": "v1", "kind": "ConfigMap"}
    body["metadata"]["labels"] = labels
    if owned:
        owner = (await bench.greeting())["metadata"]
        reference = {"apiVersion": "demo.dev/v1", "kind": "Greeting", "name": owner["name"], "uid": owner["uid"]}
        body["metadata"]["ownerReferences"] = [reference | {"controller": True, "blockOwnerDeletion": True}]
    return await bench.user.apply(ConfigMap, body, field_manager="old")


async def test_nothing_is_touched_while_the_other_operator_holds_its_lease() -> None:
    async with running(greeter(finalizer="demo.dev/done")) as bench:
        await hold_lease(bench)
        await bench.greet()
        before = await old_child(bench)
        for _ in range(8):
            await asyncio.sleep(40.0)
            await renew_lease(bench)
        assert await bench.user.get(ConfigMap, "shop", "c") == before
        assert "finalizers" not in (await bench.greeting())["metadata"]
        mark = await bench.condition("Reconciled")
        assert (mark["status"], mark["reason"]) == ("False", "OtherOperatorRunning")
        assert "old-1 holds its Lease shop/123.demo.dev" in mark["message"]
        assert "kubectl -n shop scale deployment old --replicas=0" in mark["message"]
        events = (await bench.user.list(Event)).items
        assert [event["reason"] for event in events] == ["OtherOperatorRunning"]


async def test_its_objects_are_taken_over_when_its_lease_has_run_out() -> None:
    async with running(greeter()) as bench:
        await hold_lease(bench)
        await bench.greet()
        before = await old_child(bench)
        await asyncio.sleep(100.0)
        after = await bench.user.get(ConfigMap, "shop", "c")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["data"] == {"text": "new"}
        assert {entry["manager"] for entry in after["metadata"]["managedFields"]} == {"modelyard-greetings"}
        assert (await bench.greeting())["status"] == {"phase": "Done"}


async def test_a_condition_that_the_other_operator_does_not_keep_is_not_fought_over() -> None:
    async with running(greeter()) as bench:
        await hold_lease(bench)
        await bench.greet()
        await bench.condition("Reconciled")
        for _ in range(20):
            await asyncio.sleep(10.0)
            await renew_lease(bench)
            await bench.user.patch(GREETING.kind, "shop", "hi", {"status": {"conditions": None}}, subresource="status")
        written = bench.server.journal.entries(resource="greetings", subresource="status", status=200)
        assert len(written) - 20 <= 2


@pytest.mark.parametrize(("labels", "taken"), [({"made-by": "old"}, True), ({}, False)])
async def test_an_object_without_owner_is_taken_over_only_with_its_marks(labels: dict[str, str], taken: bool) -> None:
    async with running(greeter()) as bench:
        before = await old_child(bench, owned=False, **labels)
        await bench.greet()
        after = await bench.user.get(ConfigMap, "shop", "c")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert (after["data"]["text"] == "new") is taken


async def test_a_plan_shows_what_the_takeover_changes() -> None:
    async with running(greeter()) as bench:
        await hold_lease(bench)
        await bench.greet()
        await old_child(bench)
        planned = await plan(bench.user, greeter(), None, key=Key("shop", "hi"), clock=clock)
        assert any(change.kind == ConfigMap for change in planned.changes)


async def test_fixed_keys_give_way_too() -> None:
    controller = Controller("fixed", Fixed((Key("shop", "x"),)), owns=[Owns(ConfigMap)], predecessor=OLD)
    controller.reconcile(lambda key, world: Desired([config(text="new")]))
    async with running(controller) as bench:
        assert await bench.user.find(ConfigMap, "shop", "c") is not None
        await hold_lease(bench)
        await bench.user.delete(ConfigMap, "shop", "c")
        await asyncio.sleep(20.0)
        assert await bench.user.find(ConfigMap, "shop", "c") is None
        await asyncio.sleep(60.0)
        assert await bench.user.find(ConfigMap, "shop", "c") is not None


def test_the_role_lets_us_read_that_one_lease() -> None:
    rules = grants([greeter()]).rules("")
    assert {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch"],
        "resourceNames": [OLD.lease],
    } in rules
