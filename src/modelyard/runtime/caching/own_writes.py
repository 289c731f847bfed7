"""What this process wrote and its caches do not show yet: laid over what they show, so that no reader misses its own writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.caching.entry import Entry, entry_of
from modelyard.runtime.caching.store import KeysByValue, Store

SWEEP_AT = 64


@dataclass(frozen=True)
class _Write:
    """One object as the API answered our last write of it; `entry` is None if we deleted it."""

    entry: Entry | None
    uid: str
    version: str
    """The newest version of the object that we know of."""
    stores: tuple[tuple[Store, int], ...]
    """The stores that will hear of it, each with how often it had gone back in time by then."""

    def is_awaited_by(self, key: Key, stores: Sequence[Store]) -> bool:
        """Does any of these stores still have to show the write?"""
        return any(store in stores and not self._is_shown(store, key, rewinds) for store, rewinds in self.stores)

    def is_shown(self, key: Key) -> bool:
        return all(self._is_shown(store, key, rewinds) for store, rewinds in self.stores)

    def _is_shown(self, store: Store, key: Key, rewinds: int) -> bool:
        if store.rewinds != rewinds:
            return True
        if self.entry is not None:
            return store.has_seen(key, self.version)
        # The store may never have seen an object that came and went quickly.
        return store.has_lost(key, self.uid) and (not self.version or store.has_passed(self.version))

    def newest(self, cached: Entry | None) -> Entry | None:
        """What a reader sees, given what its caches show."""
        if self.entry is None:
            return None if cached is None or cached.uid == self.uid else cached
        return cached if cached is not None and cached.version >= self.entry.version else self.entry


class OwnWrites:
    """The writes of one process that some of its caches have yet to show. Empty most of the time."""

    def __init__(self, keep_managers: str) -> None:
        self._keep_managers = keep_managers
        self._writes: dict[Kind, dict[Key, _Write]] = {}
        self._by_mark: dict[Kind, KeysByValue] = {}
        self._sweep_at: dict[Kind, int] = {}
        """So many writes of a kind are kept before those that every store shows are looked for."""

    def wrote(self, kind: Kind, obj: Object, stores: Sequence[Store]) -> None:
        """The API answered a write with this object."""
        entry = entry_of(kind, msgspec.json.encode(obj), keep_managers=self._keep_managers)
        concerned = [store for store in stores if store.covers(entry) or store.get(entry.key) is not None]
        self._add(kind, entry.key, _Write(entry, entry.uid, entry.resource_version, _marked(concerned)))

    def deleted(self, kind: Kind, key: Key, uid: str, stores: Sequence[Store]) -> None:
        """We deleted that very object, and it is gone."""
        before = self._writes.get(kind, {}).get(key)
        same = before is not None and before.uid == uid
        version = before.version if before is not None and same else ""
        awaiting = {store for store, _ in before.stores} if before is not None and same else set()
        concerned = [store for store in stores if store in awaiting or store.get(key) is not None]
        self._add(kind, key, _Write(None, uid, version, _marked(concerned)))

    def newest(self, kind: Kind, key: Key, cached: Entry | None, stores: Sequence[Store]) -> Entry | None:
        """What a reader of these stores sees of an object, given what they show."""
        write = self._writes.get(kind, {}).get(key)
        return cached if write is None or not write.is_awaited_by(key, stores) else write.newest(cached)

    def entries(self, kind: Kind, stores: Sequence[Store]) -> Iterator[Entry]:
        """The objects of a kind that exist and that one of these stores has yet to show."""
        return iter(
            [
                write.entry
                for key, write in self._current(kind).items()
                if write.entry is not None and write.is_awaited_by(key, stores)
            ]
        )

    def keys(self, kind: Kind, marks: Iterable[str]) -> list[Key]:
        """The keys of writes that carry one of these marks: the uid of an owner, a field manager, a label as `name=value`.

        Writes that every store shows by now may be among them.
        """
        index = self._by_mark.get(kind)
        return [] if index is None else [key for mark in marks for key in index.keys(mark)]

    def has(self, kind: Kind) -> bool:
        return bool(self._current(kind))

    def _add(self, kind: Kind, key: Key, write: _Write) -> None:
        writes = self._writes.setdefault(kind, {})
        if key in writes:
            self._drop(kind, key)
        if write.is_shown(key):
            return
        writes[key] = write
        index = self._by_mark.setdefault(kind, KeysByValue())
        for mark in _marks(write.entry):
            index.add(mark, key)
        if len(writes) >= self._sweep_at.get(kind, SWEEP_AT):
            self._sweep_at[kind] = 2 * len(self._current(kind)) + SWEEP_AT

    def _drop(self, kind: Kind, key: Key) -> None:
        write = self._writes[kind].pop(key)
        for mark in _marks(write.entry):
            self._by_mark[kind].discard(mark, key)

    def _current(self, kind: Kind) -> dict[Key, _Write]:
        """The writes that at least one store has yet to show."""
        writes = self._writes.get(kind)
        if not writes:
            return {}
        for key in [key for key, write in writes.items() if write.is_shown(key)]:
            self._drop(kind, key)
        return writes


def _marks(entry: Entry | None) -> list[str]:
    """What readers look entries up by."""
    if entry is None:
        return []
    managers = [held.manager for held in entry.managers]
    return [*entry.owner_uids, *managers, *(f"{name}={value}" for name, value in entry.labels.items())]


def _marked(stores: Sequence[Store]) -> tuple[tuple[Store, int], ...]:
    return tuple((store, store.rewinds) for store in stores)
