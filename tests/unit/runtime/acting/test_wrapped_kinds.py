"""Children of kinds that only the resources name: a Bundle holds templates, and whatever they are is made, followed and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from modelyard.kube.builtin import ConfigMap, CustomResourceDefinition, Deployment, Namespace, Pod
from modelyard.kube.crd import Definition, Model, Resource, Version, definition_of
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import is_deleting
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.caching.watching import Timing
from modelyard.runtime.declaring.controller import Controller, Permission, Wraps
from modelyard.runtime.declaring.desired import Child, Deletion, Desired, FollowUp, Live, Policy
from modelyard.runtime.declaring.rbac import grants
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.testing import bench
from tests.unit.runtime.greetings import clock, crd, obj

pytestmark = pytest.mark.looptime

WIDGET = Kind("demo.dev", "v1", "Widget", "widgets")
LINGER = 30.0


class BundleSpec(Model):
    templates: list[dict[str, Any]] = msgspec.field(default_factory=list)


class BundleStatus(Model):
    said: list[str] = msgspec.field(default_factory=list)
    seen: list[str] = msgspec.field(default_factory=list)


class Bundle(Resource):
    spec: BundleSpec = msgspec.field(default_factory=BundleSpec)
    status: BundleStatus = msgspec.field(default_factory=BundleStatus)


BUNDLE = Definition("demo.dev", "Bundle", "bundles", [Version("v1", Bundle)])
PERMISSIONS = [Permission(("apps",), ("deployments",), ("get", "list", "watch", "create", "delete"))]


def _names(bundle: Object) -> Iterator[tuple[str, str]]:
    """Those in its status may be left from before."""
    for template in bundle["spec"].get("templates") or ():
        yield template["apiVersion"], template["kind"]
    for name in (bundle.get("status") or {}).get("seen") or ():
        api_version, _, kind = name.rpartition(" ")
        yield api_version, kind


def bundles(**settings: Any) -> Controller:
    made = Controller("bundles", BUNDLE, wraps=Wraps(_names, permissions=PERMISSIONS), **settings)

    @made.reconcile
    async def reconcile(bundle: Bundle, world: World) -> Desired:
        children = [
            Child(template, policy=Policy.CREATE, slot=str(index))
            for index, template in enumerate(bundle.spec.templates)
        ]

        def follow(live: Live) -> FollowUp:
            said = [failure.message for failure in live.failures]
            return FollowUp({"said": said, "seen": sorted({" ".join(name) for name in _names(bundle.to_dict())})})

        return Desired(children, follow=follow)

    return made


def template(kind: Kind, name: str = "w", **fields: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **fields}


def bundle(*templates: Object, name: str = "b") -> Object:
    return obj(BUNDLE.kind, name, spec={"templates": list(templates)})


# In memory


def test_a_child_of_any_kind_is_created_once_and_not_changed_again() -> None:
    desk = bench(bundles(), bundle(template(ConfigMap, data={"a": "1"})))
    desk.settle()
    desk.edit(ConfigMap, "shop", "w", lambda config: config.update(data={"a": "2"}))
    outcome = desk.settle()
    assert outcome.writes == ()
    assert desk.cluster.objects[ConfigMap, Key("shop", "w")]["data"] == {"a": "2"}


def test_a_generated_name_is_the_same_in_every_pass() -> None:
    asked = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "run-"}}
    desk = bench(bundles(), bundle(asked, asked))
    desk.settle()
    names = sorted(key.name for kind, key in desk.cluster.objects if kind == ConfigMap)
    assert len(names) == 2
    assert all(name.startswith("run-") and len(name) == len("run-") + 5 for name in names)
    assert desk.settle().writes == ()


def test_a_namesake_of_someone_else_is_left_alone() -> None:
    desk = bench(bundles(), bundle(template(ConfigMap)), [obj(ConfigMap, "w", data={"mine": "yes"})])
    outcome = desk.run()
    assert [failure.reason for failure in outcome.failures] == ["Foreign"]
    assert desk.cluster.objects[ConfigMap, Key("shop", "w")]["data"] == {"mine": "yes"}


def test_the_role_allows_what_is_declared_and_no_more() -> None:
    rules = grants([bundles()]).rules("")
    assert {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": list(PERMISSIONS[0].verbs)} in rules
    assert not [rule for rule in rules if "*" in (*rule["resources"], *rule["verbs"])]


# On an API server


class Plane:
    def __init__(self, server: ApiServer, manager: Manager) -> None:
        self.server = server
        self.manager = manager
        self.user = server.client(agent="user")

    async def have(self, resource: Object) -> None:
        await self.user.apply(BUNDLE.kind, resource, field_manager="user", force=True)
        await self.manager.idle()

    async def said(self) -> list[str]:
        found = await self.user.get(BUNDLE.kind, "shop", "b")
        return list((found.get("status") or {}).get("said") or [])

    @property
    def followed(self) -> set[str]:
        return {cache.selection.kind.kind for cache in self.manager.caches if cache.started}


class Running:
    """A manager with the bundles on the embedded server."""

    def __init__(self, *controllers: Controller) -> None:
        self._controllers = controllers or (bundles(),)

    async def __aenter__(self) -> Plane:
        self._server = await ApiServer(clock=clock).__aenter__()
        admin = self._server.client(agent="user")
        await admin.create(CustomResourceDefinition, definition_of(BUNDLE))
        await admin.create(Namespace, {"metadata": {"name": "shop"}})
        await self._server.settle()
        client = self._server.client(agent="plane")
        self._manager = Manager(client, self._controllers, clock=clock, timing=Timing(linger=LINGER))
        await self._manager.__aenter__()
        await self._manager.idle()
        return Plane(self._server, self._manager)

    async def __aexit__(self, *error: Any) -> None:
        await self._manager.__aexit__(*error)
        await self._server.__aexit__(*error)


async def test_a_watch_comes_with_its_first_user_and_goes_with_its_last() -> None:
    async with Running() as plane:
        assert "ConfigMap" not in plane.followed
        await plane.have(bundle(template(ConfigMap)))
        await plane.have(bundle(template(ConfigMap, "other"), name="c"))
        assert "ConfigMap" in plane.followed
        await plane.user.delete(BUNDLE.kind, "shop", "b")
        await asyncio.sleep(2 * LINGER)
        assert "ConfigMap" in plane.followed
        await plane.user.delete(BUNDLE.kind, "shop", "c")
        await asyncio.sleep(2 * LINGER)
        assert "ConfigMap" not in plane.followed
        before = [entry for entry in plane.server.journal if "configmaps" in str(entry.get("resource"))]
        await asyncio.sleep(600.0)
        after = [entry for entry in plane.server.journal if "configmaps" in str(entry.get("resource"))]
        assert len(after) == len(before), after[len(before) :]


async def test_a_child_that_someone_deletes_wakes_its_owner() -> None:
    async with Running() as plane:
        await plane.have(bundle(template(ConfigMap)))
        first = await plane.user.get(ConfigMap, "shop", "w")
        await plane.user.delete(ConfigMap, "shop", "w")
        await plane.manager.idle()
        again = await plane.user.get(ConfigMap, "shop", "w")
        assert again["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_child_is_pruned_when_its_template_goes_also_the_last_of_its_kind() -> None:
    async with Running() as plane:
        await plane.have(bundle(template(ConfigMap), template(ConfigMap, "x")))
        await plane.have(bundle(template(ConfigMap, "x")))
        assert await plane.user.find(ConfigMap, "shop", "w") is None
        await plane.have(bundle())
        assert await plane.user.find(ConfigMap, "shop", "x") is None


async def test_a_kind_that_is_not_there_is_said_and_comes_to_life_with_its_definition() -> None:
    async with Running() as plane:
        await plane.have(bundle(template(WIDGET, spec={"a": 1})))
        assert await plane.said() == ["the API does not serve demo.dev/v1 Widget"]
        await plane.user.create(CustomResourceDefinition, crd(WIDGET))
        await asyncio.sleep(10.0)
        await plane.manager.idle()
        assert (await plane.user.get(WIDGET, "shop", "w"))["spec"] == {"a": 1}
        assert await plane.said() == []
        assert "Widget" in plane.followed
        await plane.user.delete(CustomResourceDefinition, "", WIDGET.resource)
        await asyncio.sleep(10.0)
        await plane.manager.idle()
        assert "Widget" not in plane.followed
        assert await plane.said() == ["the API does not serve demo.dev/v1 Widget"]


async def test_a_finalizer_stays_until_the_children_are_gone() -> None:
    made = bundles(finalizer="demo.dev/bundle", finalizer_when=lambda resource: bool(resource.spec.templates))

    @made.cleanup
    async def cleanup(resource: Bundle, world: World) -> Desired:
        found = [await world.find(ConfigMap, "shop", each["metadata"]["name"]) for each in resource.spec.templates]
        there = [obj for obj in found if obj is not None]
        asked = [Deletion(ConfigMap, Key("shop", obj["metadata"]["name"])) for obj in there if not is_deleting(obj)]
        return Desired(delete=asked, unfinished=bool(there), prune=False)

    async with Running(made) as plane:
        await plane.have(bundle(name="empty"))
        assert "finalizers" not in (await plane.user.get(BUNDLE.kind, "shop", "empty"))["metadata"]
        await plane.have(bundle(template(ConfigMap)))
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await plane.user.patch(ConfigMap, "shop", "w", hold)
        await plane.user.delete(BUNDLE.kind, "shop", "b")
        await plane.manager.idle()
        assert is_deleting(await plane.user.get(ConfigMap, "shop", "w"))
        assert is_deleting(await plane.user.get(BUNDLE.kind, "shop", "b"))
        await plane.user.patch(ConfigMap, "shop", "w", {"metadata": {"finalizers": None}})
        await plane.manager.idle()
        assert await plane.user.find(BUNDLE.kind, "shop", "b") is None


async def test_an_object_is_deleted_with_the_grace_and_propagation_that_are_asked_for() -> None:
    made = Controller("bundles", BUNDLE, wraps=Wraps(_names))

    @made.reconcile
    async def reconcile(resource: Bundle, world: World) -> Desired:
        found = await world.find(Pod, "shop", "stuck")
        asked = [] if found is None else [Deletion(Pod, Key("shop", "stuck"), uid=found["metadata"]["uid"], grace=0)]
        return Desired(delete=[*asked, Deletion(Deployment, Key("shop", "d"), propagation="Orphan")], prune=False)

    async with Running(made) as plane:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        await plane.user.create(Pod, obj(Pod, "stuck", spec=spec))
        await plane.user.delete(Pod, "shop", "stuck", grace=300)
        assert is_deleting(await plane.user.get(Pod, "shop", "stuck"))
        labels = {"a": "b"}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        foreign = obj(Deployment, "d", spec={"selector": {"matchLabels": labels}, "template": pod})
        await plane.user.create(Deployment, foreign)
        await plane.have(bundle())
        assert await plane.user.find(Pod, "shop", "stuck") is None
        assert await plane.user.find(Deployment, "shop", "d") is not None, "it is not ours"
