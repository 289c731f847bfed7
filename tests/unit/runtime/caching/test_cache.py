"""What caches hold, how they are read alone and together, and what they cost."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, Pod, Secret
from modelyard.kube.kinds import Key
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.caches import CacheSet
from modelyard.runtime.caching.entry import Entry, entry_of
from modelyard.runtime.caching.store import Store, newest
from modelyard.runtime.caching.watching import Selection, Timing
from tests.unit.runtime.scripted_api import ScriptedApi, Stream, bookmark, pod, serving

FAST = Timing(silence=30.0, first_retry=0.01, longest_retry=0.05, page=500)


def entry(name: str, version: int, **metadata: Any) -> Entry:
    full = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": str(version)} | metadata
    return entry_of(Pod, json.dumps({"metadata": full, "spec": {"a": [1]}}).encode(), keep_managers="modelyard-")


def store(*entries: Entry, at: int = 100, **selection: Any) -> Store:
    made = Store(Selection(Pod, **selection))
    made.replace(entries, str(at))
    return made


def names(entries: Iterable[Entry]) -> list[str]:
    return [each.key.name for each in entries]


MANAGED = [
    {
        "manager": "modelyard-mlflow", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:a": {}}},
    },
    {"manager": "modelyard-mlflow", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
]  # fmt: skip


@pytest.mark.parametrize("before", [{}, {"annotations": {"managedFields": "no list"}}])
@pytest.mark.parametrize("after", [{}, {"zone": "x"}])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_managed_fields_are_left_out_wherever_they_stand(
    before: dict[str, Any], after: dict[str, Any], separators: tuple[str, str]
) -> None:
    metadata = {**before, "managedFields": MANAGED, **after}
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"managedFields": []}}
    made = entry_of(Pod, json.dumps(whole, separators=separators).encode(), keep_managers="modelyard-")
    assert made.object == {**whole, "metadata": {**before, **after}}
    assert len(made.managers) == 2


def test_object_says_what_it_is_and_has_no_managed_fields() -> None:
    made = entry("a", 5, managedFields=MANAGED, labels={"app": "web"})
    assert made.object == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "namespace": "shop",
            "uid": "uid-a",
            "resourceVersion": "5",
            "labels": {"app": "web"},
        },
        "spec": {"a": [1]},
    }


def test_metadata_only_objects_get_their_real_kind() -> None:
    raw = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}'
    assert entry_of(Secret, raw).object == {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}


def test_fields_of_our_managers_are_kept_and_those_of_others_dropped() -> None:
    made = entry("a", 5, managedFields=MANAGED)
    assert json.loads(made.managed("modelyard-mlflow") or b"") == {"f:spec": {"f:a": {}}}
    assert json.loads(made.managed("modelyard-mlflow", subresource="status") or b"") == {"f:status": {}}
    assert made.managed("kubectl", operation="Update") is None
    assert made.managed("modelyard-other") is None


def test_reads_are_private_copies() -> None:
    held = store(entry("a", 5))
    first = held.get(Key("shop", "a"))
    assert first is not None
    first.object["spec"]["a"].append(2)
    assert first.object["spec"] == {"a": [1]}


def test_large_numbers_and_text_survive() -> None:
    raw = '{"metadata":{"name":"a"},"data":{"n":12345678901234567890123,"t":"\\u0085é\\ud83d\\ude00","f":1e400}}'
    kept = entry_of(Pod, raw.encode()).raw.decode()
    assert '"n":12345678901234567890123' in kept
    assert '"t":"\\u0085é\\ud83d\\ude00"' in kept
    assert '"f":1e400' in kept


def test_listing_by_namespace_and_labels() -> None:
    held = store(
        entry("a", 1, labels={"app": "web", "tier": "x"}),
        entry("b", 2, labels={"app": "web"}),
        entry("c", 3, namespace="other", labels={"app": "web"}),
    )
    assert names(held.list()) == ["a", "b", "c"]
    assert names(held.list("shop")) == ["a", "b"]
    assert names(held.list(None, {"app": "web"})) == ["a", "b", "c"]
    assert names(held.list("shop", {"app": "web", "tier": "x"})) == ["a"]
    assert names(held.list("shop", "app in (web),!tier")) == ["b"]
    assert held.list("empty") == []


def test_found_by_owner_manager_and_function() -> None:
    held = store()
    held.index("node", lambda obj: [obj["metadata"]["annotations"]["node"]])
    owner = {"apiVersion": "v1", "kind": "X", "name": "o", "uid": "owner", "controller": True}
    plain = {"apiVersion": "v1", "kind": "X", "name": "p", "uid": "plain"}
    held.put(entry("a", 101, ownerReferences=[plain, owner], managedFields=MANAGED, annotations={"node": "n1"}))
    held.put(entry("b", 102, annotations={"node": "n2"}))
    assert names(held.by_owner("owner")) == names(held.by_owner("plain")) == ["a"]
    assert held.list()[0].controller_uid == "owner"
    assert names(held.by_manager("modelyard-mlflow")) == ["a"]
    assert names(held.by_index("node", "n1")) == ["a"]
    held.put(entry("a", 103, annotations={"node": "n2"}))
    assert held.by_owner("owner") == held.by_manager("modelyard-mlflow") == held.by_index("node", "n1") == []
    assert names(held.by_index("node", "n2")) == ["b", "a"]
    held.remove(entry("b", 104))
    assert names(held.by_index("node", "n2")) == ["a"]


def test_index_that_fails_on_one_object_finds_the_others() -> None:
    held = store(entry("a", 1), entry("b", 2, annotations={"node": "n1"}))
    held.index("node", lambda obj: [obj["metadata"]["annotations"]["node"]])
    assert names(held.by_index("node", "n1")) == ["b"]


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def __call__(self, old: Entry | None, new: Entry | None) -> None:
        self.events.append((old.resource_version if old else "", new.resource_version if new else ""))


def test_handlers_get_old_and_new() -> None:
    held, told = store(entry("a", 1)), Told()
    held.subscribe(told)
    held.put(entry("a", 101))
    held.put(entry("a", 101))
    held.remove(entry("a", 102))
    held.remove(entry("a", 102))
    assert told.events == [("", "1"), ("1", "101"), ("101", "")]
    held.unsubscribe(told)
    held.put(entry("a", 103))
    assert len(told.events) == 3


def test_relist_without_changes_tells_nothing() -> None:
    held, told = store(entry("a", 1), entry("b", 2)), Told()
    held.subscribe(told)
    told.events.clear()
    held.replace([entry("a", 1), entry("b", 2)], "200")
    assert told.events == []
    assert held.has_passed("200")


def test_handlers_of_a_relist_see_the_whole_new_state() -> None:
    held = store(entry("a", 1), entry("b", 2))
    seen: list[list[str]] = []
    held.subscribe(lambda old, new: seen.append(names(held)))
    seen.clear()
    held.replace([entry("b", 2), entry("c", 3), entry("d", 4)], "200")
    assert seen == [["b", "c", "d"]] * 3


async def test_own_writes_are_waited_for() -> None:
    held = store(entry("a", 5))
    key = Key("shop", "a")
    assert held.has_seen(key, "5")
    assert not held.has_seen(key, "101")
    waiting = asyncio.create_task(held.wait_seen(key, "101", 10))
    await asyncio.sleep(0)
    held.put(entry("a", 101))
    assert await waiting


async def test_write_outside_the_selection_is_seen_when_the_cache_has_passed_it() -> None:
    held = store(entry("a", 5))
    waiting = asyncio.create_task(held.wait_seen(Key("shop", "elsewhere"), "120", 10))
    await asyncio.sleep(0)
    held.progress("119")
    await asyncio.sleep(0)
    assert not waiting.done()
    held.progress("125")
    assert await waiting


async def test_own_delete_is_seen_by_uid() -> None:
    held = store(entry("a", 5, uid="first"))
    waiting = asyncio.create_task(held.wait_lost(Key("shop", "a"), "first", 10))
    await asyncio.sleep(0)
    held.put(entry("a", 101, uid="second"))
    assert await waiting


@pytest.mark.looptime
async def test_waits_are_bounded() -> None:
    held = store()
    assert not await held.wait_seen(Key("shop", "a"), "200", 5)
    assert asyncio.get_running_loop().time() == pytest.approx(5)


WEB = {"labels": {"app": "web"}}
KEY = Key("shop", "a")


@pytest.mark.parametrize(
    ("stores", "version"),
    [
        ([store(entry("a", 5), at=10), store(entry("a", 9), at=10)], "9"),
        ([store(at=4), store(entry("a", 5), at=10)], "5"),
        ([store(at=20), store(entry("a", 5), at=10)], None),
        ([store(at=20, labels="app=web"), store(entry("a", 5, **WEB), at=10)], None),
        ([store(at=20, labels="app=web"), store(entry("a", 5), at=30)], "5"),
        ([store(at=20, namespace="other"), store(entry("a", 5), at=10)], "5"),
        ([store(at=20, fields="status.phase=Running"), store(entry("a", 5), at=10)], "5"),
        ([store(at=20), store(at=10)], None),
        ([], None),
    ],
    ids=[
        "the newer version", "one is behind and has not seen it yet", "the one further along has lost it",
        "the filtered one further along has lost it", "the filter does not match", "another namespace",
        "a filter by field proves nothing", "nobody has it", "no caches",
    ],
)  # fmt: skip
def test_several_caches_are_read_together(stores: list[Store], version: str | None) -> None:
    found = newest(stores, KEY)
    assert (found.resource_version if found else None) == version


async def test_caches_are_shared_by_selection() -> None:
    async with serving(ScriptedApi()) as client:
        caches = CacheSet(client)
        assert caches.cache(Selection(Pod)) is caches.cache(Selection(Pod))
        assert caches.cache(Selection(Pod)) is not caches.cache(Selection(Pod, labels="a=b"))


async def test_set_reads_whole_objects_rather_than_metadata() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3, app="web"), pod("b", 4)], 7)]
    async with serving(api) as client:
        caches = CacheSet(client, timing=FAST)
        caches.cache(Selection(Pod, metadata_only=True))
        whole = caches.cache(Selection(Pod))
        caches.start()
        assert await caches.wait_synced(10) == []
        assert caches.of(Pod) == [whole]
        assert caches.of(ConfigMap) == []
        found = caches.get(Pod, Key("shop", "a"))
        assert found is not None
        assert found.object["spec"] == {"nodeName": "node-3"}
        assert names(caches.list(Pod, "shop", {"app": "web"})) == ["a"]
        assert caches.synced(Pod)
        assert not caches.synced(ConfigMap)
        assert caches.stale == []
        assert {info["objects"] for info in caches.info()} == {2}
        await caches.stop()


async def test_set_lists_several_caches_as_one() -> None:
    async with serving(ScriptedApi()) as client:
        caches = CacheSet(client, timing=FAST)
        everything, mine = caches.cache(Selection(Pod)), caches.cache(Selection(Pod, labels="app=web"))
        caches.start()
        assert await caches.wait_synced(10) == []
        everything.replace([entry("a", 5, **WEB), entry("b", 6), entry("c", 7, **WEB)], "10")
        mine.replace([entry("a", 15, **WEB)], "20")
        assert [(each.key.name, each.version) for each in caches.list(Pod)] == [("a", 15), ("b", 6)]
        await caches.stop()


async def test_optional_kind_starts_and_stops_at_run_time() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]
    async with serving(api) as client:
        caches = CacheSet(client, timing=FAST)
        cache, told = caches.cache(Selection(Pod)), Told()
        cache.subscribe(told)
        for _ in range(2):
            caches.start(Pod)
            assert await cache.wait_synced(10)
            await caches.stop(Pod)
            assert not cache.synced
            assert caches.of(Pod) == []
        assert told.events == [("", "3"), ("3", "")] * 2


async def test_unsynced_cache_is_named_after_the_wait() -> None:
    api = ScriptedApi()
    api.lists = [{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods is forbidden"}]
    async with serving(api) as client:
        caches = CacheSet(client, timing=FAST)
        cache = caches.cache(Selection(Pod))
        caches.start()
        async with asyncio.timeout(30):
            while not cache.error:
                assert await caches.wait_synced(0.01) == [cache]
        assert caches.stale == [cache]
        assert "pods is forbidden" in cache.error
        await caches.stop()


async def test_metadata_only_asks_for_metadata() -> None:
    api = ScriptedApi()
    async with serving(api) as client:
        cache = Cache(client, Selection(Secret, metadata_only=True), timing=FAST)
        cache.start()
        assert await cache.wait_synced(10)
        await cache.stop()
    assert api.accepted[-1].startswith("application/json;as=PartialObjectMetadata")


async def test_10000_pods_of_8_kb_stay_below_150_mb() -> None:
    root = Path(__file__).parents[4]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.unit.runtime.cache_memory", stdout=asyncio.subprocess.PIPE, cwd=root
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    assert int(output) < 150


async def test_bookmark_moves_a_quiet_cache_on() -> None:
    api = ScriptedApi()

    async def script(stream: Stream) -> None:
        await stream.send("BOOKMARK", bookmark(500))
        await stream.hang()

    api.watches = [script]
    async with serving(api) as client:
        cache = Cache(client, Selection(Pod), timing=FAST)
        cache.start()
        assert await cache.wait_passed("500", 10)
        assert len(cache) == 0
        await cache.stop()
