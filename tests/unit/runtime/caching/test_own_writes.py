"""Own writes are read back at once, however late the watches are; what others did afterwards counts as soon as it is seen."""

from __future__ import annotations

import json
from typing import Any

from modelyard.kube.builtin import Pod
from modelyard.kube.kinds import Key, Object
from modelyard.runtime.caching.entry import Entry, entry_of
from modelyard.runtime.caching.own_writes import OwnWrites
from modelyard.runtime.caching.store import Store
from modelyard.runtime.caching.watching import Selection

KEY = Key("shop", "a")


def pod(version: int, *, uid: str = "first", **metadata: Any) -> Object:
    return {"metadata": {"name": "a", "namespace": "shop", "uid": uid, "resourceVersion": str(version), **metadata}}


def entry(version: int, **metadata: Any) -> Entry:
    return entry_of(Pod, json.dumps(pod(version, **metadata)).encode())


class WritesBench:
    def __init__(self, *entries: Entry, at: int, **selection: Any) -> None:
        self.store = Store(Selection(Pod, **selection))
        self.store.replace(entries, str(at))
        self.own_writes = OwnWrites("modelyard")

    def wrote(self, version: int, **metadata: Any) -> None:
        self.own_writes.wrote(Pod, pod(version, **metadata), [self.store])

    def deleted(self, uid: str = "first") -> None:
        self.own_writes.deleted(Pod, KEY, uid, [self.store])

    @property
    def version(self) -> str | None:
        found = self.own_writes.newest(Pod, KEY, self.store.get(KEY), [self.store])
        return None if found is None else found.resource_version


def test_an_object_that_was_made_is_there_before_its_event() -> None:
    bench = WritesBench(at=10)
    bench.wrote(11)
    assert bench.version == "11"
    assert [each.resource_version for each in bench.own_writes.entries(Pod, [bench.store])] == ["11"]


def test_an_update_hides_the_older_object_until_a_newer_one_comes() -> None:
    bench = WritesBench(entry(10), at=10)
    bench.wrote(13)
    bench.store.put(entry(12))
    assert bench.version == "13"
    bench.store.put(entry(14))
    assert bench.version == "14"
    assert not bench.own_writes.has(Pod)


def test_what_someone_deleted_after_our_write_is_gone_when_its_event_comes() -> None:
    bench = WritesBench(entry(10), at=10)
    bench.wrote(11)
    bench.store.remove(entry(12))
    assert bench.version is None
    assert not bench.own_writes.has(Pod)


def test_an_object_that_was_deleted_is_gone_before_its_event() -> None:
    bench = WritesBench(entry(10), at=10)
    bench.deleted()
    assert bench.version is None
    bench.store.remove(entry(11))
    assert not bench.own_writes.has(Pod)


def test_one_that_came_and_went_unseen_does_not_appear_when_its_first_event_comes() -> None:
    bench = WritesBench(at=10)
    bench.wrote(11)
    bench.deleted()
    bench.store.put(entry(11))
    assert bench.version is None
    bench.store.remove(entry(12))
    assert not bench.own_writes.has(Pod)


def test_a_namesake_made_after_our_deletion_is_seen() -> None:
    bench = WritesBench(entry(10), at=10)
    bench.deleted()
    bench.store.put(entry(12, uid="second"))
    assert bench.version == "12"


def test_a_restored_server_makes_our_writes_history() -> None:
    bench = WritesBench(entry(10), at=10)
    bench.wrote(11)
    bench.store.replace([entry(5)], "6")
    assert bench.version == "5"


def test_what_no_cache_follows_is_not_remembered() -> None:
    bench = WritesBench(at=10, labels="app=web")
    bench.wrote(11)
    assert bench.version is None
    assert not bench.own_writes.has(Pod)


def test_an_object_that_left_a_selection_is_shown_as_it_is_until_the_watch_says_so() -> None:
    bench = WritesBench(entry(10, labels={"app": "web"}), at=10, labels="app=web")
    bench.wrote(11)
    assert bench.version == "11"
    bench.store.remove(entry(11))
    assert bench.version is None
