"""The objects of one collection in memory, with indexes; it tells its handlers what changed and does no I/O."""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from modelyard.kube.kinds import Key, Object
from modelyard.kube.selectors import parse_labels
from modelyard.runtime.caching.entry import Entry, version_number
from modelyard.runtime.caching.watching import Selection

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Entry | None, Entry | None], None]
"""`(old, new)`: old is None when the object is new, new is None when it is gone."""
IndexFn: TypeAlias = Callable[[Object], Iterable[str]]
"""The index values of an object; it is found under each of them."""


class KeysByValue:
    """Finds keys by a value that several objects may share."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        # Dicts without values instead of sets: they keep the order of arrival.
        self._keys: dict[str, dict[Key, None]] = {}

    def add(self, value: str, key: Key) -> None:
        self._keys.setdefault(value, {})[key] = None

    def discard(self, value: str, key: Key) -> None:
        keys = self._keys.get(value)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._keys[value]

    def keys(self, value: str) -> builtins.list[Key]:
        return list(self._keys.get(value, ()))


class Store:
    """One collection. Fed by a reflector, or by hand in tests."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.resource_version = ""
        self.rewinds = 0
        """How often a list was older than what was known: what we remember of that future counts no more."""
        self._version = -1
        self._entries: dict[Key, Entry] = {}
        self._by_namespace = KeysByValue()
        self._by_owner = KeysByValue()
        self._by_manager = KeysByValue()
        self._by_function: dict[str, tuple[IndexFn, KeysByValue]] = {}
        self._values: dict[str, dict[Key, tuple[str, ...]]] = {}
        self._handlers: list[Handler] = []
        self._waiters: set[_Waiter] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, key: Key) -> Entry | None:
        return self._entries.get(key)

    def list(self, namespace: str | None = None, labels: Mapping[str, str] | str | None = None) -> builtins.list[Entry]:
        """The entries in a namespace (None: in all) that have the labels, or match the selector."""
        entries = list(self._entries.values()) if namespace is None else self._found(self._by_namespace.keys(namespace))
        if not labels:
            return entries
        if isinstance(labels, str):
            selector = parse_labels(labels)
            return [entry for entry in entries if selector.matches(entry.labels)]
        wanted = labels.items()
        return [entry for entry in entries if wanted <= entry.labels.items()]

    def by_owner(self, uid: str) -> builtins.list[Entry]:
        """The entries with an owner reference to that object."""
        return self._found(self._by_owner.keys(uid))

    def keys_by_owner(self, uid: str) -> builtins.list[Key]:
        return self._by_owner.keys(uid)

    def by_manager(self, manager: str) -> builtins.list[Entry]:
        """The entries on which that field manager holds fields (of the managers whose fields are kept)."""
        return self._found(self._by_manager.keys(manager))

    def by_index(self, name: str, value: str) -> builtins.list[Entry]:
        return self._found(self._by_function[name][1].keys(value))

    def index(self, name: str, function: IndexFn) -> None:
        """Adds an index; asking twice for the same name keeps the first."""
        if name in self._by_function:
            return
        self._by_function[name] = (function, KeysByValue())
        self._values[name] = {}
        for entry in self._entries.values():
            self._index_by_function(name, entry)

    def covers(self, entry: Entry) -> bool:
        """Is an object like this one part of the selection? Unknown where fields are selected: then no."""
        chosen = self.selection
        if chosen.fields or (chosen.namespace and chosen.namespace != entry.key.namespace):
            return False
        return not chosen.labels or parse_labels(chosen.labels).matches(entry.labels)

    def subscribe(self, handler: Handler) -> None:
        """Calls `handler` for everything that is there, and from now on for every change."""
        self._handlers.append(handler)
        for entry in self:
            self._call(handler, None, entry)

    def unsubscribe(self, handler: Handler) -> None:
        self._handlers.remove(handler)

    def has_passed(self, resource_version: str) -> bool:
        """Has everything up to that version been seen?"""
        return 0 <= version_number(resource_version) <= self._version

    def has_seen(self, key: Key, resource_version: str) -> bool:
        """Would a read show the object as it was at that version, or newer?

        It may also be gone by then, or be outside the selection: then the collection as a whole has passed the version.
        """
        entry = self._entries.get(key)
        if entry is not None and entry.version >= version_number(resource_version) >= 0:
            return True
        return self.has_passed(resource_version)

    def has_lost(self, key: Key, uid: str) -> bool:
        """Is that very object gone (though another of its name may be there)?"""
        entry = self._entries.get(key)
        return entry is None or entry.uid != uid

    async def wait_passed(self, resource_version: str, timeout: float) -> bool:
        return await self.wait_until(lambda: self.has_passed(resource_version), timeout)

    async def wait_seen(self, key: Key, resource_version: str, timeout: float) -> bool:
        return await self.wait_until(lambda: self.has_seen(key, resource_version), timeout)

    async def wait_lost(self, key: Key, uid: str, timeout: float) -> bool:
        return await self.wait_until(lambda: self.has_lost(key, uid), timeout)

    def replace(self, entries: Iterable[Entry], resource_version: str) -> None:
        fresh = {entry.key: entry for entry in entries}
        changes: list[tuple[Entry | None, Entry | None]] = []
        for key in [key for key in self._entries if key not in fresh]:
            changes.append((self._drop(key), None))
        for entry in fresh.values():
            old = self._entries.get(entry.key)
            if old is None or (old.uid, old.resource_version) != (entry.uid, entry.resource_version):
                changes.append((self._insert(entry), entry))
        # A list is the truth also when it is older than what we had: a restored server counts from the past.
        self.rewinds += version_number(resource_version) < self._version
        self.resource_version, self._version = resource_version, version_number(resource_version)
        # Handlers run when all is in place: what they read must fit together.
        for old, new in changes:
            self._emit(old, new)
        self._wake()

    def put(self, entry: Entry) -> None:
        old = self._insert(entry)
        self._advance(entry.resource_version)
        if old is None or (old.uid, old.resource_version) != (entry.uid, entry.resource_version):
            self._emit(old, entry)
        self._wake()

    def remove(self, entry: Entry) -> None:
        old = self._drop(entry.key)
        self._advance(entry.resource_version)
        if old is not None:
            self._emit(old, None)
        self._wake()

    def progress(self, resource_version: str) -> None:
        self._advance(resource_version)
        self._wake()

    def clear(self) -> None:
        """Everything is gone, and nothing is known any more."""
        self.replace((), "")

    def size(self) -> int:
        """The bytes of all objects."""
        return sum(len(entry.raw) for entry in self._entries.values())

    def _found(self, keys: builtins.list[Key]) -> builtins.list[Entry]:
        return [self._entries[key] for key in keys]

    def _advance(self, resource_version: str) -> None:
        number = version_number(resource_version)
        if number > self._version or self._version < 0:
            self.resource_version, self._version = resource_version, number

    def _insert(self, entry: Entry) -> Entry | None:
        key = entry.key
        old = self._drop(key) if key in self._entries else None
        self._entries[key] = entry
        self._by_namespace.add(key.namespace, key)
        for uid in entry.owner_uids:
            self._by_owner.add(uid, key)
        for held in entry.managers:
            self._by_manager.add(held.manager, key)
        for name in self._by_function:
            self._index_by_function(name, entry)
        return old

    def _drop(self, key: Key) -> Entry | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._by_namespace.discard(key.namespace, key)
        for uid in entry.owner_uids:
            self._by_owner.discard(uid, key)
        for held in entry.managers:
            self._by_manager.discard(held.manager, key)
        for name, (_, index) in self._by_function.items():
            for value in self._values[name].pop(key, ()):
                index.discard(value, key)
        return entry

    def _index_by_function(self, name: str, entry: Entry) -> None:
        function, index = self._by_function[name]
        try:
            values = tuple(function(entry.object))
        except Exception:
            log.exception("%s: index %s cannot read %s; it is not found by it", self.selection, name, entry.key)
            return
        if values:
            self._values[name][entry.key] = values
            for value in values:
                index.add(value, entry.key)

    def _emit(self, old: Entry | None, new: Entry | None) -> None:
        for handler in tuple(self._handlers):
            self._call(handler, old, new)

    def _call(self, handler: Handler, old: Entry | None, new: Entry | None) -> None:
        try:
            handler(old, new)
        except Exception:
            # One handler's fault must not keep the event from the others, nor stop the watch.
            entry = new or old
            log.exception("%s: a handler failed on %s", self.selection, entry.key if entry else "?")

    def _wake(self) -> None:
        for waiter in tuple(self._waiters):
            if waiter.condition() and not waiter.future.done():
                waiter.future.set_result(None)

    async def wait_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Waits for something that changes in this store; asked again after every change."""
        if condition():
            return True
        waiter = _Waiter(condition, asyncio.get_running_loop().create_future())
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter.future
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True


@dataclass(frozen=True, eq=False)
class _Waiter:
    condition: Callable[[], bool]
    future: asyncio.Future[None]


def newest(stores: Sequence[Store], key: Key) -> Entry | None:
    """One object from several caches of one kind: the newest version counts.

    They are not equally far along. If one that covers the object has passed that version and does not hold it, it is gone.
    """
    found = [entry for store in stores if (entry := store.get(key)) is not None]
    if not found:
        return None
    entry = max(found, key=lambda each: each.version)
    for store in stores:
        if store.get(key) is None and store.covers(entry) and store.has_passed(entry.resource_version):
            return None
    return entry
