"""Controllers without a custom resource of their own, passes after a resource's end, and what wakes a key from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import pairwise

import pytest

from modelyard.kube.builtin import ConfigMap, CustomResourceDefinition, Lease, Namespace, Secret
from modelyard.kube.errors import NotFound
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.declaring.background import Background, Backstage
from modelyard.runtime.declaring.controller import Controller, Index, Keyed, Reader, Trigger, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Hold, Outcome, Ownership
from modelyard.runtime.declaring.rbac import grants
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.lease import LeaseSettings
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.testing import FakeWorld
from tests.unit.runtime.greetings import GREETING, Greeting, clock, config, controller, crd, obj, running

pytestmark = pytest.mark.looptime

WIDGET = Kind("demo.dev", "v1", "Widget", "widgets")


def labelled(namespaces: Iterable[Object]) -> list[Key]:
    return [
        Key("", found["metadata"]["name"])
        for found in namespaces
        if (found["metadata"].get("labels") or {}).get("serve") == "yes"
    ]


def by_namespace() -> Controller:
    """One ConfigMap in each namespace that asks for it, and none where it no longer does."""

    def keys(reader: Reader) -> list[Key]:
        return labelled(reader.list(Namespace))

    def to_key(namespace: Object, reader: Reader) -> list[Key]:
        return [Key("", namespace["metadata"]["name"])]

    made = Controller("namespaces", Keyed(keys), owns=[ConfigMap], watches=[Watch(Namespace, to=to_key)])

    @made.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        namespace = world.get(Namespace, "", key.name)
        if namespace is None or key not in labelled([namespace]):
            return Desired()
        served = config("served")
        served["metadata"]["namespace"] = key.name
        return Desired([served])

    return made


async def test_a_namespace_can_be_a_key() -> None:
    async with running(by_namespace()) as bench:
        await bench.user.create(Namespace, {"metadata": {"name": "team", "labels": {"serve": "yes"}}})
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "team", "served") is not None
        assert await bench.user.find(ConfigMap, "shop", "served") is None
        await bench.user.patch(Namespace, "", "team", {"metadata": {"labels": {"serve": "no"}}})
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "team", "served") is None
        assert not bench.manager.engine("namespaces").memory.keys


async def test_a_new_leader_takes_up_all_keys_that_there_are() -> None:
    async with running(by_namespace()) as bench:
        await bench.manager.stop()
        await bench.user.create(Namespace, {"metadata": {"name": "team", "labels": {"serve": "yes"}}})
        async with Manager(bench.server.client(agent="plane"), [by_namespace()], clock=clock) as manager:
            await manager.idle()
            assert await bench.user.find(ConfigMap, "team", "served") is not None


async def test_the_next_holder_of_the_lease_takes_up_all_keys_that_there_are() -> None:
    lease = LeaseSettings("plane", "shop")
    async with running(by_namespace(), lease=lease, identity="first") as bench:
        await asyncio.sleep(30)
        standby = Manager(
            bench.server.client(agent="standby"), [by_namespace()], clock=clock, lease=lease, identity="second"
        )
        async with standby:
            await asyncio.sleep(30)
            assert not standby.leading
            await bench.manager.stop(grace=0.0)
            await bench.user.create(Namespace, {"metadata": {"name": "team", "labels": {"serve": "yes"}}})
            await asyncio.sleep(120)
            assert standby.leading
            assert await bench.user.find(ConfigMap, "team", "served") is not None


async def test_a_resync_wakes_every_key() -> None:
    passes: list[Key] = []
    keys = [Key("shop", "a"), Key("shop", "b")]
    made = Controller("keyed", Keyed(lambda reader: keys), resync=60.0)

    @made.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        passes.append(key)
        return Desired()

    async with running(made):
        assert sorted(passes) == keys
        await asyncio.sleep(90)
        assert sorted(passes) == [keys[0], keys[0], keys[1], keys[1]]


async def test_a_kind_that_others_define_may_be_worked_on_while_it_is_there() -> None:
    """A controller for someone else's kind waits for its CRD, works, survives its end, and works again when it returns."""
    made = Controller("widgets", WIDGET, owns=[ConfigMap], optional=True)

    @made.reconcile
    def reconcile(widget: Object, world: World) -> Desired:
        return Desired([config(f"of-{widget['metadata']['name']}")])

    async with running(made) as bench:
        assert not bench.manager.problems
        for name in ("first", "second"):
            await bench.user.create(CustomResourceDefinition, crd(WIDGET))
            await asyncio.sleep(120)
            await bench.user.create(WIDGET, obj(WIDGET, name))
            await asyncio.sleep(120)
            assert await bench.user.find(ConfigMap, "shop", f"of-{name}") is not None
            await bench.user.delete(CustomResourceDefinition, "", WIDGET.resource)
            await asyncio.sleep(120)
            assert not bench.manager.problems
            assert await bench.user.find(ConfigMap, "shop", f"of-{name}") is None


async def test_all_keys_are_woken_when_a_watched_kind_comes() -> None:
    passes: list[bool] = []
    made = Controller("keyed", Keyed(lambda reader: [Key("shop", "k")]), watches=[Watch(WIDGET, optional=True)])

    @made.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        passes.append(world.serves(WIDGET))
        return Desired()

    async with running(made) as bench:
        assert passes == [False]
        await bench.user.create(CustomResourceDefinition, crd(WIDGET))
        await asyncio.sleep(120)
        assert passes[-1] is True


async def test_a_pass_follows_the_end_of_a_resource_without_a_finalizer_and_is_tried_until_it_succeeds() -> None:
    registered: set[str] = set()
    refusals = 2

    def reconcile(resource: Greeting, world: World) -> Desired:
        registered.add(resource.name)
        role = obj(ConfigMap, f"of-{resource.name}")
        return Desired([Child(role, ownership=Ownership.TRACKED)])

    made = controller(reconcile)

    @made.gone
    async def gone(key: Key, world: World) -> Outcome:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise ConnectionError("the mesh does not answer")
        registered.discard(key.name)
        return Desired()

    async with running(made) as bench:
        await bench.greet("here")
        await bench.greet("hi")
        assert registered == {"here", "hi"}
        await bench.user.delete(GREETING.kind, "shop", "hi")
        await asyncio.sleep(30)
        await bench.manager.idle()
        assert registered == {"here"}
        assert await bench.user.find(ConfigMap, "shop", "of-hi") is None
        assert await bench.user.find(ConfigMap, "shop", "of-here") is not None


async def test_a_pass_after_the_end_may_wait_and_look_again() -> None:
    looks: list[float] = []
    made = controller(lambda resource, world: Desired())

    @made.gone
    def gone(key: Key, world: World) -> Outcome | None:
        looks.append(asyncio.get_running_loop().time())
        return Hold("Draining", "still in use", requeue_after=10.0) if len(looks) < 3 else None

    async with running(made) as bench:
        await bench.greet()
        await bench.user.delete(GREETING.kind, "shop", "hi")
        await asyncio.sleep(100)
        assert [round(later - earlier) for earlier, later in pairwise(looks)] == [10, 10]


async def test_a_trigger_wakes_a_key_for_a_reason_that_no_watch_sees() -> None:
    passes: list[str] = []
    trigger = Trigger()

    def reconcile(resource: Greeting, world: World) -> Desired:
        passes.append(resource.name)
        return Desired()

    made = controller(reconcile, triggers=[trigger])
    async with running(made) as bench:
        await bench.greet("a")
        await bench.greet("b")
        passes.clear()
        trigger.fire(Key("shop", "b"))
        await bench.manager.idle()
        assert passes == ["b"]


async def test_a_call_beyond_the_api_holds_up_no_other_key_and_ends_in_time() -> None:
    done: list[str] = []

    async def reconcile(resource: Greeting, world: World) -> Outcome:
        if resource.name.startswith("slow"):
            try:
                await world.call(lambda: asyncio.sleep(1000), timeout=30.0)
            except TimeoutError as error:
                return Hold("NoAnswer", str(error), requeue_after=3600.0)
        done.append(resource.name)
        return Desired()

    async with running(controller(reconcile, concurrency=1)) as bench:
        for name in ("slow-1", "slow-2", "slow-3", "quick"):
            await bench.user.create(GREETING.kind, obj(GREETING.kind, name, spec={}))
        await asyncio.sleep(5)
        assert done == ["quick"]
        await asyncio.sleep(60)
        for name in ("slow-1", "slow-2", "slow-3"):
            assert (await bench.condition("Ready", name))["message"] == "no answer within 30 s"


def _secret_names(resource: Object) -> list[str]:
    return [resource["spec"]["text"]]


USERS = Index("secret", GREETING.kind, _secret_names)


def users_of(secret: Object, reader: Reader) -> list[Key]:
    return [Key("shop", found["metadata"]["name"]) for found in reader.by_index("secret", secret["metadata"]["name"])]


async def test_an_index_finds_the_users_of_a_reference_for_mappings_and_passes() -> None:
    seen: dict[str, int] = {}

    def reconcile(resource: Greeting, world: World) -> Desired:
        seen[resource.name] = len(world.by_index("secret", resource.spec.text))
        return Desired()

    made = controller(reconcile, owns=[], watches=[Watch(Secret, to=users_of)], indexes=[USERS])
    async with running(made) as bench:
        await bench.greet("a", text="one")
        await bench.greet("b", text="two")
        await bench.greet("c", text="one")
        assert seen["c"] == 2
        seen.clear()
        await bench.user.create(Secret, obj(Secret, "one"))
        await bench.manager.idle()
        assert seen == {"a": 2, "c": 2}
        await bench.greet("a", text="two")
        assert seen["a"] == 2


def test_a_fake_world_has_the_same_indexes() -> None:
    world = FakeWorld([obj(GREETING.kind, "a", spec={"text": "one"})], kinds=[GREETING.kind], indexes=[USERS])
    assert [found["metadata"]["name"] for found in world.by_index("secret", "one")] == ["a"]


async def test_what_is_not_there_cannot_be_deleted_by_a_keyed_controller() -> None:
    async with running(by_namespace()) as bench:
        theirs = await bench.user.create(ConfigMap, config("served", text="theirs"))
        await bench.user.patch(Namespace, "", "shop", {"metadata": {"labels": {"serve": "yes"}}})
        await bench.manager.idle()
        await bench.user.patch(Namespace, "", "shop", {"metadata": {"labels": {"serve": "no"}}})
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "served"))["data"] == theirs["data"]
        with pytest.raises(NotFound):
            await bench.user.get(ConfigMap, "team", "served")


class Mesh:
    """Stands for a workload that an operator talks to: it is connected only while this process leads."""

    def __init__(self) -> None:
        self.connected = False
        self.failures = 1
        self.trigger = Trigger()

    async def run(self, plane: Backstage) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the mesh does not answer")
        assert await plane.client.find(Namespace, "", "shop") is not None
        assert plane.clock().year == 2026
        self.connected = True
        try:
            await asyncio.sleep(60)
            self.trigger.fire(Key("shop", "hi"))
            await asyncio.get_running_loop().create_future()
        finally:
            self.connected = False


async def test_a_service_beyond_the_api_lives_while_this_process_leads() -> None:
    mesh, passes = Mesh(), []

    def reconcile(resource: Greeting, world: World) -> Desired:
        passes.append(mesh.connected)
        return Desired()

    made = controller(reconcile, triggers=[mesh.trigger])
    lease = LeaseSettings("plane", "shop")
    async with running(made, background=[Background("mesh", mesh.run)], lease=lease) as bench:
        await asyncio.sleep(10)
        assert mesh.connected
        await bench.greet()
        passes.clear()
        await asyncio.sleep(80)
        assert passes == [True]
        taken = {"spec": {"holderIdentity": "another", "renewTime": "2030-01-01T00:00:00.000000Z"}}
        await bench.user.patch(Lease, "shop", "plane", taken)
        await asyncio.sleep(lease.duration - 1)
        assert not mesh.connected


async def test_a_kind_that_is_only_asked_for_wakes_when_it_comes_and_goes_and_is_never_read() -> None:
    def reconcile(greeting: Greeting, world: World) -> Desired:
        return Desired([config(platform="special" if world.serves(WIDGET) else "plain")])

    made = controller(reconcile, asks=[WIDGET])
    async with running(made) as bench:
        await bench.greet()
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"platform": "plain"}
        await bench.user.create(CustomResourceDefinition, crd(WIDGET))
        await asyncio.sleep(30)
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"platform": "special"}
        await bench.user.delete(CustomResourceDefinition, "", WIDGET.resource)
        await asyncio.sleep(90)
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"platform": "plain"}
        assert bench.server.journal.entries(resource="widgets") == []
    assert "widgets" not in str(grants([made]).rules(""))


async def test_a_key_may_name_an_owner_of_its_choice_and_its_children_go_with_that_owner() -> None:
    """A controller for namespaces hangs what it makes on a Secret there: the garbage collector takes it with the Secret."""

    def to_key(secret: Object, reader: Reader) -> list[Key]:
        return [Key("", secret["metadata"]["namespace"])] if secret["metadata"]["name"] == "owner" else []

    def keys(reader: Reader) -> list[Key]:
        return [key for secret in reader.list(Secret) for key in to_key(secret, reader)]

    made = Controller("namespaces", Keyed(keys), owns=[ConfigMap], watches=[Watch(Secret, to=to_key)])

    @made.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        owner = world.get(Secret, key.name, "owner")
        if owner is None:
            return Desired()
        served = config("served", text="hello")
        reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"]}
        served["metadata"] |= {"namespace": key.name, "ownerReferences": [reference | {"controller": True}]}
        return Desired([served])

    async with running(made) as bench:
        await bench.user.create(Secret, obj(Secret, "owner"))
        await bench.manager.idle()
        found = await bench.user.get(ConfigMap, "shop", "served")
        assert [reference["name"] for reference in found["metadata"]["ownerReferences"]] == ["owner"]
        await bench.user.patch(ConfigMap, "shop", "served", {"data": {"text": "changed"}})
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "served"))["data"] == {"text": "hello"}
        await bench.user.delete(Secret, "shop", "owner")
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "shop", "served") is None
        assert not bench.manager.engine("namespaces").memory.keys


async def test_the_end_of_someone_elses_kind_is_the_end_of_all_its_resources() -> None:
    """Whoever deletes a definition deletes what it defines: what was registered elsewhere for that is taken out."""
    registered: set[str] = set()
    made = Controller("widgets", WIDGET, optional=True)

    @made.reconcile
    def reconcile(widget: Object, world: World) -> Desired:
        registered.add(widget["metadata"]["name"])
        return Desired()

    @made.gone
    def gone(key: Key, world: World) -> None:
        registered.discard(key.name)

    async with running(made) as bench:
        await bench.user.create(CustomResourceDefinition, crd(WIDGET))
        await asyncio.sleep(120)
        for name in ("a", "b"):
            await bench.user.create(WIDGET, obj(WIDGET, name))
        await bench.manager.idle()
        assert registered == {"a", "b"}
        await bench.user.delete(CustomResourceDefinition, "", WIDGET.resource)
        await asyncio.sleep(120)
        assert not registered


async def test_what_ended_while_nobody_looked_is_taken_out_after_a_restart() -> None:
    """No cache remembers it. Whoever knows what is registered says so with a trigger, and the pass finds that it is gone."""
    registered = {"hi", "here"}
    passes: list[str] = []
    outside = Trigger()

    def reconcile(resource: Greeting, world: World) -> Desired:
        passes.append(resource.name)
        return Desired()

    made = controller(reconcile, triggers=[outside])

    @made.gone
    def gone(key: Key, world: World) -> None:
        registered.discard(key.name)

    async with running(controller(lambda resource, world: Desired())) as bench:
        await bench.greet("hi")
        await bench.greet("here")
        await bench.manager.stop()
        await bench.user.delete(GREETING.kind, "shop", "hi")
        async with Manager(bench.server.client(agent="plane"), [made], clock=clock) as again:
            await again.idle()
            assert registered == {"hi", "here"}
            for name in sorted(registered):
                outside.fire(Key("shop", name))
            await again.idle()
            assert registered == {"here"}
            assert set(passes) == {"here"}
