"""The client and the caches against an API server: what they rely on is what the server does."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import ConfigMap, CustomResourceDefinition, Deployment, Namespace, Pod, Secret
from modelyard.kube.crd import Column, Definition, Model, Resource, Version, definition_of
from modelyard.kube.errors import AlreadyExists, Conflict, NotFound
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.caching.caches import CacheSet
from modelyard.runtime.caching.watching import Selection
from tests.cluster.conftest import Api


def config_map(namespace: str, name: str, **labels: str) -> Object:
    return {"metadata": {"namespace": namespace, "name": name, "labels": labels}, "data": {"k": "v"}}


async def test_discovery_finds_built_in_kinds(api: Api) -> None:
    assert {Pod, Deployment, Namespace, CustomResourceDefinition} <= await api.client.discover()


async def test_object_is_created_read_changed_and_deleted(api: Api) -> None:
    client, namespace = api.client, await api.namespace()
    made = await client.create(ConfigMap, config_map(namespace, "a"))
    with pytest.raises(AlreadyExists):
        await client.create(ConfigMap, config_map(namespace, "a"))
    patched = await client.patch(ConfigMap, namespace, "a", {"data": {"k": "w"}})
    with pytest.raises(Conflict):
        await client.update(ConfigMap, made)
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, namespace, "a", uid="another")
    assert (await client.get(ConfigMap, namespace, "a"))["data"] == {"k": "w"}
    await client.delete(ConfigMap, namespace, "a", uid=patched["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(ConfigMap, namespace, "a")


async def test_dry_run_changes_nothing(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "a"), dry_run=True)
    assert await api.client.find(ConfigMap, namespace, "a") is None


async def test_apply_conflicts_unless_forced(api: Api) -> None:
    client, namespace = api.client, await api.namespace()
    await client.apply(ConfigMap, config_map(namespace, "a"), field_manager="one")
    other = config_map(namespace, "a") | {"data": {"k": "other"}}
    with pytest.raises(Conflict):
        await client.apply(ConfigMap, other, field_manager="two")
    applied = await client.apply(ConfigMap, other, field_manager="two", force=True)
    assert applied["data"] == {"k": "other"}


async def test_list_in_pages_gives_everything(api: Api) -> None:
    namespace = await api.namespace()
    for number in range(5):
        await api.client.create(Secret, config_map(namespace, f"s{number}", even=str(number % 2 == 0)) | {"data": {}})
    found = await api.client.list(Secret, namespace, limit=2)
    assert [item["metadata"]["name"] for item in found.items] == ["s0", "s1", "s2", "s3", "s4"]
    assert found.items[0]["kind"] == "Secret"
    even = await api.client.list(Secret, namespace, labels="even=True")
    assert len(even.items) == 3


async def test_collection_is_deleted_by_selector(api: Api) -> None:
    namespace = await api.namespace()
    for name, app in (("a", "x"), ("b", "y")):
        await api.client.create(Secret, config_map(namespace, name, app=app) | {"data": {}})
    await api.client.delete_collection(Secret, namespace, labels="app=x")
    left = await api.client.list(Secret, namespace)
    assert [item["metadata"]["name"] for item in left.items] == ["b"]


async def test_caches_follow_the_cluster(api: Api) -> None:
    client, namespace = api.client, await api.namespace()
    await client.create(ConfigMap, config_map(namespace, "before", app="web"))
    caches = CacheSet(client, keep_managers="modelyard-")
    everything = caches.cache(Selection(ConfigMap, namespace=namespace))
    web = caches.cache(Selection(ConfigMap, namespace=namespace, labels="app=web"))
    secrets = caches.cache(Selection(Secret, namespace=namespace, metadata_only=True))
    caches.start()
    try:
        assert await caches.wait_synced(10) == []
        assert Key(namespace, "before") in {entry.key for entry in web}

        obj = config_map(namespace, "a", app="web")
        made = await client.apply(ConfigMap, obj, field_manager="modelyard-test")
        key, version = Key(namespace, "a"), made["metadata"]["resourceVersion"]
        assert await everything.wait_seen(key, version, 10)
        assert await web.wait_seen(key, version, 10)
        held = web.get(key)
        assert held is not None
        assert held.object == {**made, "metadata": {k: v for k, v in made["metadata"].items() if k != "managedFields"}}
        assert b'"f:k"' in (held.managed("modelyard-test") or b"")

        left = await client.patch(ConfigMap, namespace, "a", {"metadata": {"labels": None}})
        assert await web.wait_lost(key, left["metadata"]["uid"], 10)
        await client.delete(ConfigMap, namespace, "a")
        assert await everything.wait_lost(key, left["metadata"]["uid"], 10)

        await client.create(Secret, config_map(namespace, "s") | {"data": {"k": "djE="}})
        assert await secrets.wait_until(lambda: len(secrets) == 1, 10)
        assert next(iter(secrets)).object["kind"] == "Secret"
        assert "data" not in next(iter(secrets)).object

        assert await caches.catch_up(20) == []
        assert caches.stale == []
    finally:
        await caches.stop()


class WidgetSpec(Model):
    size: int = 1


class Widget(Resource, kw_only=True):
    """A widget."""

    spec: WidgetSpec


WIDGETS = Definition(
    group="client.modelyard.test",
    kind_name="Widget",
    plural="widgets",
    versions=[Version("v1", Widget, columns=[Column("Size", ".spec.size", "integer")])],
)


async def test_cache_of_an_optional_kind_waits_for_its_definition(api: Api) -> None:
    client, namespace = api.client, await api.namespace()
    caches = CacheSet(client)
    cache = caches.cache(Selection(WIDGETS.kind))
    caches.start(WIDGETS.kind)
    try:
        assert not await cache.wait_synced(0.3)
        assert cache.stale
        await client.apply(CustomResourceDefinition, definition_of(WIDGETS), field_manager="modelyard-test")
        assert await cache.wait_synced(60)
        widget = {
            "apiVersion": WIDGETS.kind.api_version,
            "kind": "Widget",
            "metadata": {"namespace": namespace, "name": "w"},
        }
        made = await client.create(WIDGETS.kind, widget | {"spec": {}})
        assert made["spec"] == {"size": 1}
        assert await cache.wait_seen(Key(namespace, "w"), made["metadata"]["resourceVersion"], 10)
        assert WIDGETS.kind in await client.discover()
    finally:
        await caches.stop()
        await client.delete(CustomResourceDefinition, "", "widgets.client.modelyard.test")
