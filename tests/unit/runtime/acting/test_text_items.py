"""Items of ours in texts of other people's objects: a URL in an environment variable of someone's Deployment."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.acting import text_items
from modelyard.runtime.acting.ownership import Owner
from modelyard.runtime.declaring.desired import Child, Desired, Edit, Ownership, TextItem
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.manager import Manager
from tests.unit.runtime.greetings import GREETING, Greeting, clock, controller, obj, running

pytestmark = pytest.mark.looptime

VARIABLE = "MM_PAYLOAD_PROCESSORS"


def serving(*containers: Object) -> Object:
    labels = {"app": "mesh"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}}
    return obj(Deployment, "mesh", spec={"selector": {"matchLabels": labels}, "template": pod})


def container(name: str, **env: str) -> Object:
    variables = [{"name": each, "value": value} for each, value in env.items()]
    return {"name": name, "image": "img"} | ({"env": variables} if env else {})


def path(name: str) -> tuple[Any, ...]:
    return ("spec", "template", "spec", "containers", ("name", name), "env", ("name", VARIABLE), "value")


def payloads(*containers: str) -> Any:
    """Each Greeting sends the payloads of the containers to its text, and mounts nothing while it has none."""

    def reconcile(resource: Greeting, world: World) -> Desired:
        items = [TextItem(path(name), resource.spec.text) for name in containers]
        child = Child(obj(Deployment, "mesh"), ownership=Ownership.CONTRIBUTED, items=items)
        return Desired([child] if resource.spec.text else [])

    return controller(reconcile, owns=[Deployment])


def env(deployment: Object) -> dict[str, dict[str, str] | None]:
    spec = deployment["spec"]["template"]["spec"]
    return {
        each["name"]: {v["name"]: v.get("value", "") for v in each["env"]} if "env" in each else None
        for each in spec["containers"]
    }


def notes(deployment: Object) -> list[str]:
    return [name for name in deployment["metadata"].get("annotations") or () if name.startswith(text_items.PREFIX)]


async def test_several_owners_share_one_text_with_a_stranger_and_each_takes_only_its_own_item_back() -> None:
    async with running(payloads("mm", "rest")) as bench:
        before = serving(container("mm", **{VARIABLE: "http://x", "OTHER": "1"}), container("rest"))
        await bench.user.create(Deployment, before)
        await bench.greet("a", text="https://a")
        await bench.greet("b", text="https://b")
        found = await bench.user.get(Deployment, "shop", "mesh")
        assert env(found) == {
            "mm": {VARIABLE: "http://x https://a https://b", "OTHER": "1"},
            "rest": {VARIABLE: "https://a https://b"},
        }
        await bench.greet("a", text="")
        found = await bench.user.get(Deployment, "shop", "mesh")
        assert env(found) == {
            "mm": {VARIABLE: "http://x https://b", "OTHER": "1"},
            "rest": {VARIABLE: "https://b"},
        }
        await bench.greet("b", text="")
        found = await bench.user.get(Deployment, "shop", "mesh")
        assert env(found) == {"mm": {VARIABLE: "http://x", "OTHER": "1"}, "rest": None}
        assert notes(found) == []


async def test_an_item_that_changes_replaces_the_old_one_and_a_settled_object_is_not_written() -> None:
    async with running(payloads("mm")) as bench:
        await bench.user.create(Deployment, serving(container("mm", **{VARIABLE: "http://x"})))
        await bench.greet(text="https://old")
        await bench.greet(text="https://new")
        found = await bench.user.get(Deployment, "shop", "mesh")
        assert env(found) == {"mm": {VARIABLE: "http://x https://new"}}
        await bench.manager.stop()
        async with Manager(bench.server.client(agent="plane"), [payloads("mm")], clock=clock) as again:
            await again.idle()
            after = await bench.user.get(Deployment, "shop", "mesh")
            assert after["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
            await bench.user.apply(
                GREETING.kind, obj(GREETING.kind, "hi", spec={"text": ""}), field_manager="user", force=True
            )
            await again.idle()
        assert env(await bench.user.get(Deployment, "shop", "mesh")) == {"mm": {VARIABLE: "http://x"}}


async def test_an_item_that_the_owner_of_the_object_drops_comes_back() -> None:
    async with running(payloads("mm")) as bench:
        await bench.user.create(Deployment, serving(container("mm", **{VARIABLE: "http://x"})))
        await bench.greet(text="https://a")
        stripped = {"spec": serving(container("mm", **{VARIABLE: "http://y"}))["spec"]}
        await bench.user.patch(Deployment, "shop", "mesh", stripped)
        await bench.manager.idle()
        assert env(await bench.user.get(Deployment, "shop", "mesh")) == {"mm": {VARIABLE: "http://y https://a"}}


async def test_a_controller_of_ours_keeps_the_items_that_others_put_into_its_child() -> None:
    """Who makes the Deployment, and who puts an item into it, are both of this plane: they do not fight."""

    def mesh(resource: Greeting, world: World) -> Desired:
        if resource.name != "mesh":
            return Desired()
        return Desired([serving(container("mm", **{VARIABLE: resource.spec.text, "SIZE": str(resource.spec.size)}))])

    def user(resource: Greeting, world: World) -> Desired:
        if resource.name != "user":
            return Desired()
        item = TextItem(path("mm"), resource.spec.text)
        wanted = Child(obj(Deployment, "mesh"), ownership=Ownership.CONTRIBUTED, items=[item])
        return Desired([wanted] if resource.spec.size else [])

    makes = controller(mesh, name="mesh", owns=[Deployment])
    async with running(makes, controller(user, name="user", owns=[Deployment])) as bench:
        await bench.greet("mesh", text="http://x")
        await bench.greet("user", text="https://a")
        found = await bench.user.get(Deployment, "shop", "mesh")
        assert env(found)["mm"] == {VARIABLE: "http://x https://a", "SIZE": "1"}
        passes = bench.manager.engine("mesh").passes
        await asyncio.sleep(600)
        settled = await bench.user.get(Deployment, "shop", "mesh")
        assert settled["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
        assert bench.manager.engine("mesh").passes == passes
        await bench.greet("mesh", text="http://y", size=2)
        found = await bench.user.get(Deployment, "shop", "mesh")
        assert env(found)["mm"] == {VARIABLE: "http://y https://a", "SIZE": "2"}
        await bench.greet("user", text="https://a", size=0)
        found = await bench.user.get(Deployment, "shop", "mesh")
        assert env(found)["mm"] == {VARIABLE: "http://y", "SIZE": "2"}


async def test_a_container_that_is_missing_is_not_made_but_told() -> None:
    async with running(payloads("mm")) as bench:
        await bench.user.create(Deployment, serving(container("other")))
        await bench.greet(text="https://a")
        told = await bench.condition("Reconciled")
        assert "there is no spec.template.spec.containers[name=mm]" in told["message"]
        assert env(await bench.user.get(Deployment, "shop", "mesh")) == {"other": None}


async def test_an_environment_variable_of_ours_stands_in_someones_container_and_is_taken_back() -> None:
    """A whole entry of a list needs no item: it is a field of ours, like any other."""

    def reconcile(resource: Greeting, world: World) -> Desired:
        variable = {"name": "OURS", "value": resource.spec.text}
        pod = {"spec": {"containers": [{"name": "mm", "env": [variable]}]}}
        share = obj(Deployment, "mesh", spec={"template": pod})
        return Desired([Child(share, ownership=Ownership.CONTRIBUTED)] if resource.spec.size else [])

    async with running(controller(reconcile, owns=[Deployment])) as bench:
        await bench.user.create(Deployment, serving(container("mm", OTHER="1")))
        await bench.greet(text="x")
        assert env(await bench.user.get(Deployment, "shop", "mesh")) == {"mm": {"OTHER": "1", "OURS": "x"}}
        await bench.greet(text="x", size=0)
        assert env(await bench.user.get(Deployment, "shop", "mesh")) == {"mm": {"OTHER": "1"}}


async def test_a_json_patch_edits_someones_object_once() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        theirs = world.get(ConfigMap, "shop", "theirs")
        if theirs is None or "old" not in theirs["data"]:
            return Desired()
        operations = [
            {"op": "test", "path": "/data/old", "value": "1"},
            {"op": "move", "from": "/data/old", "path": "/data/new"},
        ]
        version = theirs["metadata"]["resourceVersion"]
        return Desired(edits=[Edit(ConfigMap, Key("shop", "theirs"), version, operations)])

    async with running(controller(reconcile)) as bench:
        await bench.user.create(ConfigMap, obj(ConfigMap, "theirs", data={"old": "1", "keep": "2"}))
        await bench.greet()
        assert (await bench.user.get(ConfigMap, "shop", "theirs"))["data"] == {"new": "1", "keep": "2"}


def test_what_was_there_before_us_stays_when_we_go() -> None:
    """Someone put the same item in by hand, and another has an empty variable: both stay as they were."""
    before = serving(container("mm", **{VARIABLE: "https://a http://x"}), container("rest", **{VARIABLE: ""}))
    items = [TextItem(path("mm"), "https://a"), TextItem(path("rest"), "https://a")]
    note = text_items.note_of(before, items, [])
    during = text_items.with_items(before, items)
    name = text_items.annotation(Owner("c", Key("shop", "hi")))
    during["metadata"]["annotations"] = {name: note}
    known = text_items.noted(during, name)
    after = text_items.without_items(during, known)
    del after["metadata"]["annotations"]
    assert env(during)["rest"] == {VARIABLE: "https://a"}
    assert after == before


def test_a_text_in_a_plain_mapping_is_made_and_goes_with_its_last_item() -> None:
    before = obj(ConfigMap, "c", data={"other": "1"})
    item = TextItem(("data", "urls"), "a", separator=",")
    known = [text_items.Noted(item.path, "a", ",", made=True)]
    during = text_items.with_items(copy.deepcopy(before), [item])
    assert during["data"]["urls"] == "a"
    assert text_items.without_items(during, known) == before
