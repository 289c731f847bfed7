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
from modelyard.runtime.ownership import OWNER_KIND, OWNER_NAME, OWNER_NAMESPACE
from tests.cluster.model_catalog.scenarios.story import ALWAYS, CREATED_BY, DATABASE_KINDS, Book, Story
from tests.cluster.stories import may_get
from tests.yard import ApiYard

book = Book()
objects = book.scenario
ADDRESS = "routing.opendatahub.io/external-address-rest"


@objects(1)
async def everything_exists_without_any_event(story: Story) -> None:
    await story.start()
    for kind, name in (*ALWAYS, *((kind, DATABASE) for kind in DATABASE_KINDS)):
        await story.yard.until(kind, name)
    await story.yard.absent(builtin.NetworkPolicy, "model-catalog-https-route")


@objects(2)
async def the_pod_has_its_containers(story: Story) -> None:
    await story.start()
    server = await story.server()
    assert server.containers == ["catalog", "kube-rbac-proxy"]
    assert [c["name"] for c in server.pod["initContainers"]] == ["catalog-data-init", "benchmark-data-init"]


@objects(3)
async def the_server_reads_three_lists(story: Story) -> None:
    await story.start()
    server = await story.server()
    assert server.args == [
        "--listen=0.0.0.0:8080",
        "--catalogs-path=/data/default-sources/sources.yaml",
        "--catalogs-path=/data/user-model-sources/sources.yaml",
        "--catalogs-path=/data/user-mcp-sources/sources.yaml",
        "--performance-metrics=/shared-benchmark-data",
    ]
    assert server.env["PGHOST"] == DATABASE


@objects(4)
async def the_database_is_on_its_volume(story: Story) -> None:
    await story.start()
    database = await story.database()
    assert database.containers == ["postgresql"]
    # Upstream sets PGDATA to a place that the image does not use, so that its data dies with the pod.
    assert list(database.env) == ["POSTGRESQL_USER", "POSTGRESQL_PASSWORD", "POSTGRESQL_DATABASE"]
    assert database.spec["strategy"]["type"] == "Recreate"
    volume = database.volumes[database.mounts["/var/lib/pgsql/data"]["name"]]
    assert volume["persistentVolumeClaim"]["claimName"] == DATABASE


@objects(5)
async def the_password_is_made_once(story: Story) -> None:
    await story.start()
    await story.settled()
    claim = await story.yard.get(builtin.PersistentVolumeClaim, DATABASE)
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    made = await story.credentials()
    assert (made["database-name"], made["database-user"]) == ("model_catalog", "catalog_user")
    assert re.fullmatch(r"[A-Za-z0-9_-]{24}", made["database-password"])
    await story.restart()
    await story.settled()
    assert await story.credentials() == made


@objects(6)
async def nothing_hangs_on_the_deployment(story: Story) -> None:
    # Upstream hangs these on the Deployment, and loses the Service whenever that is replaced. Here they are tracked.
    await story.start()
    await story.settled()
    for kind, name in (
        (builtin.Service, NAME),
        (builtin.Role, NAME),
        (builtin.RoleBinding, "model-catalog-authenticated"),
    ):
        found = await story.yard.get(kind, name)
        assert owners_of(found) == []
        assert labels_of(found)[OWNER_NAME] == NAME
    service = await story.yard.get(builtin.Service, NAME)
    await story.yard.delete(builtin.Deployment, NAME)
    await story.settled()
    assert uid_of(await story.yard.get(builtin.Service, NAME)) == uid_of(service)


@objects(7)
async def openshift_has_a_way_in(story: Story) -> None:
    await story.start(builtin.Route)
    route = await story.yard.until(builtin.Route, "model-catalog-https")
    assert route["spec"]["host"] == "model-catalog.example.com"
    assert route["spec"]["tls"]["termination"] == "reencrypt"
    policy = await story.yard.until(builtin.NetworkPolicy, "model-catalog-https-route")
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
    (builtin.ClusterRoleBinding, "model-catalog-auth-delegator"),
)


async def _is_owned(story: Story, platform: Object) -> None:
    reference = {
        "apiVersion": PlatformRegistry.api_version,
        "kind": "ModelRegistry",
        "name": PLATFORM_NAME,
        "uid": uid_of(platform),
    }
    for kind, name in OWNED_BY_PLATFORM:
        await story.yard.until(kind, name, lambda obj: owners_of(obj) == [reference])
    for kind, name in UNOWNED:
        assert owners_of(await story.yard.get(kind, name)) == []


@objects(8)
async def the_platform_owns_the_catalog(story: Story) -> None:
    await story.yard.serve(PlatformRegistry)
    platform = await story.yard.create(PlatformRegistry, PLATFORM_NAME)
    await story.start()
    await _is_owned(story, platform)


@objects(9)
async def the_platform_may_come_later(story: Story) -> None:
    await story.start(PlatformRegistry)
    await story.settled()
    assert owners_of(await story.yard.get(builtin.Deployment, NAME)) == []
    await _is_owned(story, await story.yard.create(PlatformRegistry, PLATFORM_NAME))


def _is_not(before: Object) -> Callable[[Object], bool]:
    return lambda obj: uid_of(obj) != uid_of(before)


@objects(10)
async def what_is_deleted_comes_back(story: Story) -> None:
    await story.start()
    await story.settled()
    policy = await story.yard.get(builtin.NetworkPolicy, DATABASE)
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
        before = await story.yard.get(kind, name)
        await story.yard.delete(kind, name)
        if isinstance(story.yard, ApiYard):
            await story.yard.until(kind, name, _is_not(before))
        else:
            await story.yard.until(kind, name)
    assert (await story.yard.get(builtin.NetworkPolicy, DATABASE))["spec"] == policy["spec"]


@objects(11)
async def another_component_is_no_business_of_ours(story: Story) -> None:
    await story.start()
    await story.settled()
    before = await story.versions()
    labels = {"component": "other", **CREATED_BY}
    await story.yard.create(builtin.NetworkPolicy, "other", labels=labels, spec={"podSelector": {}})
    await story.yard.delete(builtin.NetworkPolicy, "other")
    assert await story.versions() == before


@objects(12)
async def only_our_namespace_and_our_binding_matter(story: Story) -> None:
    await story.start()
    await story.settled()
    before = await story.versions()
    elsewhere = f"{story.namespace}-elsewhere"
    await story.yard.create(builtin.Namespace, elsewhere)
    labels = {"component": NAME, **CREATED_BY}
    await story.yard.create(builtin.ConfigMap, "same", namespace=elsewhere, labels=labels, data={})
    assert await story.versions() == before
    name = "model-catalog-auth-delegator"
    await story.yard.edit(builtin.ClusterRoleBinding, name, lambda binding: binding.update(subjects=[]))
    await story.yard.until(builtin.ClusterRoleBinding, name, lambda binding: bool(binding.get("subjects")))


@objects(26)
async def a_claim_may_be_grown_by_hand(story: Story) -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    await story.yard.create(
        builtin.StorageClass, "grows", annotations=default, provisioner="example.com/x", allowVolumeExpansion=True
    )
    await story.start()
    await story.settled()
    # Only a claim that has its volume may be grown.
    bound = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}
    await story.yard.set_status(builtin.PersistentVolumeClaim, DATABASE, bound)

    def grow(claim: Object) -> None:
        claim["metadata"]["labels"]["foreign"] = "x"
        claim["spec"]["resources"]["requests"]["storage"] = "20Gi"

    await story.yard.edit(builtin.PersistentVolumeClaim, DATABASE, grow)
    claim = await story.yard.until(
        builtin.PersistentVolumeClaim, DATABASE, lambda claim: "foreign" not in labels_of(claim)
    )
    await story.restart()
    await story.settled()
    claim = await story.yard.get(builtin.PersistentVolumeClaim, DATABASE)
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"


@objects(38, needs_api=True)
async def everyone_who_is_known_may_read(story: Story) -> None:
    """The proxy asks the API about the caller's token, and whether he may `get` the Service."""
    assert isinstance(story.yard, ApiYard)
    await story.start()
    assert "--config-file=/etc/kube-rbac-proxy/config-file.yaml" in (await story.server("kube-rbac-proxy")).args
    await story.yard.until(builtin.RoleBinding, "model-catalog-authenticated")
    async with asyncio.timeout(60):
        while not await may_get(story.yard.client, story.namespace, "ann", NAME):
            await asyncio.sleep(0.05)
    assert not await may_get(
        story.yard.client, story.namespace, "system:anonymous", NAME, groups=("system:unauthenticated",)
    )


@objects(27, needs_api=True)
async def a_deployment_with_another_selector_is_replaced(story: Story) -> None:
    ours = {OWNER_KIND: "modelcatalog", OWNER_NAME: NAME, OWNER_NAMESPACE: story.namespace}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    old = await story.yard.create(
        builtin.Deployment,
        NAME,
        labels={**CREATED_BY, **ours},
        spec={"selector": {"matchLabels": {"a": "b"}}, "template": template},
    )
    await story.start()
    new = await story.yard.until(builtin.Deployment, NAME, lambda deployment: uid_of(deployment) != uid_of(old))
    assert new["spec"]["selector"]["matchLabels"]["app"] == NAME
    await story.yard.until(builtin.Service, NAME)


@objects(28)
async def drift_is_repaired_and_additions_are_not(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.yard.edit(builtin.Deployment, NAME, lambda deployment: deployment["spec"].update(replicas=3))
    await story.yard.until(builtin.Deployment, NAME, lambda deployment: deployment["spec"]["replicas"] == 1)
    edited = await story.yard.edit(
        builtin.Service, NAME, lambda service: service["metadata"]["annotations"].update(extra="x")
    )
    after = await story.yard.get(builtin.Service, NAME)
    assert resource_version_of(after) == resource_version_of(edited)


@objects(35)
async def a_namesake_is_left_alone(story: Story) -> None:
    await story.yard.create(builtin.ServiceAccount, NAME)
    await story.start()
    await story.yard.quiet()
    assert labels_of(await story.yard.get(builtin.ServiceAccount, NAME)) == {}
    await story.yard.delete(builtin.ServiceAccount, NAME)
    await story.yard.until(builtin.ServiceAccount, NAME, lambda account: bool(labels_of(account)))


@objects(36)
async def no_address_without_a_domain(story: Story) -> None:
    # Upstream writes `model-catalog.:443`.
    await story.start(default_domain="")
    service = await story.yard.until(builtin.Service, NAME)
    assert ADDRESS not in service["metadata"]["annotations"]
    await story.restart()
    await story.yard.until(
        builtin.Service, NAME, lambda s: s["metadata"]["annotations"].get(ADDRESS) == "model-catalog.example.com:443"
    )


@objects(37)
async def it_comes_to_rest(story: Story) -> None:
    await story.start()
    await story.settled()
    before = await story.versions()
    await story.restart()
    await story.settled()
    assert await story.versions() == before
