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
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from tests.cluster.model_registry.scenarios.scene import OPENSHIFT, REGISTRY, Book, RegistryScene
from tests.ground import ApiGround

book = Book()
deletion = book.scenario


@deletion(44)
async def cluster_scoped_objects_go_with_a_registry(scene: RegistryScene) -> None:
    await scene.start(*OPENSHIFT, default_domain="example.com")
    await scene.create(kubeRBACProxy={})
    await scene.ground.until(builtin.Group, "mr-users")
    await scene.ground.until(builtin.ClusterRoleBinding, scene.delegator)

    # Someone else's finalizer keeps the registry, so that its last words can be read.
    def hold(registry: Object) -> None:
        registry["metadata"].setdefault("finalizers", []).append("example.com/hold")

    await scene.ground.edit(REGISTRY, "mr", hold)
    heard = await _last_words(scene)
    await scene.ground.delete(REGISTRY, "mr")
    if heard is not None:
        begun = "Performing finalizer operations for the custom resource: mr "
        done = "Finalizer operations for custom resource mr were successfully accomplished"
        assert await heard == [("Unknown", "Finalizing", begun), ("True", "Finalizing", done)]
    found = await scene.condition("Degraded", status="True", reason="Finalizing")
    assert found["message"] == "Finalizer operations for custom resource mr were successfully accomplished"
    await scene.ground.gone(builtin.Group, "mr-users")
    await scene.ground.gone(builtin.ClusterRoleBinding, scene.delegator)
    await scene.ground.until(REGISTRY, "mr", lambda r: r["metadata"]["finalizers"] == ["example.com/hold"])
    await scene.ground.edit(REGISTRY, "mr", lambda registry: registry["metadata"].update(finalizers=[]))
    if isinstance(scene.ground, ApiGround):
        await scene.ground.gone(REGISTRY, "mr")


async def _last_words(scene: RegistryScene) -> asyncio.Task[list[tuple[str, str, str]]] | None:
    """What `Degraded` says from now on, up to its end; None where nobody can watch."""
    if not isinstance(scene.ground, ApiGround):
        return None
    client, namespace = scene.ground.client, scene.namespace
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


async def _left_behind(scene: RegistryScene, owner: Object, names: tuple[str, str]) -> dict[str, Any]:
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
    await scene.ground.create(builtin.Deployment, names[0], **marks, spec=spec)
    await scene.ground.create(builtin.Service, names[1], **marks, spec={"ports": [{"port": 80}]})
    return marks


@deletion(45)
async def an_old_catalog_of_a_registry_goes(scene: RegistryScene) -> None:
    for kind in OPENSHIFT:
        await scene.ground.serve(kind)
    registry = await scene.create()
    marks = await _left_behind(scene, registry, ("mr-catalog", "mr-catalog"))
    await scene.ground.create(builtin.Route, "mr-catalog-https", **marks, spec={"to": {"kind": "Service", "name": "x"}})
    await scene.ground.create(builtin.NetworkPolicy, "mr-catalog-https-route", **marks, spec={"podSelector": {}})
    await scene.start(*OPENSHIFT)
    await scene.ground.gone(builtin.Deployment, "mr-catalog")
    await scene.ground.gone(builtin.Service, "mr-catalog")
    await scene.ground.gone(builtin.Route, "mr-catalog-https")
    await scene.ground.gone(builtin.NetworkPolicy, "mr-catalog-https-route")


@deletion(46)
async def the_shared_catalog_is_not_a_registrys(scene: RegistryScene) -> None:
    await scene.create("model")
    keeper = await scene.ground.create(builtin.ConfigMap, "keeper", data={})
    await _left_behind(scene, {"apiVersion": "v1", "kind": "ConfigMap", **keeper}, ("model-catalog", "model-catalog"))
    await scene.start()
    await scene.ground.until(builtin.Deployment, "model")
    await scene.ground.get(builtin.Deployment, "model-catalog")
    await scene.ground.get(builtin.Service, "model-catalog")


@deletion(47, needs_api=True)
async def a_failure_is_told_and_healed(scene: RegistryScene) -> None:
    """Every creation is refused, by the API itself, until it no longer is."""
    assert isinstance(scene.ground, ApiGround)
    kinds = (builtin.ServiceAccount, builtin.Service, builtin.Deployment, builtin.Role)
    refusing = set(kinds)

    def refuse(request: AdmissionRequest) -> Denied | None:
        ours = request.namespace == scene.namespace and request.kind in refusing
        return (
            Denied("no room for this", code=400, reason="BadRequest")
            if ours and "plane-under-test" not in request.name
            else None
        )

    hook = Webhook("refuse.example.com", "validating", "/refuse", refuse, kinds=kinds, operations=("CREATE",))
    await scene.start()
    await scene.ground.serve_webhooks(Operator("refusing", "", "", [], webhooks=[hook]))
    await scene.create()
    for kind in kinds:
        await scene.says("Available", "unexpected reconcile error: ", status="False", reason="DeploymentUnavailable")
        await scene.ground.until(REGISTRY, "mr", partial(_is_named, kind=kind.kind))
        assert await scene.ground.find(kind, "registry-user-mr" if kind is builtin.Role else "mr") is None
        # The others wait for the account.
        refusing.discard(builtin.ServiceAccount)
    refusing.clear()
    await scene.make_ready()
    await scene.condition("Available", status="True")


def _is_named(registry: Object, kind: str) -> bool:
    found = find_condition(conditions_of(registry), "Available") or {}
    return f"{kind} " in found.get("message", "") and "no room for this" in found["message"]


@deletion(48)
async def nothing_is_written_when_nothing_drifted(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    await scene.make_ready()
    await scene.condition("Available", status="True")
    places = [(builtin.Deployment, "mr"), (builtin.Service, "mr"), (REGISTRY, "mr")]
    before = [resource_version_of(await scene.ground.get(kind, name)) for kind, name in places]
    await scene.ground.halt()
    await scene.start()
    assert [resource_version_of(await scene.ground.get(kind, name)) for kind, name in places] == before


@deletion(61, needs_api=True)
async def stored_registries_are_rewritten(scene: RegistryScene) -> None:
    assert isinstance(scene.ground, ApiGround)
    await scene.create()
    crd = "modelregistries.modelregistry.opendatahub.io"
    stored = {"status": {"storedVersions": ["v1alpha1", "v1beta1"]}}
    await scene.ground.client.patch(builtin.CustomResourceDefinition, "", crd, stored, subresource="status")
    await scene.start(migrate_from="v1alpha1", migrate_to="v1beta1")
    await scene.ground.halt()
    await scene.ground.start([storage_controller(scene.settings)])
    registry = await scene.ground.until(
        REGISTRY, "mr", lambda registry: MIGRATED in (registry["metadata"].get("annotations") or {})
    )
    await scene.ground.halt()
    await scene.ground.start([storage_controller(scene.settings)])
    again = await scene.ground.get(REGISTRY, "mr")
    assert again["metadata"]["annotations"] == registry["metadata"]["annotations"]
    assert not [c for c in conditions_of(again) if c["type"] == "Reconciled"]
    await scene.ground.halt()
    await scene.start()
