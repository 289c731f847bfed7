"""A cluster on which the public codeflare-operator ran: it is not disturbed while it runs, and its objects live on as ours."""

from __future__ import annotations

import copy

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, owner_reference, resource_version_of, uid_of
from modelyard.kube.secrets import encoded
from modelyard.kube.times import format_micro_time, utc_now
from modelyard.operators.codeflare.ray_cluster.children import Facts, access, policies, proxy_secret
from modelyard.operators.codeflare.ray_cluster.names import CONTROLLER, VERSION, RayCluster
from modelyard.runtime.tls.certificates import make_ca
from tests.cluster.ray_cluster.scenarios.scene import OPENSHIFT, RayScene
from tests.ground import ApiGround

KINDS = {
    kind.kind: kind
    for kind in (
        builtin.Secret, builtin.Service, builtin.ServiceAccount, builtin.ClusterRoleBinding, builtin.NetworkPolicy, builtin.Route,
    )
}  # fmt: skip
Place = tuple[Kind, Key]


async def upstream_ran(scene: RayScene) -> dict[Place, Object]:
    """The cluster as the public operator leaves it."""
    ground = scene.ground
    assert isinstance(ground, ApiGround)
    for kind in OPENSHIFT:
        await ground.serve(kind)
    cluster = await scene.create(annotations={VERSION: "v1.16.0"})
    facts = Facts(scene.names.new, openshift=True)
    ca = make_ca(utc_now())
    authority = {"ca.crt": encoded(ca.certificate), "ca.key": encoded(ca.key)}
    made: Object = {"metadata": {"name": facts.names.ca, "labels": facts.names.labels}, "data": authority}
    children = [proxy_secret(facts, "their cookie"), *access(facts), *policies(facts)]
    placed: dict[Place, Object] = {}
    for body in ({**made, "apiVersion": "v1", "kind": "Secret"}, *(child.object for child in children)):
        kind, obj = KINDS[body["kind"]], copy.deepcopy(body)
        if kind.namespaced:
            obj["metadata"]["namespace"] = scene.namespace
            obj["metadata"]["ownerReferences"] = [owner_reference(cluster, block_deletion=False)]
        obj["metadata"].setdefault("annotations", {})["only.upstream/was"] = "here"
        found = await ground.client.apply(kind, obj, field_manager=CONTROLLER, force=True)
        placed[kind, key_of(found)] = found
    return placed


async def now_there(scene: RayScene, places: dict[Place, Object]) -> dict[Place, Object]:
    assert isinstance(scene.ground, ApiGround)
    client = scene.ground.client
    return {(kind, key): await client.get(kind, key.namespace, key.name) for kind, key in places}


async def test_what_the_public_operator_made_is_taken_over(scene: RayScene) -> None:
    before = await upstream_ran(scene)
    await scene.start(hooks=False)
    await scene.ground.quiet()
    after = await now_there(scene, before)
    for place, obj in after.items():
        assert uid_of(obj) == uid_of(before[place]), place
        assert "only.upstream/was" not in (obj["metadata"].get("annotations") or {}), (
            f"{place} still has a field of theirs"
        )
        managers = {entry["manager"] for entry in obj["metadata"]["managedFields"] if not entry.get("subresource")}
        assert managers == {"modelyard-codeflare-raycluster"}, place
    for name in (scene.names.new.ca, scene.names.new.oauth_config):
        place = (builtin.Secret, Key(scene.namespace, name))
        assert before[place]["data"].items() <= after[place]["data"].items(), f"{name} keeps its values"
    await scene.ground.delete(RayCluster, "demo")
    await scene.ground.gone(builtin.ClusterRoleBinding, scene.names.new.binding)


@pytest.mark.parametrize("lease", ["codeflare-operator", "their-own"])
async def test_nothing_is_changed_while_it_holds_its_lease(scene: RayScene, lease: str) -> None:
    before = await upstream_ran(scene)
    now = format_micro_time(utc_now())
    spec = {"holderIdentity": "theirs", "leaseDurationSeconds": 60, "renewTime": now, "acquireTime": now}
    await scene.ground.create(builtin.Lease, lease, spec=spec)
    await scene.start(hooks=False, predecessor_lease=lease)
    await scene.ground.told(RayCluster, "demo", "codeflare-operator is at work here: theirs holds its Lease")
    after = await now_there(scene, before)
    assert {place: resource_version_of(obj) for place, obj in after.items()} == {
        place: resource_version_of(obj) for place, obj in before.items()
    }
    await scene.ground.edit(builtin.Lease, lease, lambda obj: obj["spec"].update(holderIdentity=""))
    await scene.ground.until(
        builtin.NetworkPolicy,
        scene.names.new.head_policy,
        lambda policy: "only.upstream/was" not in (policy["metadata"].get("annotations") or {}),
    )
