"""Scenarios 44-48 and 61: deletion, what older versions left, failures, and migration."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec

from modelyard.kube import builtin
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of, resource_version_of, uid_of
from modelyard.operators.model_registry.storage import MIGRATED, storage_controller
from modelyard.runtime.operator import Operator
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from tests.cluster.model_registry.scenarios.story import OPENSHIFT, REGISTRY, Book, Story
from tests.yard import ApiYard

book = Book()
deletion = book.scenario


@deletion(44)
async def cluster_scoped_objects_go_with_a_registry(story: Story) -> None:
    await story.start(*OPENSHIFT, default_domain="example.com")
    await story.create(kubeRBACProxy={})
    await story.yard.until(builtin.Group, "mr-users")
    await story.yard.until(builtin.ClusterRoleBinding, "mr-auth-delegator")

    # Someone else's finalizer keeps the registry, so that its last words can be read.
    def hold(registry: Object) -> None:
        registry["metadata"].setdefault("finalizers", []).append("example.com/hold")

    await story.yard.edit(REGISTRY, "mr", hold)
    heard = await _last_words(story)
    await story.yard.delete(REGISTRY, "mr")
    if heard is not None:
        begun = "Performing finalizer operations for the custom resource: mr "
        done = "Finalizer operations for custom resource mr were successfully accomplished"
        assert await heard == [("Unknown", "Finalizing", begun), ("True", "Finalizing", done)]
    found = await story.condition("Degraded", status="True", reason="Finalizing")
    assert found["message"] == "Finalizer operations for custom resource mr were successfully accomplished"
    await story.yard.gone(builtin.Group, "mr-users")
    await story.yard.gone(builtin.ClusterRoleBinding, "mr-auth-delegator")
    await story.yard.until(REGISTRY, "mr", lambda r: r["metadata"]["finalizers"] == ["example.com/hold"])
    await story.yard.edit(REGISTRY, "mr", lambda registry: registry["metadata"].update(finalizers=[]))
    if isinstance(story.yard, ApiYard):
        await story.yard.gone(REGISTRY, "mr")


async def _last_words(story: Story) -> asyncio.Task[list[tuple[str, str, str]]] | None:
    """What `Degraded` says from now on, up to its end; None where nobody can watch."""
    if not isinstance(story.yard, ApiYard):
        return None
    client, namespace = story.yard.client, story.namespace
    listed = await client.list(REGISTRY, namespace)

    async def listen() -> list[tuple[str, str, str]]:
        said: list[tuple[str, str, str]] = []
        async for event in client.watch(REGISTRY, namespace, resource_version=listed.resource_version, bookmarks=False):
            obj = msgspec.json.decode(event.raw) if isinstance(event.raw, bytes) else event.raw
            found = find_condition(conditions_of(obj), "Degraded")
            words = (found["status"], found["reason"], found["message"]) if found else None
            if words is not None and words not in said:
                said.append(words)
            if words is not None and words[0] == "True":
                break
        return said

    return asyncio.create_task(listen())


async def _left_behind(story: Story, owner: Object, names: tuple[str, str]) -> dict[str, Any]:
    """A Deployment and a Service that an older version made for a registry's catalog; gives what marks such objects."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
    }
    marks: dict[str, Any] = {
        "labels": {"app.kubernetes.io/created-by": "model-registry-operator"},
        "ownerReferences": [reference],
    }
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await story.yard.create(builtin.Deployment, names[0], **marks, spec=spec)
    await story.yard.create(builtin.Service, names[1], **marks, spec={"ports": [{"port": 80}]})
    return marks


@deletion(45)
async def an_old_catalog_of_a_registry_goes(story: Story) -> None:
    for kind in OPENSHIFT:
        await story.yard.serve(kind)
    registry = await story.create()
    marks = await _left_behind(story, registry, ("mr-catalog", "mr-catalog"))
    await story.yard.create(builtin.Route, "mr-catalog-https", **marks, spec={"to": {"kind": "Service", "name": "x"}})
    await story.yard.create(builtin.NetworkPolicy, "mr-catalog-https-route", **marks, spec={"podSelector": {}})
    await story.start(*OPENSHIFT)
    await story.yard.gone(builtin.Deployment, "mr-catalog")
    await story.yard.gone(builtin.Service, "mr-catalog")
    await story.yard.gone(builtin.Route, "mr-catalog-https")
    await story.yard.gone(builtin.NetworkPolicy, "mr-catalog-https-route")


@deletion(46)
async def the_shared_catalog_is_not_a_registrys(story: Story) -> None:
    await story.create("model")
    keeper = await story.yard.create(builtin.ConfigMap, "keeper", data={})
    await _left_behind(story, {"apiVersion": "v1", "kind": "ConfigMap", **keeper}, ("model-catalog", "model-catalog"))
    await story.start()
    await story.yard.until(builtin.Deployment, "model")
    await story.yard.get(builtin.Deployment, "model-catalog")
    await story.yard.get(builtin.Service, "model-catalog")


@deletion(47, needs_api=True)
async def a_failure_is_told_and_healed(story: Story) -> None:
    """Every creation is refused, by the API itself, until it no longer is."""
    assert isinstance(story.yard, ApiYard)
    refusing = True

    def refuse(request: AdmissionRequest) -> Denied | None:
        ours = request.namespace == story.namespace and refusing
        return (
            Denied("no room for this", code=400, reason="BadRequest")
            if ours and "plane-under-test" not in request.name
            else None
        )

    kinds = (builtin.ServiceAccount, builtin.Service, builtin.Deployment, builtin.Role)
    hook = Webhook("refuse.example.com", "validating", "/refuse", refuse, kinds=kinds, operations=("CREATE",))
    await story.start()
    await story.yard.serve_webhooks(Operator("refusing", "", "", [], webhooks=[hook]))
    await story.create()
    for kind in kinds:
        await story.says("Available", "unexpected reconcile error: ", status="False", reason="DeploymentUnavailable")
        await story.yard.until(REGISTRY, "mr", partial(_is_named, kind=kind.kind))
        assert await story.yard.find(kind, "registry-user-mr" if kind is builtin.Role else "mr") is None
    refusing = False
    await story.make_ready()
    await story.condition("Available", status="True")


def _is_named(registry: Object, kind: str) -> bool:
    found = find_condition(conditions_of(registry), "Available") or {}
    return f"{kind} " in found.get("message", "") and "no room for this" in found["message"]


@deletion(48)
async def nothing_is_written_when_nothing_drifted(story: Story) -> None:
    await story.start()
    await story.create()
    await story.make_ready()
    await story.condition("Available", status="True")
    places = [(builtin.Deployment, "mr"), (builtin.Service, "mr"), (REGISTRY, "mr")]
    before = [resource_version_of(await story.yard.get(kind, name)) for kind, name in places]
    await story.yard.halt()
    await story.start()
    assert [resource_version_of(await story.yard.get(kind, name)) for kind, name in places] == before


@deletion(61, needs_api=True)
async def stored_registries_are_rewritten(story: Story) -> None:
    assert isinstance(story.yard, ApiYard)
    await story.create()
    crd = "modelregistries.modelregistry.opendatahub.io"
    stored = {"status": {"storedVersions": ["v1alpha1", "v1beta1"]}}
    await story.yard.client.patch(builtin.CustomResourceDefinition, "", crd, stored, subresource="status")
    await story.start(migrate_from="v1alpha1", migrate_to="v1beta1")
    await story.yard.halt()
    await story.yard.start([storage_controller(story.settings)])
    registry = await story.yard.until(
        REGISTRY, "mr", lambda registry: MIGRATED in (registry["metadata"].get("annotations") or {})
    )
    await story.yard.halt()
    await story.yard.start([storage_controller(story.settings)])
    again = await story.yard.get(REGISTRY, "mr")
    assert again["metadata"]["annotations"] == registry["metadata"]["annotations"]
    assert not [c for c in conditions_of(again) if c["type"] == "Reconciled"]
    await story.yard.halt()
    await story.start()
