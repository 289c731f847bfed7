"""Scenarios 1-12, 26-28 and 35-37: what exists, whose it is, and how it is kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import labels_of, owners_of, resource_version_of, uid_of
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME
from modelyard.operators.model_registry.catalog.controller import PLATFORM_NAME, PlatformRegistry
from modelyard.runtime.acting.ownership import OWNER_KIND, OWNER_NAME, OWNER_NAMESPACE
from tests.cluster.model_catalog.scenarios.scene import ALWAYS, CREATED_BY, DATABASE_KINDS, Book, CatalogScene
from tests.cluster.stories import may_get
from tests.ground import ApiGround

book = Book()
objects = book.scenario
ADDRESS = "routing.opendatahub.io/external-address-rest"


@objects(1)
async def everything_exists_without_any_event(scene: CatalogScene) -> None:
    await scene.start()
    for kind, name in (*ALWAYS, *((kind, DATABASE) for kind in DATABASE_KINDS)):
        await scene.ground.until(kind, name)
    await scene.ground.absent(builtin.NetworkPolicy, "model-catalog-https-route")


@objects(2)
async def the_pod_has_its_containers(scene: CatalogScene) -> None:
    await scene.start()
    server = await scene.server()
    assert server.containers == ["catalog", "kube-rbac-proxy"]
    assert [c["name"] for c in server.pod["initContainers"]] == ["catalog-data-init", "benchmark-data-init"]


@objects(3)
async def the_server_reads_four_lists(scene: CatalogScene) -> None:
    await scene.start()
    server = await scene.server()
    assert server.args == [
        "--listen=0.0.0.0:8080",
        "--catalogs-path=/data/default-sources/sources.yaml",
        "--catalogs-path=/data/user-model-sources/sources.yaml",
        "--catalogs-path=/data/user-mcp-sources/sources.yaml",
        "--catalogs-path=/data/user-agent-sources/sources.yaml",
        "--performance-metrics=/shared-benchmark-data",
    ]
    assert server.env["PGHOST"] == DATABASE


@objects(4)
async def the_database_is_on_its_volume(scene: CatalogScene) -> None:
    await scene.start()
    database = await scene.database()
    assert database.containers == ["postgresql"]
    # Upstream sets PGDATA to a place that the image does not use, so that its data dies with the pod.
    assert list(database.env) == ["POSTGRESQL_USER", "POSTGRESQL_PASSWORD", "POSTGRESQL_DATABASE"]
    assert database.spec["strategy"]["type"] == "Recreate"
    volume = database.volumes[database.mounts["/var/lib/pgsql/data"]["name"]]
    assert volume["persistentVolumeClaim"]["claimName"] == DATABASE


@objects(5)
async def the_password_is_made_once(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    claim = await scene.ground.get(builtin.PersistentVolumeClaim, DATABASE)
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    made = await scene.credentials()
    assert (made["database-name"], made["database-user"]) == ("model_catalog", "catalog_user")
    assert re.fullmatch(r"[A-Za-z0-9_-]{24}", made["database-password"])
    await scene.restart()
    await scene.settled()
    assert await scene.credentials() == made


@objects(6)
async def nothing_hangs_on_the_deployment(scene: CatalogScene) -> None:
    # Upstream hangs these on the Deployment, and loses the Service whenever that is replaced. Here they are tracked.
    await scene.start()
    await scene.settled()
    for kind, name in (
        (builtin.Service, NAME),
        (builtin.Role, NAME),
        (builtin.RoleBinding, "model-catalog-authenticated"),
    ):
        found = await scene.ground.get(kind, name)
        assert owners_of(found) == []
        assert labels_of(found)[OWNER_NAME] == NAME
    service = await scene.ground.get(builtin.Service, NAME)
    await scene.ground.delete(builtin.Deployment, NAME)
    await scene.settled()
    assert uid_of(await scene.ground.get(builtin.Service, NAME)) == uid_of(service)


@objects(7)
async def openshift_has_a_way_in(scene: CatalogScene) -> None:
    await scene.start(builtin.Route)
    route = await scene.ground.until(builtin.Route, "model-catalog-https")
    assert route["spec"]["host"] == "model-catalog.example.com"
    assert route["spec"]["tls"]["termination"] == "reencrypt"
    policy = await scene.ground.until(builtin.NetworkPolicy, "model-catalog-https-route")
    (rule,) = policy["spec"]["ingress"]
    ingress = {"namespaceSelector": {"matchLabels": {"network.openshift.io/policy-group": "ingress"}}}
    assert rule == {"from": [ingress], "ports": [{"protocol": "TCP", "port": 8443}]}


OWNED_BY_PLATFORM: tuple[tuple[Kind, str], ...] = (
    (builtin.ServiceAccount, NAME),
    (builtin.ConfigMap, "default-catalog-sources"),
    (builtin.ConfigMap, "model-catalog-kube-rbac-proxy-config"),
    (builtin.Deployment, NAME),
    (builtin.Deployment, DATABASE),
    (builtin.Secret, DATABASE),
    (builtin.PersistentVolumeClaim, DATABASE),
)
UNOWNED: tuple[tuple[Kind, str], ...] = (
    (builtin.ConfigMap, "model-catalog-sources"),
    (builtin.ConfigMap, "mcp-catalog-sources"),
    (builtin.ConfigMap, "agent-catalog-sources"),
    (builtin.ClusterRoleBinding, "model-catalog-auth-delegator"),
)


async def _is_owned(scene: CatalogScene, platform: Object) -> None:
    reference = {
        "apiVersion": PlatformRegistry.api_version,
        "kind": "ModelRegistry",
        "name": PLATFORM_NAME,
        "uid": uid_of(platform),
    }
    for kind, name in OWNED_BY_PLATFORM:
        await scene.ground.until(kind, name, lambda obj: owners_of(obj) == [reference])
    for kind, name in UNOWNED:
        assert owners_of(await scene.ground.get(kind, name)) == []


@objects(8)
async def the_platform_owns_the_catalog(scene: CatalogScene) -> None:
    await scene.ground.serve(PlatformRegistry)
    platform = await scene.ground.create(PlatformRegistry, PLATFORM_NAME)
    await scene.start()
    await _is_owned(scene, platform)


@objects(9)
async def the_platform_may_come_later(scene: CatalogScene) -> None:
    await scene.start(PlatformRegistry)
    await scene.settled()
    assert owners_of(await scene.ground.get(builtin.Deployment, NAME)) == []
    await _is_owned(scene, await scene.ground.create(PlatformRegistry, PLATFORM_NAME))


def _is_not(before: Object) -> Callable[[Object], bool]:
    return lambda obj: uid_of(obj) != uid_of(before)


@objects(10)
async def what_is_deleted_comes_back(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    policy = await scene.ground.get(builtin.NetworkPolicy, DATABASE)
    for kind, name in (
        (builtin.NetworkPolicy, DATABASE),
        (builtin.Service, NAME),
        (builtin.ServiceAccount, NAME),
        (builtin.Role, NAME),
        (builtin.RoleBinding, "model-catalog-authenticated"),
        (builtin.PersistentVolumeClaim, DATABASE),
        (builtin.Secret, DATABASE),
        (builtin.ClusterRoleBinding, "model-catalog-auth-delegator"),
        (builtin.Deployment, NAME),
        (builtin.Deployment, DATABASE),
    ):
        before = await scene.ground.get(kind, name)
        await scene.ground.delete(kind, name)
        if isinstance(scene.ground, ApiGround):
            await scene.ground.until(kind, name, _is_not(before))
        else:
            await scene.ground.until(kind, name)
    assert (await scene.ground.get(builtin.NetworkPolicy, DATABASE))["spec"] == policy["spec"]


@objects(11)
async def another_component_is_no_business_of_ours(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    before = await scene.versions()
    labels = {"component": "other", **CREATED_BY}
    await scene.ground.create(builtin.NetworkPolicy, "other", labels=labels, spec={"podSelector": {}})
    await scene.ground.delete(builtin.NetworkPolicy, "other")
    assert await scene.versions() == before


@objects(12)
async def only_our_namespace_and_our_binding_matter(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    before = await scene.versions()
    elsewhere = f"{scene.namespace}-elsewhere"
    await scene.ground.create(builtin.Namespace, elsewhere)
    labels = {"component": NAME, **CREATED_BY}
    await scene.ground.create(builtin.ConfigMap, "same", namespace=elsewhere, labels=labels, data={})
    assert await scene.versions() == before
    name = "model-catalog-auth-delegator"
    await scene.ground.edit(builtin.ClusterRoleBinding, name, lambda binding: binding.update(subjects=[]))
    await scene.ground.until(builtin.ClusterRoleBinding, name, lambda binding: bool(binding.get("subjects")))


@objects(26)
async def a_claim_may_be_grown_by_hand(scene: CatalogScene) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    await scene.ground.create(
        builtin.StorageClass, "grows", annotations=default, provisioner="example.com/x", allowVolumeExpansion=True
    )
    await scene.start()
    await scene.settled()
    # Only a claim that has its volume may be grown.
    bound = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}
    await scene.ground.set_status(builtin.PersistentVolumeClaim, DATABASE, bound)

    def grow(claim: Object) -> None:
        claim["metadata"]["labels"]["foreign"] = "x"
        claim["spec"]["resources"]["requests"]["storage"] = "20Gi"

    await scene.ground.edit(builtin.PersistentVolumeClaim, DATABASE, grow)
    claim = await scene.ground.until(
        builtin.PersistentVolumeClaim, DATABASE, lambda claim: "foreign" not in labels_of(claim)
    )
    await scene.restart()
    await scene.settled()
    claim = await scene.ground.get(builtin.PersistentVolumeClaim, DATABASE)
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"


@objects(38, needs_api=True)
async def everyone_who_is_known_may_read(scene: CatalogScene) -> None:
    """The proxy asks the API about the caller's token, and whether the caller may `get` the Service."""
    assert isinstance(scene.ground, ApiGround)
    await scene.start()
    assert "--config-file=/etc/kube-rbac-proxy/config-file.yaml" in (await scene.server("kube-rbac-proxy")).args
    await scene.ground.until(builtin.RoleBinding, "model-catalog-authenticated")
    async with asyncio.timeout(60):
        while not await may_get(scene.ground.client, scene.namespace, "ann", NAME):
            await asyncio.sleep(0.05)
    assert not await may_get(
        scene.ground.client, scene.namespace, "system:anonymous", NAME, groups=("system:unauthenticated",)
    )


@objects(27, needs_api=True)
async def a_deployment_with_another_selector_is_replaced(scene: CatalogScene) -> None:
    ours = {OWNER_KIND: "modelcatalog", OWNER_NAME: NAME, OWNER_NAMESPACE: scene.namespace}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    old = await scene.ground.create(
        builtin.Deployment,
        NAME,
        labels={**CREATED_BY, **ours},
        spec={"selector": {"matchLabels": {"a": "b"}}, "template": template},
    )
    await scene.start()
    new = await scene.ground.until(builtin.Deployment, NAME, lambda deployment: uid_of(deployment) != uid_of(old))
    assert new["spec"]["selector"]["matchLabels"]["app"] == NAME
    await scene.ground.until(builtin.Service, NAME)


@objects(28)
async def drift_is_repaired_and_additions_are_not(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.ground.edit(builtin.Deployment, NAME, lambda deployment: deployment["spec"].update(replicas=3))
    await scene.ground.until(builtin.Deployment, NAME, lambda deployment: deployment["spec"]["replicas"] == 1)
    edited = await scene.ground.edit(
        builtin.Service, NAME, lambda service: service["metadata"]["annotations"].update(extra="x")
    )
    after = await scene.ground.get(builtin.Service, NAME)
    assert resource_version_of(after) == resource_version_of(edited)


@objects(35)
async def a_namesake_is_left_alone(scene: CatalogScene) -> None:
    await scene.ground.create(builtin.ServiceAccount, NAME)
    await scene.start()
    await scene.ground.quiet()
    assert labels_of(await scene.ground.get(builtin.ServiceAccount, NAME)) == {}
    await scene.ground.delete(builtin.ServiceAccount, NAME)
    await scene.ground.until(builtin.ServiceAccount, NAME, lambda account: bool(labels_of(account)))


@objects(36)
async def no_address_without_a_domain(scene: CatalogScene) -> None:
    # Upstream writes `model-catalog.:443`.
    await scene.start(default_domain="")
    service = await scene.ground.until(builtin.Service, NAME)
    assert ADDRESS not in service["metadata"]["annotations"]
    await scene.restart()
    await scene.ground.until(
        builtin.Service, NAME, lambda s: s["metadata"]["annotations"].get(ADDRESS) == "model-catalog.example.com:443"
    )


@objects(37)
async def it_comes_to_rest(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    before = await scene.versions()
    await scene.restart()
    await scene.settled()
    assert await scene.versions() == before
