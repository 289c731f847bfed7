"""The pure test kit: one pass of the engine's own code over a cluster in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from modelyard.kube.builtin import (
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    Deployment,
    Job,
    PersistentVolumeClaim,
    Route,
    Secret,
    Service,
)
from modelyard.kube.conditions import condition
from modelyard.kube.crd import Definition, Model, Resource, Version
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.acting.cluster import UndeclaredKind
from modelyard.runtime.acting.passes import InvalidResource
from modelyard.runtime.declaring.controller import Controller, Fixed, Owns, Watch
from modelyard.runtime.declaring.desired import Child, Desired, EventNote, Hold, Live, Ownership, Policy, Stage
from modelyard.runtime.declaring.world import World
from modelyard.runtime.testing import FakeWorld, bench, make_ready, run, settle


class GreetingSpec(Model):
    text: str = "hello"
    replicas: int = 1


class Greeting(Resource):
    spec: GreetingSpec = msgspec.field(default_factory=GreetingSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


GREETING = Definition("demo.dev", "Greeting", "greetings", [Version("v1", Greeting)])


def greeting(name: str = "hi", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def obj(kind: str, name: str, api: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}} | fields


def deployment(name: str = "hi", **spec: Any) -> Object:
    return obj("Deployment", name, "apps/v1", spec=spec)


def controller(reconcile: Any, **settings: Any) -> Controller:
    settings.setdefault("owns", [Deployment, Service, ConfigMap, Secret, Owns(Route, optional=True)])
    made = Controller("greetings", GREETING, **settings)
    made.reconcile(reconcile)
    return made


def test_children_come_out_with_owner_references_in_the_owners_namespace() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([deployment(replicas=resource.spec.replicas)])

    outcome = run(controller(reconcile), greeting(replicas=3))
    child = outcome.children[Deployment, "hi"]
    assert child["spec"] == {"replicas": 3}
    assert child["metadata"]["namespace"] == "shop"
    assert child["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "demo.dev/v1", "kind": "Greeting", "name": "hi", "uid": "uid-greeting-shop-hi",
            "controller": True, "blockOwnerDeletion": True,
        }
    ]  # fmt: skip


def test_status_is_computed_after_the_apply_from_live_objects() -> None:
    def ready(resource: Greeting, live: Live) -> Object:
        found = live.get(Deployment, "shop", "hi")
        available = (found or {}).get("status", {}).get("availableReplicas", 0)
        return {"available": available, "conditions": [condition("Ready", available == 2, "Counted")]}

    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([deployment(replicas=2)], status=ready)

    made = controller(reconcile)
    assert run(made, greeting()).condition("Ready")["status"] == "False"
    settled = settle(made, greeting(), react=make_ready)
    assert settled.status["available"] == 2
    assert settled.conditions["Ready"]["lastTransitionTime"] == "2026-01-01T12:00:00Z"


def test_a_second_pass_writes_nothing() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([deployment(replicas=2)], status={"conditions": [condition("Ready", True, "Done")]})

    story = bench(controller(reconcile), greeting())
    assert story.run().writes == ("apply Deployment shop/hi", "patch status Greeting shop/hi")
    assert story.run().writes == ()


def test_what_is_no_longer_desired_is_pruned_and_a_dropped_field_is_removed() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        if resource.spec.text == "hello":
            return Desired([deployment(replicas=1, paused=True), obj("Service", "hi")])
        return Desired([deployment(replicas=1)])

    story = bench(controller(reconcile), greeting())
    story.run()
    story.edit_resource(lambda r: r["spec"].update(text="bye"))
    outcome = story.run()
    assert outcome.deleted == ((Service, Key("shop", "hi")),)
    assert outcome.children[Deployment, "hi"]["spec"] == {"replicas": 1}


def test_hold_leaves_children_alone_and_says_why_in_the_ready_condition() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired | Hold:
        if world.get(Secret, "shop", "key") is None:
            return Hold("SecretMissing", "secret key not found")
        return Desired([obj("Service", "hi")])

    secret = obj("Secret", "key") | {"metadata": {"name": "key", "namespace": "shop"}}
    story = bench(controller(reconcile), greeting(), [secret])
    story.run()
    story.cluster.remove(Secret, "shop", "key")
    outcome = story.run()
    assert outcome.hold is not None
    assert outcome.deleted == ()
    assert outcome.condition("Ready")["reason"] == "SecretMissing"


def test_a_foreign_namesake_is_reported_and_left_alone() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([obj("ConfigMap", "hi", data={"a": "ours"})])

    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "hi", "namespace": "shop"},
        "data": {"a": "theirs"},
    }
    outcome = run(controller(reconcile), greeting(), [theirs])
    assert [f.reason for f in outcome.failures] == ["Foreign"]
    assert outcome.condition("Reconciled")["reason"] == "Foreign"
    assert outcome.writes == ("patch status Greeting shop/hi",)


def test_generated_fields_are_made_once_and_survive_later_applies() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        secret = obj("Secret", "key", stringData={"text": resource.spec.text})
        return Desired([Child(secret, generate=lambda: {"stringData": {"password": world.token(12)}})])

    story = bench(controller(reconcile), greeting())
    password = story.run().children[Secret, "key"]["data"]["password"]
    story.edit_resource(lambda r: r["spec"].update(text="bye"))
    data = story.run().children[Secret, "key"]["data"]
    assert data == {"password": password, "text": "Ynll"}


def test_a_once_child_is_neither_changed_nor_pruned() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        claim = obj("PersistentVolumeClaim", "data", spec={"volumeName": resource.spec.text})
        return Desired([Child(claim, policy=Policy.ONCE)] if resource.spec.replicas else [])

    story = bench(controller(reconcile, owns=[PersistentVolumeClaim]), greeting(text="1Gi"))
    story.run()
    story.edit_resource(lambda r: r["spec"].update(text="2Gi"))
    assert story.run().children[PersistentVolumeClaim, "data"]["spec"] == {"volumeName": "1Gi"}
    story.edit_resource(lambda r: r["spec"].update(replicas=0))
    assert story.run().deleted == ()


def test_later_stages_wait_until_the_first_is_ready() -> None:
    def migrated(live: Live) -> bool:
        return bool((live.get(Job, "shop", "migrate") or {}).get("status", {}).get("succeeded"))

    def reconcile(resource: Greeting, world: World) -> Desired:
        job = obj("Job", "migrate", "batch/v1")
        return Desired(stages=[Stage([job], ready=migrated), Stage([deployment()])])

    story = bench(controller(reconcile, owns=[Deployment, Job]), greeting())
    first = story.run()
    assert first.live.waiting
    assert first.children.names() == ["Job migrate"]
    story.edit(Job, "shop", "migrate", lambda j: j.update(status={"succeeded": 1}))
    assert story.run().children.names() == ["Deployment hi", "Job migrate"]


def test_cluster_scoped_children_are_tracked_by_labels_and_removed_by_the_finalizer() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([obj("ClusterRoleBinding", "shop-hi", "rbac.authorization.k8s.io/v1"), deployment()])

    made = controller(reconcile, owns=[ClusterRoleBinding, Deployment], finalizer="demo.dev/end")
    story = bench(made, greeting())
    binding = story.run().children[ClusterRoleBinding, "shop-hi"]
    assert binding["metadata"]["labels"]["modelyard.dev/owner-kind"] == "Greeting.demo.dev"
    assert story.resource is not None
    assert story.resource["metadata"]["finalizers"] == ["demo.dev/end"]
    story.delete_resource()
    outcome = story.run()
    assert outcome.deleted == ((ClusterRoleBinding, Key("", "shop-hi")),)
    assert outcome.finalized
    assert outcome.resource is None


def test_a_shared_child_goes_with_its_last_owner() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        role = obj("ClusterRole", "greeter", "rbac.authorization.k8s.io/v1", rules=[])
        return Desired([Child(role, ownership=Ownership.SHARED)])

    made = controller(reconcile, owns=[ClusterRole], finalizer="demo.dev/end")
    one = bench(made, greeting("one"))
    one.run()
    one.cluster.put(
        one.cluster.objects[GREETING.kind, Key("shop", "one")] | {"metadata": {"name": "two", "namespace": "shop"}}
    )
    two = type(one)(made, one.cluster, Key("shop", "two"))
    two.run()
    one.delete_resource()
    assert one.run().deleted == ()
    assert (ClusterRole, Key("", "greeter")) in one.cluster.objects
    two.delete_resource()
    two.run()
    assert (ClusterRole, Key("", "greeter")) not in one.cluster.objects


def test_a_contribution_is_taken_back_when_no_longer_desired() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        target = obj("Deployment", "theirs", "apps/v1") | {"spec": {"paused": True}}
        wanted = [Child(target, ownership=Ownership.CONTRIBUTED)] if resource.spec.replicas else []
        return Desired(wanted)

    theirs = deployment("theirs", replicas=5)
    theirs["metadata"]["namespace"] = "shop"
    story = bench(controller(reconcile), greeting(), [theirs])
    assert story.run().children[Deployment, "theirs"]["spec"] == {"replicas": 5, "paused": True}
    story.edit_resource(lambda r: r["spec"].update(replicas=0))
    story.run()
    left = story.cluster.get(Deployment, Key("shop", "theirs"))
    assert left is not None
    assert left["spec"] == {"replicas": 5}
    assert left["metadata"].get("ownerReferences") is None


def test_pause_changes_nothing_and_shows_in_a_condition() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([deployment()], status={"phase": "Up"})

    resource = greeting()
    resource["metadata"]["annotations"] = {"modelyard.dev/pause": "true"}
    story = bench(controller(reconcile), resource)
    paused = story.run()
    assert paused.condition("Paused")["status"] == "True"
    assert not paused.children
    story.edit_resource(lambda r: r["metadata"].pop("annotations"))
    resumed = story.run()
    assert resumed.status == {"phase": "Up"}
    assert resumed.children.names() == ["Deployment hi"]


def test_reconcile_now_repairs_even_while_paused_and_is_removed() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([deployment()])

    resource = greeting()
    resource["metadata"]["annotations"] = {"modelyard.dev/pause": "true", "modelyard.dev/reconcile": "now"}
    outcome = run(controller(reconcile), resource)
    assert outcome.children.names() == ["Deployment hi"]
    assert outcome.resource is not None
    assert outcome.resource["metadata"]["annotations"] == {"modelyard.dev/pause": "true"}


def test_an_optional_kind_is_skipped_until_it_is_served() -> None:
    def reconcile(resource: Greeting, world: World) -> Desired:
        return Desired([obj("Route", "hi", "route.openshift.io/v1")] if world.serves(Route) else [])

    assert run(controller(reconcile), greeting()).children.names() == []
    assert run(controller(reconcile), greeting(), served=[Route]).children.names() == ["Route hi"]


def test_fixed_keys_need_no_resource_and_track_their_children() -> None:
    catalog = Controller("catalog", Fixed((Key("shop", "catalog"),)), owns=[ConfigMap])

    @catalog.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        return Desired([obj("ConfigMap", key.name)])

    child = run(catalog, Key("shop", "catalog")).children[ConfigMap, "catalog"]
    assert child["metadata"]["labels"] == {
        "modelyard.dev/owner-kind": "catalog",
        "modelyard.dev/owner-name": "catalog",
        "modelyard.dev/owner-namespace": "shop",
    }


def test_mistakes_of_a_controller_are_raised() -> None:
    def undeclared(resource: Greeting, world: World) -> Desired:
        world.list(Job)
        return Desired()

    with pytest.raises(UndeclaredKind, match="greetings reads batch/v1/Job"):
        run(controller(undeclared), greeting())
    with pytest.raises(InvalidResource, match=r"\$.spec.replicas"):
        run(controller(undeclared), greeting(replicas="many"))


async def test_an_async_reconcile_may_await_something_real() -> None:
    async def reconcile(resource: Greeting, world: World) -> Desired:
        await asyncio.sleep(0)
        return Desired(events=[EventNote("Greeted", "hello")], requeue_after=5)

    made = controller(reconcile)
    with pytest.raises(RuntimeError, match="run_async"):
        run(made, greeting())
    outcome = await bench(made, greeting()).run_async()
    assert [e.reason for e in outcome.events] == ["Greeted"]
    assert outcome.requeue_after == 5


def test_a_fake_world_reads_lists_and_gives_the_same_tokens_each_time() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a", "namespace": "shop", "labels": {"x": "1"}},
    }
    world = FakeWorld([secret])
    assert world.list(Secret, "shop", {"x": "1"})[0]["metadata"]["name"] == "a"
    assert world.get(Secret, "shop", "b") is None
    assert not world.serves(Route)
    assert world.token(8) == FakeWorld().token(8)


def test_a_watched_kind_may_be_read() -> None:
    def reconcile(resource: Greeting, world: World) -> Hold:
        return Hold("Count", str(len(world.list(Job))))

    made = controller(reconcile, watches=[Watch(Job)])
    assert run(made, greeting()).condition("Ready")["message"] == "0"
