"""A catalog that the public operator made: it is left alone while that runs, then its objects live on as ours, the data among them."""

from __future__ import annotations

import base64
import copy

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import annotations_of, is_deleting, key_of, labels_of, owners_of, uid_of
from modelyard.operators.model_registry.catalog import sources
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME, CatalogFacts, children
from modelyard.operators.model_registry.catalog.controller import PLATFORM_NAME, PlatformRegistry
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.facts import CREATED_BY, UPSTREAM
from modelyard.runtime.acting.ownership import OWNER_NAME
from tests.cluster.model_catalog.scenarios.scene import CatalogScene
from tests.cluster.model_registry.test_takeover import LAST_APPLIED, PASSWORD, lease, managers
from tests.ground import ApiGround

KINDS = {
    kind.kind: kind
    for kind in (
        builtin.ServiceAccount, builtin.Service, builtin.Deployment, builtin.Role, builtin.RoleBinding,
        builtin.ClusterRoleBinding, builtin.ConfigMap, builtin.PersistentVolumeClaim, builtin.NetworkPolicy,
    )
}  # fmt: skip
OURS_ALONE = ("model-catalog-health", "model-catalog-proxy")
OF_THE_DEPLOYMENT = (builtin.Service, builtin.Role, builtin.RoleBinding, builtin.NetworkPolicy)
Place = tuple[Kind, Key]


def reference(kind: Kind, owner: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": owner["metadata"]["name"], "uid": uid_of(owner)}


async def upstream_ran(scene: CatalogScene, platform: Object | None) -> dict[Place, Object]:
    """The catalog as the public operator leaves it; what hangs on its Deployments is made after them."""
    assert isinstance(scene.ground, ApiGround)
    client = scene.ground.client
    facts = CatalogFacts(Settings(namespace=scene.namespace, default_domain="example.com"), domain="example.com")
    made = [child.object for child in children(facts, list(sources.USER_TEXTS))]
    made = [obj for obj in made if obj["metadata"]["name"] not in OURS_ALONE]
    made.sort(key=lambda obj: obj["kind"] != "Deployment")
    deployments: dict[str, Object] = {}
    placed: dict[Place, Object] = {}
    for obj in made:
        kind, body = KINDS[obj["kind"]], copy.deepcopy(obj)
        metadata = body["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), LAST_APPLIED: "compressed"}
        if kind in OF_THE_DEPLOYMENT:
            holder = deployments[DATABASE if metadata["name"] == DATABASE else NAME]
            metadata["ownerReferences"] = [reference(builtin.Deployment, holder)]
        elif platform is not None and kind != builtin.ClusterRoleBinding and metadata["name"] not in sources.USER_TEXTS:
            metadata["ownerReferences"] = [reference(PlatformRegistry, platform)]
        found = await client.create(kind, body, field_manager="manager")
        placed[kind, key_of(found)] = found
        if kind == builtin.Deployment:
            deployments[metadata["name"]] = found
    values = {"database-name": "model_catalog", "database-user": "catalog_user", "database-password": PASSWORD}
    secret: Object = {"metadata": {"name": DATABASE, "namespace": scene.namespace}, "stringData": values}
    secret["metadata"]["labels"] = {"component": DATABASE, **CREATED_BY}
    if platform is not None:
        secret["metadata"]["ownerReferences"] = [reference(PlatformRegistry, platform)]
    found = await client.create(builtin.Secret, secret, field_manager="manager")
    placed[builtin.Secret, key_of(found)] = found
    return placed


async def now_there(scene: CatalogScene, places: dict[Place, Object]) -> dict[Place, Object]:
    assert isinstance(scene.ground, ApiGround)
    return {(kind, key): await scene.ground.client.get(kind, key.namespace, key.name) for kind, key in places}


@pytest.mark.parametrize("owned", [False, True], ids=["alone", "of-the-platform"])
async def test_what_upstream_made_is_taken_over_without_making_anything_anew(scene: CatalogScene, owned: bool) -> None:
    platform = None
    if owned:
        await scene.ground.serve(PlatformRegistry)
        platform = await scene.ground.create(PlatformRegistry, PLATFORM_NAME)
    placed = await upstream_ran(scene, platform)
    await scene.start()
    await scene.ground.until(builtin.ConfigMap, "model-catalog-health")
    await scene.ground.quiet()
    owners = [reference(PlatformRegistry, platform)] if platform is not None else []
    for (kind, key), obj in (await now_there(scene, placed)).items():
        assert uid_of(obj) == uid_of(placed[kind, key]), (kind, key)
        assert not is_deleting(obj), (kind, key)
        if kind == builtin.Secret or key.name in sources.USER_TEXTS:
            assert owners_of(obj) == owners_of(placed[kind, key])
            continue  # Credentials and lists stay as they are.
        assert labels_of(obj)[OWNER_NAME] == NAME, (kind, key)
        assert not managers(obj) & set(UPSTREAM.managers), (kind, key, managers(obj))
        assert LAST_APPLIED not in annotations_of(obj), (kind, key)
        # Nothing hangs on a Deployment any more.
        assert owners_of(obj) == ([] if kind == builtin.ClusterRoleBinding else owners), (kind, key)
    secret = await scene.ground.get(builtin.Secret, DATABASE)
    assert base64.b64decode(secret["data"]["database-password"]).decode() == PASSWORD


async def test_nothing_is_changed_while_upstream_runs(scene: CatalogScene) -> None:
    placed = await upstream_ran(scene, None)
    await lease(scene.ground, "model-registry-operator-controller-manager-7c_1")
    before = await now_there(scene, placed)
    await scene.start()
    await scene.ground.quiet()
    assert await now_there(scene, placed) == before
    await scene.ground.absent(builtin.ConfigMap, "model-catalog-health")
    await lease(scene.ground, "")
    await scene.ground.until(builtin.ConfigMap, "model-catalog-health")
