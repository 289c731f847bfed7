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
from modelyard.operators.model_registry.children import Wanted, children, credentials
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.effective import effective
from modelyard.operators.model_registry.facts import CONFIG_DIGEST, UPSTREAM, Credentials, Facts, Names, ReferenceGrant
from tests.cluster.model_registry.scenarios.story import GATEWAY, GENERATED, OPENSHIFT, REGISTRY, Story
from tests.cluster.stories import Server
from tests.yard import ApiYard, Yard

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


def yard_of(story: Story) -> ApiYard:
    assert isinstance(story.yard, ApiYard)
    return story.yard


def settings_of(story: Story, served: tuple[Kind, ...]) -> dict[str, Any]:
    if not served:
        return {}
    return {
        "default_domain": "example.com",
        "gateway_domain": "g.example.com",
        "route_namespace": f"{story.namespace}-routes",
    }


async def upstream_ran(story: Story, *served: Kind) -> dict[Place, Object]:
    """The cluster as the public operator leaves it: a registry with a database and a proxy, all made by its program."""
    yard = yard_of(story)
    for kind in served:
        await yard.serve(kind)
    if served:
        await yard.create(builtin.Namespace, f"{story.namespace}-routes")
    made = await story.create(postgres=GENERATED, kubeRBACProxy={})
    registry = ModelRegistry.parse(made)
    assert registry.spec is not None
    names = Names.of(registry)
    facts = Facts(
        Settings(namespace=story.namespace, **settings_of(story, served)),
        openshift=bool(served),
        user_api=bool(served),
        gateway=bool(served),
        grants=bool(served),
        domain="example.com" if served else "",
        credentials=Credentials("modelregistry", "model_registry"),
    )
    wanted = Wanted(registry, registry.spec, effective(registry.spec, facts, names), facts, names)
    placed: dict[Place, Object] = {}
    for child in (credentials(wanted, PASSWORD), *children(wanted)):
        kind = KINDS[child.object["kind"]]
        if names.proxy_policy == child.object["metadata"]["name"]:
            continue  # Upstream has no policy where there is no Route.
        body = _as_upstream_makes_it(kind, child.object, made)
        found = await yard.client.create(kind, body, field_manager="manager")
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
    if kind == builtin.Secret:
        metadata.pop("labels")
        metadata.pop("annotations")
        made["stringData"] = {"username": "modelregistry", "password": PASSWORD}
    if kind == builtin.Deployment:
        pod = made["spec"]["template"]["spec"]
        pod["securityContext"].pop("fsGroup", None)
        pod["containers"][-1].setdefault("env", []).append({"name": "ONLY_UPSTREAM", "value": "x"})
    return {"apiVersion": kind.api_version, "kind": kind.kind, **made}


async def lease(yard: Yard, holder: str) -> None:
    """The public operator's Lease, as its leader writes it."""
    now = format_micro_time(utc_now())
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": now, "acquireTime": now}
    body: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
    body["metadata"] = {"name": UPSTREAM.lease, "namespace": yard.namespace}
    assert isinstance(yard, ApiYard)
    await yard.client.apply(builtin.Lease, body, field_manager="manager", force=True)


async def now_there(story: Story, places: dict[Place, Object]) -> dict[Place, Object]:
    client = yard_of(story).client
    return {(kind, key): await client.get(kind, key.namespace, key.name) for kind, key in places}


def managers(obj: Object) -> set[str]:
    """Who holds fields of an object's own, apart from its status."""
    return {entry["manager"] for entry in obj["metadata"].get("managedFields") or () if not entry.get("subresource")}


def is_ours(deployment: Object) -> bool:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return not any(one["name"] == "ONLY_UPSTREAM" for container in containers for one in container.get("env") or ())


@pytest.mark.parametrize("served", [(), (*OPENSHIFT, *GATEWAY)], ids=["plain", "openshift"])
async def test_what_upstream_made_is_taken_over_without_making_anything_anew(
    story: Story, served: tuple[Kind, ...]
) -> None:
    placed = await upstream_ran(story, *served)
    await story.start(**settings_of(story, served))
    for name in ("mr", "mr-postgres"):
        await story.yard.until(builtin.Deployment, name, is_ours)
    await story.yard.quiet()
    after = await now_there(story, placed)
    for place, obj in after.items():
        assert uid_of(obj) == uid_of(placed[place]), place
        assert not is_deleting(obj), place
        if place[0] not in (builtin.Secret, ReferenceGrant):  # Made once, and never written again.
            assert not managers(obj) & set(UPSTREAM.managers), (place, managers(obj))
            assert LAST_APPLIED not in annotations_of(obj), place
    secret = after[builtin.Secret, Key(story.namespace, "mr-postgres-credentials")]
    assert base64.b64decode(secret["data"]["password"]).decode() == PASSWORD
    server = Server(after[builtin.Deployment, Key(story.namespace, "mr")], "rest-container")
    assert CONFIG_DIGEST in server.template["metadata"]["annotations"]
    assert server.args[3].endswith("modelregistry:$(POSTGRES_PASSWORD)@mr-postgres:5432/model_registry")
    # What was upstream's goes with the registry now, also what no owner reference reaches.
    await story.yard.delete(REGISTRY, "mr")
    await story.yard.gone(REGISTRY, "mr")
    for kind, key in placed:
        if kind in (builtin.Group, builtin.ClusterRoleBinding, builtin.HTTPRoute):
            await story.yard.gone(kind, key.name, namespace=key.namespace or None)


async def test_nothing_is_changed_while_upstream_runs(story: Story) -> None:
    placed = await upstream_ran(story)
    await lease(story.yard, "model-registry-operator-controller-manager-7c_1")
    before = await now_there(story, placed)
    await story.start()
    said = await story.condition("Reconciled", status="False", reason="OtherOperatorRunning")
    assert f"holds its Lease {story.namespace}/{UPSTREAM.lease}" in said["message"]
    command = f"kubectl -n {story.namespace} scale deployment model-registry-operator-controller-manager --replicas=0"
    assert command in said["message"]
    await story.yard.quiet()
    assert await now_there(story, placed) == before
    # Given up: what is left to do is done.
    await lease(story.yard, "")
    await story.yard.until(builtin.Deployment, "mr", is_ours)
    await story.yard.until(builtin.NetworkPolicy, "mr-proxy")
    await story.yard.quiet()
    assert "Reconciled" not in {one["type"] for one in (await story.status())["conditions"]}


async def test_a_registry_of_upstreams_that_is_already_going_leaves_nothing(story: Story) -> None:
    served = (*OPENSHIFT, *GATEWAY)
    placed = await upstream_ran(story, *served)
    await story.yard.edit(
        REGISTRY, "mr", lambda r: r["metadata"].update(finalizers=["modelregistry.opendatahub.io/finalizer"])
    )
    await story.yard.delete(REGISTRY, "mr")
    await story.start(**settings_of(story, served))
    await story.yard.gone(REGISTRY, "mr")
    for kind, key in placed:
        if kind in (builtin.Group, builtin.ClusterRoleBinding, builtin.HTTPRoute):
            await story.yard.gone(kind, key.name, namespace=key.namespace or None)
