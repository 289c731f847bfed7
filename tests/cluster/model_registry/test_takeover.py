"""A cluster on which the public model-registry-operator ran: it is not disturbed while it runs, and its objects live on as ours."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import annotations_of, is_deleting, key_of, uid_of
from modelyard.kube.times import format_micro_time, utc_now
from modelyard.operators.model_registry.api import ModelRegistry
from modelyard.operators.model_registry.children import Wanted, account, children, credentials
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.effective import effective
from modelyard.operators.model_registry.facts import UPSTREAM, Credentials, Facts, Names, ReferenceGrant
from modelyard.operators.parts.references import CONFIG_DIGEST
from tests.cluster.model_registry.scenarios.scene import GATEWAY, GENERATED, OPENSHIFT, REGISTRY, RegistryScene
from tests.cluster.stories import Server
from tests.ground import ApiGround, Ground

KINDS = {
    kind.kind: kind
    for kind in (
        builtin.ServiceAccount, builtin.Service, builtin.Deployment, builtin.Role, builtin.RoleBinding,
        builtin.ClusterRoleBinding, builtin.ConfigMap, builtin.Secret, builtin.PersistentVolumeClaim, builtin.NetworkPolicy,
        builtin.Route, builtin.Group, builtin.HTTPRoute, ReferenceGrant,
    )
}  # fmt: skip
UNOWNED = (builtin.Group, builtin.ClusterRoleBinding, builtin.HTTPRoute, ReferenceGrant)
LAST_APPLIED = "banzaicloud.com/last-applied"
PASSWORD = "made-by-upstream-0123456"
Place = tuple[Kind, Key]
REPLACED = (builtin.ClusterRoleBinding, Key("", "mr-auth-delegator"))
"""Ours has a name of its own, so that a registry of the same name elsewhere has one, too."""


def yard_of(scene: RegistryScene) -> ApiGround:
    assert isinstance(scene.ground, ApiGround)
    return scene.ground


def settings_of(scene: RegistryScene, served: tuple[Kind, ...]) -> dict[str, Any]:
    if not served:
        return {}
    return {
        "default_domain": "example.com",
        "gateway_domain": "g.example.com",
        "route_namespace": f"{scene.namespace}-routes",
    }


async def upstream_ran(scene: RegistryScene, *served: Kind) -> dict[Place, Object]:
    """The cluster as the public operator leaves it: a registry with a database and a proxy, all made by its program."""
    ground = yard_of(scene)
    for kind in served:
        await ground.serve(kind)
    if served:
        await ground.create(builtin.Namespace, f"{scene.namespace}-routes")
    made = await scene.create(postgres=GENERATED, kubeRBACProxy={})
    registry = ModelRegistry.parse(made)
    assert registry.spec is not None
    names = Names.of(registry)
    facts = Facts(
        Settings(namespace=scene.namespace, **settings_of(scene, served)),
        openshift=bool(served),
        user_api=bool(served),
        gateway=bool(served),
        grants=bool(served),
        domain="example.com" if served else "",
        credentials=Credentials("modelregistry", "model_registry"),
    )
    wanted = Wanted(registry, registry.spec, effective(registry.spec, facts, names), facts, names)
    placed: dict[Place, Object] = {}
    for child in (account(names), credentials(wanted, PASSWORD), *children(wanted)):
        kind = KINDS[child.object["kind"]]
        if names.proxy_policy == child.object["metadata"]["name"]:
            continue  # Upstream has no policy where there is no Route.
        body = _as_upstream_makes_it(kind, child.object, made)
        found = await ground.client.create(kind, body, field_manager="manager")
        placed[kind, key_of(found)] = found
    return placed


def _as_upstream_makes_it(kind: Kind, obj: Object, owner: Object) -> Object:
    """With its owner references and its note of what it applied, and without what only we set."""
    made: Object = copy.deepcopy(obj)
    metadata = made["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), LAST_APPLIED: "compressed"}
    if kind not in UNOWNED:
        reference = {name: owner[name] for name in ("apiVersion", "kind")}
        reference |= {"name": "mr", "uid": uid_of(owner), "controller": True, "blockOwnerDeletion": True}
        metadata["ownerReferences"] = [reference]
    if kind == builtin.ClusterRoleBinding:
        metadata["name"] = REPLACED[1].name
    if kind == builtin.Secret:
        metadata.pop("labels")
        metadata.pop("annotations")
        made["stringData"] = {"username": "modelregistry", "password": PASSWORD}
    if kind == builtin.Deployment:
        pod = made["spec"]["template"]["spec"]
        pod["securityContext"].pop("fsGroup", None)
        pod["containers"][-1].setdefault("env", []).append({"name": "ONLY_UPSTREAM", "value": "x"})
    return {"apiVersion": kind.api_version, "kind": kind.kind, **made}


async def lease(ground: Ground, holder: str) -> None:
    """The public operator's Lease, as its leader writes it."""
    now = format_micro_time(utc_now())
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": now, "acquireTime": now}
    body: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    body["metadata"] = {"name": UPSTREAM.lease, "namespace": ground.namespace}
    assert isinstance(ground, ApiGround)
    await ground.client.apply(builtin.Lease, body, field_manager="manager", force=True)


async def now_there(scene: RegistryScene, places: dict[Place, Object]) -> dict[Place, Object]:
    client = yard_of(scene).client
    return {(kind, key): await client.get(kind, key.namespace, key.name) for kind, key in places}


def managers(obj: Object) -> set[str]:
    """Who holds fields of an object's own, apart from its status."""
    return {entry["manager"] for entry in obj["metadata"].get("managedFields") or () if not entry.get("subresource")}


def is_ours(deployment: Object) -> bool:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return not any(one["name"] == "ONLY_UPSTREAM" for container in containers for one in container.get("env") or ())


@pytest.mark.parametrize("served", [(), (*OPENSHIFT, *GATEWAY)], ids=["plain", "openshift"])
async def test_what_upstream_made_is_taken_over_without_making_anything_anew(
    scene: RegistryScene, served: tuple[Kind, ...]
) -> None:
    placed = await upstream_ran(scene, *served)
    await scene.start(**settings_of(scene, served))
    for name in ("mr", "mr-postgres"):
        await scene.ground.until(builtin.Deployment, name, is_ours)
    await scene.ground.gone(REPLACED[0], REPLACED[1].name)
    await scene.ground.get(builtin.ClusterRoleBinding, scene.delegator)
    del placed[REPLACED]
    after = await now_there(scene, placed)
    for place, obj in after.items():
        assert uid_of(obj) == uid_of(placed[place]), place
        assert not is_deleting(obj), place
        if place[0] not in (builtin.Secret, ReferenceGrant):  # Made once, and never written again.
            assert not managers(obj) & set(UPSTREAM.managers), (place, managers(obj))
            assert LAST_APPLIED not in annotations_of(obj), place
    secret = after[builtin.Secret, Key(scene.namespace, "mr-postgres-credentials")]
    assert base64.b64decode(secret["data"]["password"]).decode() == PASSWORD
    server = Server(after[builtin.Deployment, Key(scene.namespace, "mr")], "rest-container")
    assert CONFIG_DIGEST in server.template["metadata"]["annotations"]
    assert server.args[3].endswith("modelregistry:$(POSTGRES_PASSWORD)@mr-postgres:5432/model_registry")
    # What was upstream's goes with the registry now, also what no owner reference reaches.
    await scene.ground.delete(REGISTRY, "mr")
    await scene.ground.gone(REGISTRY, "mr")
    await scene.ground.gone(builtin.ClusterRoleBinding, scene.delegator)
    for kind, key in placed:
        if kind in (builtin.Group, builtin.HTTPRoute):
            await scene.ground.gone(kind, key.name, namespace=key.namespace or None)


async def test_nothing_is_changed_while_upstream_runs(scene: RegistryScene) -> None:
    placed = await upstream_ran(scene)
    await lease(scene.ground, "model-registry-operator-controller-manager-7c_1")
    before = await now_there(scene, placed)
    await scene.start()
    said = await scene.condition("Reconciled", status="False", reason="OtherOperatorRunning")
    assert f"holds its Lease {scene.namespace}/{UPSTREAM.lease}" in said["message"]
    command = f"kubectl -n {scene.namespace} scale deployment model-registry-operator-controller-manager --replicas=0"
    assert command in said["message"]
    await scene.ground.quiet()
    assert await now_there(scene, placed) == before
    # Given up: what is left to do is done.
    await lease(scene.ground, "")
    await scene.ground.until(builtin.Deployment, "mr", is_ours)
    await scene.ground.until(builtin.NetworkPolicy, "mr-proxy")
    await scene.ground.quiet()
    assert "Reconciled" not in {one["type"] for one in (await scene.status())["conditions"]}


async def test_a_registry_of_upstreams_that_is_already_going_leaves_nothing(scene: RegistryScene) -> None:
    served = (*OPENSHIFT, *GATEWAY)
    placed = await upstream_ran(scene, *served)
    await scene.ground.edit(
        REGISTRY, "mr", lambda r: r["metadata"].update(finalizers=["modelregistry.opendatahub.io/finalizer"])
    )
    await scene.ground.delete(REGISTRY, "mr")
    await scene.start(**settings_of(scene, served))
    await scene.ground.gone(REGISTRY, "mr")
    for kind, key in placed:
        if kind in (builtin.Group, builtin.ClusterRoleBinding, builtin.HTTPRoute):
            await scene.ground.gone(kind, key.name, namespace=key.namespace or None)
