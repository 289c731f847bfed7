"""What this process wrote and its caches do not show yet. Laid over them, nobody decides on older news than his own writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.entry import Entry, entry_of
from modelyard.runtime.store import Store


@dataclass(frozen=True)
class _Write:
    """One object as the API answered our last write of it; `entry` is None if it is gone."""

    entry: Entry | None
    uid: str
    version: str
    """The newest version of it that we know of."""
    stores: tuple[tuple[Store, int], ...]
    """Who will hear of it, and how often each had gone back in time by then."""

    def is_seen(self, key: Key) -> bool:
        return any(
            store.rewinds != rewinds
            or (self._is_lost(store, key) if self.entry is None else self._is_shown(store, key))
            for store, rewinds in self.stores
        )

    def _is_shown(self, store: Store, key: Key) -> bool:
        return store.has_seen(key, self.version)

    def _is_lost(self, store: Store, key: Key) -> bool:
        # An object that came and went may not even have been seen to come.
        return store.has_lost(key, self.uid) and (not self.version or store.has_passed(self.version))

    def over(self, cached: Entry | None) -> Entry | None:
        """What a reader should see, given what a cache shows."""
        if self.entry is None:
            return None if cached is None or cached.uid == self.uid else cached
        return cached if cached is not None and cached.version >= self.entry.version else self.entry


class Unseen:
    """The writes of one process that its caches have yet to show. Empty most of the time."""

    def __init__(self, keep_managers: str) -> None:
        self._keep_managers = keep_managers
        self._writes: dict[Kind, dict[Key, _Write]] = {}

    def wrote(self, kind: Kind, obj: Object, stores: Sequence[Store]) -> None:
        """The API answered a write with this object."""
        entry = entry_of(kind, msgspec.json.encode(obj), keep_managers=self._keep_managers)
        concerned = [store for store in stores if store.covers(entry) or store.get(entry.key) is not None]
        self._add(kind, entry.key, _Write(entry, entry.uid, entry.resource_version, _marked(concerned)))

    def deleted(self, kind: Kind, key: Key, uid: str, stores: Sequence[Store]) -> None:
        """We deleted that very object, and it is gone."""
        before = self._writes.get(kind, {}).get(key)
        version = before.version if before is not None and before.uid == uid else ""
        concerned = [store for store in stores if store.selection.namespace in ("", key.namespace)]
        self._add(kind, key, _Write(None, uid, version, _marked(concerned)))

    def over(self, kind: Kind, key: Key, cached: Entry | None) -> Entry | None:
        """What a reader should see of an object, given what the caches show."""
        write = self._current(kind).get(key)
        return cached if write is None else write.over(cached)

    def entries(self, kind: Kind) -> Iterator[Entry]:
        """The unseen objects of a kind that exist."""
        return iter([write.entry for write in self._current(kind).values() if write.entry is not None])

    def has(self, kind: Kind) -> bool:
        return bool(self._current(kind))

    def _add(self, kind: Kind, key: Key, write: _Write) -> None:
        if write.stores and not write.is_seen(key):
            self._writes.setdefault(kind, {})[key] = write
        else:
            self._writes.get(kind, {}).pop(key, None)

    def _current(self, kind: Kind) -> dict[Key, _Write]:
        """Without what has been seen by now."""
        writes = self._writes.get(kind)
        if not writes:
            return {}
        for key in [key for key, write in writes.items() if write.is_seen(key)]:
            del writes[key]
        return writes


def _marked(stores: Sequence[Store]) -> tuple[tuple[Store, int], ...]:
    return tuple((store, store.rewinds) for store in stores)
