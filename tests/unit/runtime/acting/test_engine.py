"""Controllers in a manager on the embedded API server, in virtual time: what users of the runtime can rely on."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from modelyard.kube.builtin import (
    ClusterRole,
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    Event,
    Job,
    Lease,
    Namespace,
    Route,
    Secret,
    Service,
)
from modelyard.kube.conditions import condition
from modelyard.kube.crd import Definition, Version, definition_of
from modelyard.kube.errors import NotFound
from modelyard.kube.kinds import Key, Object
from modelyard.kube.transport import Around, Response, Sent
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.acting.plan import plan
from modelyard.runtime.declaring.controller import Fixed, Owns, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, EventNote, Hold, Live, Ownership, Policy, Stage
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.lease import LeaseSettings
from modelyard.runtime.process.manager import Manager
from tests.chaos.faults import Answer
from tests.unit.runtime.greetings import GREETING, Greeting, clock, config, controller, crd, obj, running

pytestmark = pytest.mark.looptime


async def test_drift_is_repaired_and_a_settled_cluster_is_not_written() -> None:
    async with running(controller(lambda r, w: Desired([config(text=r.spec.text)]))) as bench:
        await bench.greet(text="a")
        await bench.user.patch(ConfigMap, "shop", "c", {"data": {"text": "b", "theirs": "x"}})
        await bench.manager.idle()
        found = await bench.user.get(ConfigMap, "shop", "c")
        assert found["data"] == {"text": "a", "theirs": "x"}
        writes = len(bench.server.journal.writes())
        await bench.user.patch(ConfigMap, "shop", "c", {"data": {"theirs": "y"}})
        await bench.manager.idle()
        assert len(bench.server.journal.writes()) == writes + 1


async def test_a_field_dropped_while_the_plane_was_down_is_removed_after_the_restart() -> None:
    async with running(controller(lambda r, w: Desired([config(old="1", new="1")]))) as bench:
        await bench.greet()
        await bench.manager.stop()
        async with Manager(bench.server.client(), [controller(lambda r, w: Desired([config(new="1")]))]) as manager:
            await manager.idle()
            assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"new": "1"}


async def test_a_foreign_namesake_is_left_alone_until_it_is_gone() -> None:
    async with running(controller(lambda r, w: Desired([config(text="ours")]))) as bench:
        await bench.user.create(ConfigMap, config(text="theirs"))
        await bench.greet()
        assert (await bench.condition("Reconciled"))["reason"] == "Foreign"
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "theirs"}
        await bench.user.delete(ConfigMap, "shop", "c")
        await asyncio.sleep(400)
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "ours"}
        assert "conditions" not in (await bench.greeting()).get("status", {})


async def test_what_the_cache_does_not_show_costs_one_request_and_is_not_touched() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        child = config(resource.name, text="ours")
        child["metadata"]["labels"] = {"ours": "yes"}
        return Desired([child])

    async with running(controller(reconcile, owns=[Owns(ConfigMap, labels={"ours": "yes"})])) as bench:
        theirs = await bench.user.create(ConfigMap, config("taken", text="theirs"))
        await bench.greet("free")
        await bench.greet("taken")
        asked = bench.server.journal.entries(resource="configmaps", name="free")
        assert [(entry["method"], entry["status"]) for entry in asked] == [("PATCH", 201)]
        assert await bench.user.get(ConfigMap, "shop", "taken") == theirs
        assert (await bench.condition("Reconciled", "taken"))["reason"] == "Foreign"


async def test_one_bad_object_says_why_and_the_others_go_on() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        if resource.name == "bad":
            raise RuntimeError("no idea")
        return Desired([config(resource.name)])

    async with running(controller(reconcile)) as bench:
        await bench.greet("bad")
        await bench.greet("good")
        assert (await bench.user.get(ConfigMap, "shop", "good"))["metadata"]["name"] == "good"
        ready = await bench.condition("Ready", "bad")
        assert (ready["status"], ready["reason"], ready["message"]) == (
            "False",
            "ReconcileFailed",
            "RuntimeError: no idea",
        )
        events = (await bench.user.list(Event, "shop")).items
        assert [(e["reason"], e["type"], e["involvedObject"]["name"]) for e in events] == [
            ("ReconcileFailed", "Warning", "bad")
        ]


async def test_an_object_the_api_refuses_is_named_in_the_condition() -> None:
    async with running(controller(lambda r, w: Desired([obj(ConfigMap, "c", data={"bad key!": "x"})]))) as bench:
        await bench.greet()
        said = await bench.condition("Reconciled")
        assert said["reason"] == "ApplyFailed"
        assert "ConfigMap shop/c" in said["message"]
        assert "bad key!" in said["message"]


async def test_a_reconcile_that_hangs_is_cut_off_and_said() -> None:
    async def reconcile(resource: Greeting, world: World) -> Desired:
        await asyncio.sleep(3600)
        return Desired()

    async with running(controller(reconcile, timeout=5.0)) as bench:
        await bench.user.create(GREETING.kind, obj(GREETING.kind, "hi", spec={}))
        await asyncio.sleep(7)
        assert (await bench.condition("Ready"))["reason"] == "ReconcileTimeout"


async def test_a_status_is_written_once_and_keeps_its_transition_time() -> None:
    def status(resource: Greeting, live: Live) -> Object:
        return {"phase": resource.spec.text, "conditions": [condition("Ready", True, resource.spec.text)]}

    async with running(controller(lambda r, w: Desired(status=status))) as bench:
        await bench.greet(text="one")
        first = await bench.condition("Ready")
        await asyncio.sleep(60)
        await bench.greet(text="two")
        second = await bench.condition("Ready")
        assert (second["reason"], second["lastTransitionTime"]) == ("two", first["lastTransitionTime"])


async def test_a_status_field_that_the_api_drops_does_not_make_a_loop() -> None:
    async with running(controller(lambda r, w: Desired(status={"phase": "a", "unknown": 1}))) as bench:
        await bench.greet()
        passes = bench.manager.engines[0].passes
        await asyncio.sleep(600)
        assert bench.manager.engines[0].passes == passes


async def test_a_status_that_someone_resets_is_written_again() -> None:
    async with running(controller(lambda r, w: Desired(status={"phase": "Up"}))) as bench:
        await bench.greet()
        for _ in range(2):
            await bench.user.patch(GREETING.kind, "shop", "hi", {"status": None}, subresource="status")
            await bench.manager.idle()
            assert (await bench.greeting())["status"] == {"phase": "Up"}


async def test_pause_and_reconcile_now_are_shown_and_obeyed() -> None:
    async with running(controller(lambda r, w: Desired([config(text=r.spec.text)]))) as bench:
        await bench.greet(text="a")
        await bench.annotate(pause="true")
        assert (await bench.condition("Paused"))["status"] == "True"
        await bench.greet(text="b")
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "a"}
        await bench.annotate(reconcile="please")
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "b"}
        assert "modelyard.dev/reconcile" not in (await bench.greeting())["metadata"]["annotations"]
        await bench.annotate(pause=None)
        assert "conditions" not in (await bench.greeting()).get("status", {})


async def test_a_child_that_someone_keeps_changing_trips_a_breaker_instead_of_a_loop() -> None:
    async with running(controller(lambda r, w: Desired([config(text="ours")]))) as bench:
        await bench.greet()

        async def vandal() -> None:
            while True:
                found = await bench.user.get(ConfigMap, "shop", "c")
                if found["data"]["text"] == "ours":
                    await bench.user.patch(ConfigMap, "shop", "c", {"data": {"text": "theirs"}})
                await asyncio.sleep(1)

        task = asyncio.create_task(vandal())
        await asyncio.sleep(300)
        task.cancel()
        said = await bench.condition("Reconciled")
        assert said["reason"] == "Contested"
        repairs = bench.server.journal.entries(verb="patch", resource="configmaps")
        assert len(repairs) < 50
        await asyncio.sleep(1500)
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"text": "ours"}
        assert "conditions" not in (await bench.greeting()).get("status", {})


async def test_an_immutable_change_replaces_a_job_but_not_a_plain_child() -> None:
    def job(text: str) -> Object:
        pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a", "args": [text]}]}
        return obj(Job, "j", spec={"template": {"spec": pod}})

    async with running(
        controller(lambda r, w: Desired([Child(job(r.spec.text), policy=Policy.RECREATE)]), owns=[Job])
    ) as bench:
        await bench.greet(text="one")
        first = await bench.user.get(Job, "shop", "j")
        await bench.greet(text="two")
        second = await bench.user.get(Job, "shop", "j")
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        assert second["spec"]["template"]["spec"]["containers"][0]["args"] == ["two"]


async def test_an_optional_kind_may_come_and_go_at_any_time() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        served = world.serves(Route)
        children = [obj(Route, "r", spec={"host": "a"})] if served else []
        return Desired(children, status={"phase": "routed" if served else "plain"})

    async with running(controller(reconcile, owns=[Owns(Route, optional=True)])) as bench:
        await bench.greet()
        assert (await bench.greeting())["status"]["phase"] == "plain"
        for _ in range(2):
            await bench.user.create(CustomResourceDefinition, crd(Route))
            await asyncio.sleep(10)
            await bench.manager.idle()
            assert (await bench.greeting())["status"]["phase"] == "routed"
            assert (await bench.user.get(Route, "shop", "r"))["spec"] == {"host": "a"}
            await bench.user.delete(CustomResourceDefinition, "", Route.resource)
            await asyncio.sleep(10)
            await bench.manager.idle()
            assert (await bench.greeting())["status"]["phase"] == "plain"


async def test_a_controller_waits_for_its_own_kind_to_be_installed() -> None:
    made = controller(lambda r, w: Desired([config()]))
    async with ApiServer(clock=clock) as server:
        admin = server.client(agent="user")
        await admin.create(Namespace, {"metadata": {"name": "shop"}})
        async with Manager(server.client(), [made], clock=clock) as manager:
            await asyncio.sleep(5)
            assert manager.problems == ["controller greetings waits for greetings.demo.dev to be served"]
            await admin.create(CustomResourceDefinition, definition_of(GREETING))
            await asyncio.sleep(10)
            await admin.create(GREETING.kind, obj(GREETING.kind, "hi", spec={}))
            await manager.idle()
            assert manager.problems == []
            await admin.get(ConfigMap, "shop", "c")


async def test_a_plane_stops_in_good_order_at_any_time() -> None:
    loop = asyncio.get_running_loop()
    ended: list[str] = []

    async def reconcile(resource: Greeting, world: World) -> Desired:
        await asyncio.sleep(3)
        ended.append(resource.name)
        return Desired()

    async with ApiServer(clock=clock) as server:
        waiting = Manager(server.client(), [controller(reconcile)], clock=clock)
        waiting.start()
        await asyncio.sleep(5)
        before = loop.time()
        await waiting.stop()
        assert loop.time() - before < 1, "what has not begun need not end"
    async with running(controller(reconcile, resync=60.0)) as bench:
        await bench.user.create(GREETING.kind, obj(GREETING.kind, "hi", spec={}))
        await asyncio.sleep(1)
        await bench.manager.stop()
        assert ended == ["hi"]


async def test_watched_objects_wake_whom_they_concern_before_and_after_a_change() -> None:
    def named_in(obj: Object, reader: Reader) -> list[Key]:
        return [Key("shop", obj["data"]["who"])] if obj.get("data") else []

    seen: list[str] = []

    def reconcile(resource: Greeting, world: World) -> Hold:
        seen.append(resource.name)
        return Hold("Waiting", "for nothing")

    async with running(controller(reconcile, owns=[], watches=[Watch(ConfigMap, to=named_in)])) as bench:
        await bench.greet("one")
        await bench.greet("two")
        seen.clear()
        await bench.user.create(ConfigMap, config("w", who="one"))
        await bench.manager.idle()
        assert seen == ["one"]
        seen.clear()
        await bench.user.patch(ConfigMap, "shop", "w", {"data": {"who": "two"}})
        await bench.manager.idle()
        assert sorted(seen) == ["one", "two"]


async def test_a_contribution_shares_a_foreign_object_and_is_taken_back() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        share = config("theirs", ours=resource.spec.text)
        return Desired([Child(share, ownership=Ownership.CONTRIBUTED)] if resource.spec.size else [])

    async with running(controller(reconcile)) as bench:
        await bench.user.create(ConfigMap, config("theirs", kept="x"))
        await bench.greet(text="a")
        found = await bench.user.get(ConfigMap, "shop", "theirs")
        assert found["data"] == {"kept": "x", "ours": "a"}
        assert not found["metadata"].get("ownerReferences")
        await bench.user.patch(ConfigMap, "shop", "theirs", {"data": {"ours": None}})
        await bench.manager.idle()
        assert (await bench.user.get(ConfigMap, "shop", "theirs"))["data"] == {"kept": "x", "ours": "a"}
        await bench.greet(size=0)
        assert (await bench.user.get(ConfigMap, "shop", "theirs"))["data"] == {"kept": "x"}


async def test_a_contribution_never_takes_a_field_by_force() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([Child(config("theirs", text="ours"), ownership=Ownership.CONTRIBUTED)])

    async with running(controller(reconcile)) as bench:
        await bench.user.create(ConfigMap, config("theirs", text="theirs"))
        await bench.greet()
        assert (await bench.condition("Reconciled"))["reason"] == "Contested"
        assert (await bench.user.get(ConfigMap, "shop", "theirs"))["data"] == {"text": "theirs"}


async def test_a_shared_child_outlives_all_but_its_last_owner() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([Child(obj(ClusterRole, "greeter", rules=[]), ownership=Ownership.SHARED)])

    async with running(controller(reconcile, owns=[ClusterRole], finalizer="demo.dev/end")) as bench:
        await bench.greet("one")
        await bench.greet("two")
        await bench.user.delete(GREETING.kind, "shop", "one")
        await bench.manager.idle()
        assert await bench.user.find(ClusterRole, "", "greeter") is not None
        await bench.user.delete(GREETING.kind, "shop", "two")
        await bench.manager.idle()
        assert await bench.user.find(ClusterRole, "", "greeter") is None


async def test_kept_children_stay_when_their_owner_goes_and_are_adopted_again() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([Child(config("kept", text=resource.spec.text), keep=True, adopt=True), config("gone")])

    async with running(controller(reconcile, finalizer="demo.dev/end")) as bench:
        await bench.greet(text="a")
        await bench.user.delete(GREETING.kind, "shop", "hi")
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "shop", "gone") is None
        uid = (await bench.user.get(ConfigMap, "shop", "kept"))["metadata"]["uid"]
        await bench.greet(text="b")
        again = await bench.user.get(ConfigMap, "shop", "kept")
        assert (again["metadata"]["uid"], again["data"]) == (uid, {"text": "b"})


async def test_a_users_object_hung_on_our_resource_is_not_pruned() -> None:
    async with running(controller(lambda r, w: Desired([config()]))) as bench:
        await bench.greet()
        uid = (await bench.greeting())["metadata"]["uid"]
        reference = {"apiVersion": "demo.dev/v1", "kind": "Greeting", "name": "hi", "uid": uid, "controller": True}
        theirs = config("theirs")
        theirs["metadata"]["ownerReferences"] = [reference]
        await bench.user.create(ConfigMap, theirs)
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "shop", "theirs") is not None


async def test_a_child_that_cannot_be_made_keeps_what_it_may_replace_and_no_more() -> None:
    """In its own namespace the old ones stay until it is there; elsewhere what is no longer wanted goes."""

    def reconcile(resource: Greeting, world: World) -> Desired:
        here, there = (config(name) for name in resource.spec.text.split())
        there["metadata"]["namespace"] = "attic"
        return Desired([here, Child(there, ownership=Ownership.TRACKED)])

    async with running(controller(reconcile, finalizer="demo.dev/end")) as bench:
        await bench.user.create(Namespace, {"metadata": {"name": "attic"}})
        await bench.user.create(ConfigMap, config("taken"))
        await bench.greet(text="old old")
        await bench.greet(text="taken new")
        found = {
            at: await bench.user.find(ConfigMap, *at) for at in (("shop", "old"), ("attic", "old"), ("attic", "new"))
        }
        assert [at for at, there in found.items() if there] == [("shop", "old"), ("attic", "new")]
        await bench.user.delete(ConfigMap, "shop", "taken")
        await asyncio.sleep(600)
        assert await bench.user.find(ConfigMap, "shop", "old") is None


async def test_where_no_condition_can_tell_of_a_failure_an_event_does() -> None:
    made = controller(lambda obj, world: Desired([config("taken")]), for_=GREETING.kind)
    async with running(made) as bench:
        await bench.user.create(ConfigMap, config("taken"))
        await bench.greet()
        (event,) = (await bench.user.list(Event)).items
        assert (event["type"], event["reason"], event["involvedObject"]["name"]) == ("Warning", "Foreign", "hi")
        assert event["message"].startswith("ConfigMap shop/taken: ")


async def test_generated_values_survive_and_stages_wait() -> None:
    def filled(live: Live) -> bool:
        return "go" in ((live.get(ConfigMap, "shop", "gate") or {}).get("data") or {})

    def reconcile(resource: Greeting, world: World) -> Desired:
        secret = obj(Secret, "s", stringData={"text": resource.spec.text})
        made = Child(secret, generate=lambda: {"stringData": {"key": world.token(20)}})
        return Desired(stages=[Stage([made, config("gate")], ready=filled), Stage([config("after")])])

    async with running(controller(reconcile, owns=[ConfigMap, Secret])) as bench:
        await bench.greet(text="a")
        key = (await bench.user.get(Secret, "shop", "s"))["data"]["key"]
        assert await bench.user.find(ConfigMap, "shop", "after") is None
        await bench.greet(text="b")
        data = (await bench.user.get(Secret, "shop", "s"))["data"]
        assert data == {"key": key, "text": "Yg=="}
        await bench.user.patch(ConfigMap, "shop", "gate", {"data": {"go": "1"}})
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "shop", "after") is not None


async def test_fixed_keys_are_worked_on_without_any_resource() -> None:
    made = controller(
        lambda key, world: Desired([config(key.name)], requeue_after=30),
        name="catalog",
        for_=Fixed((Key("shop", "all"),)),
    )
    async with running(made) as bench:
        assert await bench.user.find(ConfigMap, "shop", "all") is not None
        passes = bench.manager.engines[0].passes
        await asyncio.sleep(65)
        assert bench.manager.engines[0].passes == passes + 2
        await bench.user.delete(ConfigMap, "shop", "all")
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "shop", "all") is not None


async def test_a_crash_in_one_controllers_mapping_does_not_stop_another() -> None:
    def broken(obj: Object, reader: Reader) -> list[Key]:
        raise ValueError("broken mapping")

    bad = controller(lambda r, w: Desired(), name="bad", owns=[], watches=[Watch(ConfigMap, to=broken)])
    good = controller(lambda r, w: Desired([config()]), name="good")
    async with running(bad, good) as bench:
        await bench.greet()
        await bench.user.delete(ConfigMap, "shop", "c")
        await bench.manager.idle()
        assert await bench.user.find(ConfigMap, "shop", "c") is not None


async def test_events_are_counted_not_repeated() -> None:
    async with running(controller(lambda r, w: Desired(events=[EventNote("Said", "hello")]))) as bench:
        for number in range(5):
            await bench.greet(text=str(number))
        await asyncio.sleep(1000)
        await bench.greet(text="again")
        events = (await bench.user.list(Event, "shop")).items
        assert [(e["reason"], e["count"]) for e in events] == [("Said", 2)]


async def test_a_plane_limited_to_a_namespace_leaves_the_others_alone() -> None:
    async with running(controller(lambda r, w: Desired([config()])), namespace="shop") as bench:
        await bench.user.create(Namespace, {"metadata": {"name": "other"}})
        elsewhere = obj(GREETING.kind, "hi", spec={})
        elsewhere["metadata"]["namespace"] = "other"
        await bench.user.create(GREETING.kind, elsewhere)
        await bench.greet()
        assert await bench.user.find(ConfigMap, "shop", "c") is not None
        assert await bench.user.find(ConfigMap, "other", "c") is None


async def test_a_controller_for_some_namespaces_leaves_the_others_alone() -> None:
    made = controller(lambda r, w: Desired([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}]))
    made.namespaces = ("shop", "third")
    # It sees them, as another follows the kind everywhere.
    nosy = controller(lambda r, w: Desired(), name="nosy", owns=[])
    async with running(made, nosy) as bench:
        for name in ("other", "third"):
            await bench.user.create(Namespace, {"metadata": {"name": name}})
            elsewhere = obj(GREETING.kind, "hi", spec={})
            elsewhere["metadata"]["namespace"] = name
            await bench.user.create(GREETING.kind, elsewhere)
        await bench.greet()
        bench.manager.engine("greetings").wake_all("the test")
        await bench.manager.idle()
        found = {name: await bench.user.find(ConfigMap, name, "c") is not None for name in ("shop", "other", "third")}
        assert found == {"shop": True, "other": False, "third": True}


async def test_without_the_lease_nothing_is_done_and_with_it_everything() -> None:
    lease = LeaseSettings("plane", "shop")
    async with running(controller(lambda r, w: Desired([config()])), lease=lease, identity="one") as bench:
        await asyncio.sleep(5)
        held = await bench.user.get(Lease, "shop", "plane")
        assert held["spec"]["holderIdentity"] == "one"
        async with Manager(
            bench.server.client(),
            [controller(lambda r, w: Desired([config(x="two")]))],
            clock=clock,
            lease=lease,
            identity="two",
        ) as second:
            await bench.greet()
            assert (bench.manager.leading, second.leading) == (True, False)
            assert "data" not in await bench.user.get(ConfigMap, "shop", "c")
            await bench.manager.stop()
            await asyncio.sleep(10)
            assert second.leading
            await second.idle()
            assert (await bench.user.get(ConfigMap, "shop", "c"))["data"] == {"x": "two"}


async def test_a_plan_shows_what_would_happen_and_does_nothing() -> None:
    made = controller(lambda r, w: Desired([config("a", text=r.spec.text)] + ([config("b")] if r.spec.size else [])))
    async with running(made) as bench:
        fresh = await plan(bench.user, made, obj(GREETING.kind, "new", spec={"text": "x"}))
        assert [(c.action, c.key.name) for c in fresh.changes] == [("create", "a"), ("create", "b")]
        assert await bench.user.find(ConfigMap, "shop", "a") is None
        await bench.greet(text="one")
        assert (await plan(bench.user, made, None, key=Key("shop", "hi"))).is_empty
        changed = await plan(bench.user, made, obj(GREETING.kind, "hi", spec={"text": "two", "size": 0}))
        assert [(c.action, c.key.name) for c in changed.changes] == [("change", "a"), ("delete", "b")]
        assert [(f.path, f.before, f.after) for f in changed.of("change")[0].fields] == [("data.text", "one", "two")]
        assert (await bench.user.get(ConfigMap, "shop", "a"))["data"] == {"text": "one"}


async def test_a_service_of_ours_is_settled_although_the_api_fills_in_a_lot() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        pod = {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"cpu": "0.5"}}}]}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
        web = obj(Service, "s", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})
        app = obj(Deployment, "d", spec={"selector": {"matchLabels": {"a": "b"}}, "template": template})
        return Desired([web, app])

    async with running(controller(reconcile, owns=[Service, Deployment])) as bench:
        await bench.greet()
        before = len(bench.server.journal.writes())
        await bench.manager.stop()
        again = controller(reconcile, owns=[Service, Deployment])
        async with Manager(bench.server.client(), [again], clock=clock) as manager:
            await manager.idle()
        assert len(bench.server.journal.writes()) == before


async def test_a_wrong_type_in_the_resource_is_a_condition_not_a_crash() -> None:
    loose = Definition("demo.dev", "Greeting", "greetings", [Version("v1", Greeting)])
    async with running(controller(lambda r, w: Desired([config()]), for_=loose)) as bench:
        wide = definition_of(GREETING)
        wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }
        await bench.user.patch(CustomResourceDefinition, "", "greetings.demo.dev", {"spec": wide["spec"]})
        await asyncio.sleep(1)
        await bench.greet(size="many")
        said = await bench.condition("Ready")
        assert said["reason"] == "InvalidResource"
        assert "$.spec.size" in said["message"]
        with pytest.raises(NotFound):
            await bench.user.get(ConfigMap, "shop", "c")


async def test_children_are_not_made_again_for_an_owner_that_has_gone_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watch is late: we still see it, while the garbage collector takes its children."""
    asked: list[str] = []
    async with running(controller(lambda r, w: Desired([config(text="a")]))) as bench:
        await bench.greet()
        (cache,) = [cache for cache in bench.manager.caches if cache.selection.kind == GREETING.kind]
        monkeypatch.setattr(cache, "remove", lambda entry: asked.append("late"))
        await bench.user.delete(GREETING.kind, "shop", "hi")
        await asyncio.sleep(60.0)
        assert asked == ["late"]
        assert await bench.user.find(ConfigMap, "shop", "c") is None
        made = [
            entry for entry in bench.server.journal.entries(resource="configmaps", name="c") if entry["status"] == 201
        ]
        assert len(made) == 1


async def test_each_pass_says_what_woke_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "modelyard.runtime.acting.engine")
    async with running(controller(lambda greeting, world: Desired([config(text="hi")]))) as bench:
        await bench.greet()
        await bench.user.patch(ConfigMap, "shop", "c", {"data": {"text": "changed"}})
        await bench.manager.idle()
        recent = [note.why for note in bench.manager.engine("greetings").recent]
    assert recent[0] == "Greeting shop/hi changed"
    assert "ConfigMap shop/c changed" in recent
    assert "woken by ConfigMap shop/c changed" in caplog.messages


class SomeoneElseWasFaster(Around):
    """While kube-apiserver marks an object as being deleted, someone else ends it: it answers with the marked object, without a version."""

    async def pass_on(self, sent: Sent) -> Response:
        response = await super().pass_on(sent)
        if sent.method != "DELETE":
            return response
        metadata = {"name": "c", "namespace": "shop", "uid": json.loads(sent.body)["preconditions"]["uid"]}
        marked = {"metadata": metadata | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        return Answer(200, json.dumps(marked).encode())


async def test_an_object_that_someone_else_ended_during_our_deletion_is_made_again() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([config()] if resource.spec.size else [])

    async with running(controller(reconcile), around=SomeoneElseWasFaster) as bench:
        await bench.greet(size=1)
        await bench.greet(size=0)
        with pytest.raises(NotFound):
            await bench.user.get(ConfigMap, "shop", "c")
        await bench.greet(size=1)
        assert await bench.user.get(ConfigMap, "shop", "c")
