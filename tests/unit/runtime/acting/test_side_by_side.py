"""Several controllers in one process: none changes what another one reads, owns or hears of."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from modelyard.kube.builtin import ClusterRole, ConfigMap, Deployment, Event, Namespace, Secret
from modelyard.kube.errors import NotFound
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns, Watch
from modelyard.runtime.declaring.desired import Child, Desired, EventNote, Ownership
from modelyard.runtime.declaring.rbac import grants
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.webhooks import Webhook, Webhooks
from modelyard.runtime.webhooks.declarations import AdmissionRequest
from tests.unit.runtime.greetings import GREETING, Greeting, GreetingsPlane, config, controller, obj, running

pytestmark = pytest.mark.looptime


def other_controller(**settings: Any) -> Controller:
    """A controller with a fixed key that makes nothing: it is only loaded."""
    made = Controller("other", Fixed((Key("shop", "other"),)), **settings)
    made.reconcile(lambda key, world: Desired(prune=False))
    return made


@pytest.mark.parametrize("loaded", [(), (other_controller(owns=[Owns(Secret, labels={"of": "other"})]),)])
async def test_a_controller_reads_what_it_declared_whoever_else_is_loaded(loaded: tuple[Controller, ...]) -> None:
    read: list[tuple[bool, int]] = []

    def reconcile(resource: Greeting, world: World) -> Desired:
        read.append((world.get(Secret, "shop", "s") is not None, len(world.list(Secret))))
        return Desired()

    reader = controller(reconcile, owns=[], watches=[Watch(Secret, metadata_only=True)])
    async with running(reader, *loaded) as bench:
        await bench.user.create(Secret, obj(Secret, "s", stringData={"a": "b"}))
        await bench.greet()
        assert read[-1] == (True, 1)


async def test_objects_can_be_followed_by_a_label_whatever_its_value() -> None:
    seen: set[tuple[str, ...]] = set()

    def look(resource: Greeting, world: World) -> Desired:
        seen.add(tuple(sorted(found["metadata"]["name"] for found in world.list(ConfigMap))))
        return Desired(prune=False)

    looker = controller(look, owns=[], watches=[Watch(ConfigMap, labels="demo.dev/of")])
    async with running(looker) as bench:
        for name, labels in (("a", {"demo.dev/of": "a"}), ("b", {"demo.dev/of": "b"}), ("c", {})):
            made = config(name)
            made["metadata"]["labels"] = labels
            await bench.user.create(ConfigMap, made)
        await bench.greet()
        assert seen == {("a", "b")}


async def test_own_writes_of_one_controller_do_not_show_up_in_the_selection_of_another() -> None:
    seen: set[tuple[str, ...]] = set()

    def make(resource: Greeting, world: World) -> Desired:
        made = config("made")
        made["metadata"]["labels"] = {"of": "maker"}
        return Desired([made])

    def look(resource: Greeting, world: World) -> Desired:
        seen.add(tuple(found["metadata"]["name"] for found in world.list(ConfigMap)))
        return Desired(prune=False)

    maker = controller(make, name="maker", owns=[Owns(ConfigMap, labels={"of": "maker"})])
    looker = controller(look, name="looker", owns=[Owns(ConfigMap, labels={"of": "looker"})])
    async with running(maker, looker) as bench:
        await bench.greet()
        await bench.greet(text="again")
        assert seen == {()}


def _reading_hook(answers: list[int]) -> Webhook:
    def handler(request: AdmissionRequest) -> None:
        answers.append(len(request.reader.list(Deployment, "shop")))

    return Webhook("reads.demo.dev", "validating", "/reads", handler, kinds=[GREETING.kind], reads=[Deployment])


REVIEW = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":'
    b'{"uid":"u","operation":"CREATE","object":{"metadata":{"name":"x"}}}}'
)


async def test_a_webhook_reads_the_kinds_that_it_declares_though_no_controller_follows_them() -> None:
    answers: list[int] = []
    async with running(controller(lambda r, w: Desired())) as bench:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await bench.user.create(Deployment, obj(Deployment, "d", spec=spec))
        hooks = Webhooks([_reading_hook(answers)], reader=bench.manager.reader)
        await hooks.answer("/reads", REVIEW)
        assert answers == [1]


async def test_a_webhook_does_not_take_an_unread_cache_for_an_empty_cluster() -> None:
    answers: list[int] = []
    async with running(controller(lambda r, w: Desired())) as bench:
        bench.server.faults.add(resource="deployments", status=503)
        hooks = Webhooks([_reading_hook(answers)], reader=bench.manager.reader)
        early = await hooks.answer("/reads", REVIEW)
        assert b'"code":503' in early.body
        assert b"deployments.apps are still being read; try again" in early.body
        bench.server.faults.clear()
        await asyncio.sleep(60)
        await hooks.answer("/reads", REVIEW)
        assert answers == [0]


async def test_a_webhook_reads_no_more_of_a_kind_than_it_declares() -> None:
    found: list[list[str]] = []

    def handler(request: AdmissionRequest) -> None:
        found.append([one["metadata"]["name"] for one in request.reader.list(ConfigMap)])

    limits = Watch(ConfigMap, name="settings", namespace="shop")
    hook = Webhook("reads.demo.dev", "validating", "/reads", handler, kinds=[GREETING.kind], reads=[limits])
    async with running(controller(lambda r, w: Desired())) as bench:
        for name in ("settings", "other"):
            await bench.user.create(ConfigMap, obj(ConfigMap, name))
        await Webhooks([hook], reader=bench.manager.reader).answer("/reads", REVIEW)
        assert found == [["settings"]]
    rules = grants([], webhooks=[hook]).rules("shop")
    assert [(rule["resources"], rule.get("resourceNames")) for rule in rules] == [(["configmaps"], ["settings"])]


async def test_two_controllers_of_one_kind_keep_their_tracked_children_apart() -> None:
    def makes(name: str) -> Any:
        return lambda resource, world: Desired([Child(obj(ClusterRole, name, rules=[]), ownership=Ownership.TRACKED)])

    first = controller(makes("first"), name="first", owns=[ClusterRole], finalizer="demo.dev/first")
    second = controller(makes("second"), name="second", owns=[ClusterRole], finalizer="demo.dev/second")
    async with running(first, second) as bench:
        await bench.greet()
        await bench.greet(text="again")
        roles = {role["metadata"]["name"] for role in (await bench.user.list(ClusterRole)).items}
        assert {"first", "second"} <= roles
        await bench.user.delete(GREETING.kind, "shop", "hi")
        await bench.manager.idle()
        roles = {role["metadata"]["name"] for role in (await bench.user.list(ClusterRole)).items}
        assert not {"first", "second"} & roles


async def test_tracked_children_of_an_older_version_are_taken_over_and_pruned_by_their_maker_only() -> None:
    names = ["old", "kept"]
    first = controller(
        lambda resource, world: Desired(
            [Child(obj(ClusterRole, n, rules=[]), ownership=Ownership.TRACKED) for n in names]
        ),
        name="first",
        owns=[ClusterRole],
    )
    second = controller(lambda resource, world: Desired(), name="second", owns=[ClusterRole])
    async with running(first) as bench:
        await bench.greet()
        await bench.manager.stop()
        for name in names:
            labels = {"modelyard.dev/owner-controller": None}
            await bench.user.patch(ClusterRole, "", name, {"metadata": {"labels": labels}})
        names.remove("old")
        async with Manager(bench.server.client(agent="plane"), [second, first]) as manager:
            await manager.idle()
            with pytest.raises(NotFound):
                await bench.user.get(ClusterRole, "", "old")
            kept = await bench.user.get(ClusterRole, "", "kept")
            assert kept["metadata"]["labels"]["modelyard.dev/owner-controller"] == "first"


async def test_a_tracked_child_may_name_its_real_owner() -> None:
    def reconcile(key: Key, world: World) -> Desired:
        owner = world.get(ConfigMap, "shop", "owner")
        if owner is None:
            return Desired()
        child = config("child", text="ours")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        child["metadata"]["ownerReferences"] = [reference | {"controller": True}]
        return Desired([child])

    made = Controller("keyed", Fixed((Key("shop", "k"),)), owns=[ConfigMap], watches=[Watch(ConfigMap, to=_the_key)])
    made.reconcile(reconcile)
    async with running(made) as bench:
        await bench.user.create(ConfigMap, config("owner"))
        await bench.manager.idle()
        await bench.user.patch(ConfigMap, "shop", "child", {"data": {"text": "theirs"}})
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "child"))["data"] == {"text": "ours"}
        assert not await _events(bench)


def _the_key(changed: Object, reader: object) -> list[Key]:
    return [Key("shop", "k")]


async def _events(bench: GreetingsPlane) -> list[tuple[str, str, str]]:
    found = (await bench.user.list(Event, "shop")).items
    return [(e["involvedObject"]["kind"], e["involvedObject"]["name"], e["message"]) for e in found]


async def test_events_of_a_controller_without_a_custom_resource_stand_in_the_namespace_of_their_key() -> None:
    made = Controller("keyed", Fixed((Key("shop", "k"),)), owns=[ConfigMap])
    owner = obj(Secret, "named")
    notes = [EventNote("Said", "hello"), EventNote("Said", "about it", about=owner)]
    made.reconcile(lambda key, world: Desired(events=notes))
    async with running(made) as bench:
        assert sorted(await _events(bench)) == [("Namespace", "shop", "hello"), ("Secret", "named", "about it")]


async def test_a_mapped_key_whose_write_came_after_the_lease_was_lost_is_taken_up_again() -> None:
    """No event comes again for such a key, and nothing lists it."""
    leads = False
    made = Controller("mapped", Fixed(()), owns=[ConfigMap], watches=[Watch(Namespace, to=_its_key)])
    made.reconcile(lambda key, world: Desired([config("made")]))
    async with running(made) as bench:
        engine = bench.manager.engine("mapped")
        engine.shared = replace(engine.shared, may_write=lambda: leads)
        await bench.user.create(Namespace, {"metadata": {"name": "team"}})
        await asyncio.sleep(1)
        assert engine.passes > 0
        leads = True
        await asyncio.sleep(400)
        assert (await bench.user.get(ConfigMap, "shop", "made"))["metadata"]["name"] == "made"


def _its_key(changed: Object, reader: object) -> list[Key]:
    return [Key("shop", "k")] if changed["metadata"]["name"] == "team" else []
