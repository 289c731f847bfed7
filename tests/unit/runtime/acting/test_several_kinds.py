"""One controller for several kinds of resources, ours and others', each under a key that says its kind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, CustomResourceDefinition, Secret
from modelyard.kube.kinds import Key, Kind, Object, TypedKey
from modelyard.kube.objects import name_of
from modelyard.runtime.acting.plan import plan
from modelyard.runtime.declaring.controller import AnyOf, Controller, Owns, Permission, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Ownership
from modelyard.runtime.declaring.rbac import grants
from modelyard.runtime.declaring.world import World
from modelyard.runtime.testing import run
from tests.unit.runtime.greetings import GREETING, Greeting, config, crd, obj, running

pytestmark = pytest.mark.looptime

WIDGET = Kind("demo.dev", "v1", "Widget", "widgets")


def widgets() -> Object:
    definition = crd(WIDGET)
    definition["spec"]["versions"][0]["subresources"] = {"status": {}}
    return definition


class Mesh:
    """What both kinds are registered with."""

    def __init__(self) -> None:
        self.models: set[str] = set()
        self.passes: list[str] = []


def models(mesh: Mesh) -> Controller:
    def users(secret: Object, reader: Reader) -> list[Key]:
        return [TypedKey(kind, "shop", name_of(secret)) for kind in (GREETING.kind, WIDGET)]

    made = Controller(
        "models",
        AnyOf((GREETING, WIDGET)),
        owns=[Owns(ConfigMap)],
        watches=[Watch(Secret, to=users)],
        optional=True,
        permissions=[Permission((WIDGET.group,), ("widgets/status",), ("get", "patch"))],
    )

    @made.reconcile
    def reconcile(resource: Greeting | Object, world: World) -> Desired:
        kind = "Greeting" if isinstance(resource, Greeting) else "Widget"
        name = resource.name if isinstance(resource, Greeting) else name_of(resource)
        mesh.models.add(f"{kind} {name}")
        mesh.passes.append(f"{kind} {name}")
        child = config(f"{kind.lower()}-{name}")
        tracked = Child(obj(ConfigMap, f"tracked-{kind.lower()}-{name}"), ownership=Ownership.TRACKED)
        status: Any = {"phase": "Loaded"} if kind == "Widget" else {}
        return Desired([child, tracked], status=status)

    @made.gone
    def gone(key: Key, world: World) -> Desired:
        assert isinstance(key, TypedKey)
        mesh.models.discard(f"{key.kind.kind} {key.name}")
        return Desired()

    return made


async def test_resources_of_two_kinds_and_one_name_are_worked_on_apart() -> None:
    mesh = Mesh()
    async with running(models(mesh)) as bench:
        await bench.greet("same")
        assert mesh.models == {"Greeting same"}
        await bench.user.create(CustomResourceDefinition, widgets())
        await asyncio.sleep(120)
        await bench.user.create(WIDGET, obj(WIDGET, "same"))
        await bench.manager.idle()
        assert mesh.models == {"Greeting same", "Widget same"}
        assert (await bench.user.get(WIDGET, "shop", "same"))["status"] == {"phase": "Loaded"}
        for name in ("greeting-same", "widget-same", "tracked-greeting-same", "tracked-widget-same"):
            assert await bench.user.find(ConfigMap, "shop", name) is not None
        await bench.user.delete(WIDGET, "shop", "same")
        await bench.manager.idle()
        assert mesh.models == {"Greeting same"}
        assert await bench.user.find(ConfigMap, "shop", "tracked-widget-same") is None
        assert await bench.user.find(ConfigMap, "shop", "tracked-greeting-same") is not None


async def test_a_child_and_a_watched_object_wake_the_resource_of_the_right_kind() -> None:
    mesh = Mesh()
    async with running(models(mesh)) as bench:
        await bench.user.create(CustomResourceDefinition, widgets())
        await asyncio.sleep(120)
        await bench.greet("same")
        await bench.user.create(WIDGET, obj(WIDGET, "same"))
        await bench.manager.idle()
        mesh.passes.clear()
        await bench.user.delete(ConfigMap, "shop", "widget-same")
        await bench.manager.idle()
        assert set(mesh.passes) == {"Widget same"}
        assert await bench.user.find(ConfigMap, "shop", "widget-same") is not None
        mesh.passes.clear()
        await bench.user.create(Secret, obj(Secret, "same"))
        await bench.manager.idle()
        assert sorted(mesh.passes) == ["Greeting same", "Widget same"]


async def test_a_plan_and_a_test_without_a_server_work_on_either_kind() -> None:
    made = models(Mesh())
    widget = obj(WIDGET, "w")
    assert run(made, widget).children.names(ConfigMap) == ["tracked-widget-w", "widget-w"]
    async with running(made) as bench:
        await bench.user.create(CustomResourceDefinition, widgets())
        await asyncio.sleep(120)
        planned = await plan(bench.user, models(Mesh()), widget)
        assert sorted(change.key.name for change in planned.changes) == ["tracked-widget-w", "widget-w"]


def test_the_role_reads_both_kinds_and_writes_the_status_of_ours() -> None:
    rules = grants([models(Mesh())]).rules("")
    verbs = {
        resource: set(rule["verbs"])
        for rule in rules
        if rule["apiGroups"] == [WIDGET.group]
        for resource in rule["resources"]
    }
    assert "watch" in verbs["greetings"] & verbs["widgets"]
    assert "patch" in verbs["greetings/status"]


def test_a_key_without_its_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="needs a TypedKey of Greeting, Widget"):
        models(Mesh()).face(Key("shop", "same"))


def test_keys_of_two_kinds_differ_and_unpack_alike() -> None:
    one, other = TypedKey(GREETING.kind, "shop", "a"), TypedKey(WIDGET, "shop", "a")
    assert one != other
    assert one != Key("shop", "a")
    assert len({one, other, TypedKey(WIDGET, "shop", "a"), Key("shop", "a")}) == 3
    assert (*one,) == (*other,) == ("shop", "a")
    assert str(other) == "Widget shop/a"
