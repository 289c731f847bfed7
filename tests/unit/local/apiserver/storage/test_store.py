"""The store: versions, pending writes, history, and what survives on disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from modelyard.local.apiserver import ApiServer, StateUnusable
from modelyard.local.apiserver.storage.history import History
from modelyard.local.apiserver.storage.sqlite import SQLiteJournal
from modelyard.local.apiserver.storage.store import Change, Stale, Store, Stored, TooLarge, WriteFailed


def thing(name: str, **data: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}"}, "data": data}


async def test_every_write_gets_the_next_version() -> None:
    store = Store()
    first = await store.put("things", thing("a"), None)
    second = await store.put("things", thing("a", x=1), first)
    third = await store.put("others", thing("b"), None)
    assert first.version < second.version < third.version == store.version
    assert second.decode()["metadata"]["resourceVersion"] == str(second.version)
    assert await store.remove(second) == store.version
    assert store.get("things", "n", "a") is None


async def test_write_based_on_something_else_is_stale() -> None:
    store = Store()
    first = await store.put("things", thing("a"), None)
    with pytest.raises(Stale):
        await store.put("things", thing("a"), None)
    second = await store.put("things", thing("a", x=1), first)
    with pytest.raises(Stale) as caught:
        await store.put("things", thing("a", x=2), first)
    assert caught.value.latest is second
    with pytest.raises(Stale):
        await store.remove(first)


async def test_items_come_in_key_order_and_by_namespace() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a-1", "x"), ("a", "y"), ("a", "x")):
        await store.put("things", {"metadata": {"name": name, "namespace": namespace}}, None)
    assert [stored.key for stored in store.items("things")] == ["a-1/x", "a/x", "a/y", "b/x"]
    assert [stored.key for stored in store.items("things", "a")] == ["a/x", "a/y"]


async def test_past_states_are_undone_from_the_history() -> None:
    store = Store()
    a = await store.put("things", thing("a"), None)
    b = await store.put("things", thing("b"), None)
    version = store.version
    await store.remove(a)
    await store.put("things", thing("b", x=1), b)
    await store.put("things", thing("c"), None)
    past = store.items_at("things", "n", version)
    assert past is not None
    assert [(stored.name, stored.version) for stored in past] == [("a", a.version), ("b", b.version)]
    assert store.get_at("things", "n", "a", version) is a
    store.compact()
    assert store.items_at("things", "n", version) is None


async def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "MOST", 100)
    store = Store()
    stored = await store.put("things", thing("a"), None)
    for index in range(500):
        stored = await store.put("things", thing("a", x=index), stored)
    history = store.history("things")
    assert history.end - history.start <= history.MOST
    assert history.floor < store.version
    assert [change.version for change in history.since(store.version - 2)] == [store.version - 1, store.version]


async def test_object_that_is_too_large_is_refused() -> None:
    with pytest.raises(TooLarge):
        await Store().put("things", thing("a", x="x" * (2 << 20)), None)


class SlowJournal:
    """Keeps changes when told to."""

    def __init__(self) -> None:
        self.batches: list[list[Change]] = []
        self.fails = False

    def load(self) -> tuple[int, list[Stored]]:
        return 500, []

    def append(self, changes: Sequence[Change], version: int) -> None:
        if self.fails:
            raise OSError("no space left on device")
        self.batches.append(list(changes))

    def close(self) -> None:
        return None


async def test_write_is_visible_only_when_it_is_kept() -> None:
    store = Store(SlowJournal())
    seen: list[int] = []
    store.listen(lambda change: seen.append(change.version))
    write = asyncio.create_task(store.put("things", thing("a"), None))
    await asyncio.sleep(0)
    assert store.get("things", "n", "a") is None
    assert store.latest("things", "n", "a") is not None
    assert seen == []
    stored = await write
    assert store.get("things", "n", "a") is stored
    assert seen == [501]


async def test_concurrent_writes_share_transactions_in_order() -> None:
    journal = SlowJournal()
    store = Store(journal)
    await asyncio.gather(*(store.put("things", thing(f"t{index}"), None) for index in range(100)))
    assert len(journal.batches) < 5
    versions = [change.version for batch in journal.batches for change in batch]
    assert versions == list(range(501, 601))


async def test_write_on_top_of_a_pending_one() -> None:
    store = Store(SlowJournal())
    first = asyncio.create_task(store.put("things", thing("a"), None))
    await asyncio.sleep(0)
    pending = store.latest("things", "n", "a")
    second = await store.put("things", thing("a", x=1), pending)
    assert (await first).version < second.version
    assert store.get("things", "n", "a") is second


async def test_failed_journal_fails_the_write_and_all_that_build_on_it() -> None:
    journal = SlowJournal()
    store = Store(journal)
    journal.fails = True
    first = asyncio.create_task(store.put("things", thing("a"), None))
    await asyncio.sleep(0)
    second = asyncio.create_task(store.put("things", thing("a", x=1), store.latest("things", "n", "a")))
    results = await asyncio.gather(first, second, return_exceptions=True)
    assert all(isinstance(result, WriteFailed) for result in results)
    assert store.latest("things", "n", "a") is None
    journal.fails = False
    await store.put("things", thing("a"), None)


async def test_state_survives_a_restart(tmp_path: Path) -> None:
    store = Store(SQLiteJournal(tmp_path))
    a = await store.put("things", thing("a", x="ü"), None)
    b = await store.put("things", thing("b"), None)
    await store.put("things", thing("a", x="y"), a)
    await store.remove(b)
    version = store.version
    await store.close()
    again = Store(SQLiteJournal(tmp_path))
    assert again.version == version
    assert [stored.name for stored in again.items("things")] == ["a"]
    found = again.get("things", "n", "a")
    assert found is not None
    assert found.decode()["data"] == {"x": "y"}
    assert found.uid == "uid-a"
    changed = await again.put("things", thing("a", x="z"), found)
    assert changed.version == version + 1
    await again.close()


async def test_object_that_comes_and_goes_in_one_batch_leaves_nothing(tmp_path: Path) -> None:
    store = Store(SQLiteJournal(tmp_path))

    async def come_and_go(name: str) -> None:
        creating = asyncio.create_task(store.put("things", thing(name), None))
        await asyncio.sleep(0)
        pending = store.latest("things", "n", name)
        assert pending is not None
        await asyncio.gather(creating, store.remove(pending))

    await asyncio.gather(*(come_and_go(f"t{index}") for index in range(20)), store.put("things", thing("stays"), None))
    version = store.version
    await store.close()
    again = Store(SQLiteJournal(tmp_path))
    assert again.version == version
    assert [stored.name for stored in again.items("things")] == ["stays"]
    await again.close()


async def test_large_batch_is_kept_whole(tmp_path: Path) -> None:
    store = Store(SQLiteJournal(tmp_path, "relaxed"))
    await asyncio.gather(*(store.put("things", thing(f"t{index}"), None) for index in range(1500)))
    await store.close()
    again = Store(SQLiteJournal(tmp_path))
    assert again.count("things") == 1500
    await again.close()


async def test_second_server_on_one_directory_is_refused(tmp_path: Path) -> None:
    async with ApiServer(tmp_path):
        with pytest.raises(StateUnusable, match="is in use by another API server"):
            await ApiServer(tmp_path).start()
    async with ApiServer(tmp_path):
        pass


async def test_foreign_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(b"this is not a database" * 100)
    with pytest.raises(StateUnusable, match="cannot be read"):
        SQLiteJournal(tmp_path)
    assert file.read_bytes() == b"this is not a database" * 100
    assert {path.name for path in tmp_path.iterdir()} == {"state.db", "lock"}


async def test_other_programs_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(StateUnusable, match="another program"):
        SQLiteJournal(tmp_path)
    assert (tmp_path / "state.db").read_bytes() == before


async def test_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    SQLiteJournal(tmp_path).close()
    database = sqlite3.connect(tmp_path / "state.db")
    database.execute("PRAGMA user_version=99")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    before = (tmp_path / "state.db").read_bytes()
    with pytest.raises(StateUnusable, match="has format 99, written by a newer modelyard"):
        SQLiteJournal(tmp_path)
    assert (tmp_path / "state.db").read_bytes() == before


async def test_damaged_rows_are_refused(tmp_path: Path) -> None:
    store = Store(SQLiteJournal(tmp_path))
    await store.put("things", thing("a"), None)
    await store.close()
    database = sqlite3.connect(tmp_path / "state.db")
    database.execute("UPDATE objects SET value = x'7b' WHERE born > 0")
    database.commit()
    database.close()
    with pytest.raises(StateUnusable, match="restore it from a copy, or move it away"):
        Store(SQLiteJournal(tmp_path))
