"""Another operator for the same resources: while it runs nothing is touched, afterwards its objects go on as ours."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Event, Lease, Namespace
from modelyard.kube.kinds import Key, Object
from modelyard.kube.times import format_micro_time
from modelyard.runtime.acting.plan import plan
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.predecessor import Predecessor
from modelyard.runtime.declaring.rbac import grants
from tests.unit.runtime.greetings import GREETING, GreetingsPlane, clock, config, obj, running

pytestmark = pytest.mark.looptime

OLD = Predecessor(
    "old-operator",
    "123.demo.dev",
    ("shop", "old-system"),
    ("old", "manager"),
    labels={"made-by": "old"},
    stop="kubectl -n {namespace} scale deployment old --replicas=0",
)


def greeter(**settings: Any) -> Controller:
    controller = Controller("greetings", GREETING, owns=[Owns(ConfigMap)], predecessor=OLD, **settings)
    controller.reconcile(lambda resource, world: Desired([config(text="new")], status={"phase": "Done"}))
    return controller


async def hold_lease(bench: GreetingsPlane, namespace: str = "shop", *, seconds: int = 60, ahead: float = 0.0) -> None:
    renewed = format_micro_time(clock() + timedelta(seconds=ahead))
    spec = {"holderIdentity": "old-1", "leaseDurationSeconds": seconds, "renewTime": renewed}
    lease = obj(Lease, OLD.lease, spec=spec)
    lease["metadata"]["namespace"] = namespace
    await bench.user.create(Lease, lease)


async def renew_lease(bench: GreetingsPlane) -> None:
    spec = {"renewTime": format_micro_time(clock())}
    await bench.user.patch(Lease, "shop", OLD.lease, {"spec": spec})


async def old_child(bench: GreetingsPlane, *, owned: bool = True, **labels: str) -> Object:
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


async def test_a_lease_of_that_name_in_a_tenants_namespace_stops_nobody_and_is_told() -> None:
    async with running(greeter()) as bench:
        await bench.user.create(Namespace, {"metadata": {"name": "tenant"}})
        await hold_lease(bench, "tenant")
        await bench.greet()
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "new"}
        assert (await bench.greeting())["status"] == {"phase": "Done"}
        (event,) = (await bench.user.list(Event)).items
        assert event["reason"] == "OtherOperatorIgnored"
        assert "the Lease 123.demo.dev in namespace tenant is ignored" in event["message"]
        assert "PREDECESSOR_NAMESPACES" in event["message"]


@pytest.mark.parametrize("lease", [{"seconds": 2147483647}, {"ahead": 10_000_000.0}, {"ahead": 2e11}])
async def test_a_lease_that_nobody_renews_ends_whatever_it_says(lease: Any) -> None:
    async with running(greeter()) as bench:
        await hold_lease(bench, **lease)
        await bench.greet()
        await asyncio.sleep(600.0)
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "new"}


async def test_a_lease_with_a_long_duration_counts_while_it_is_renewed() -> None:
    async with running(greeter()) as bench:
        await hold_lease(bench, seconds=2147483647)
        await bench.greet()
        for _ in range(8):
            await asyncio.sleep(100.0)
            await renew_lease(bench)
        assert await bench.user.find(ConfigMap, "shop", "c") is None


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
