"""What wakes a controller: the events of its resource, of its children and of what it watches, turned into keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.selectors import labels_equal
from modelyard.runtime.cache import CacheSet
from modelyard.runtime.cluster import UndeclaredKind, declared_kinds
from modelyard.runtime.controller import Controller, Owns, Predicate, Watch
from modelyard.runtime.desired import Ownership
from modelyard.runtime.entry import Entry
from modelyard.runtime.ownership import Owner, owner_keys
from modelyard.runtime.served import Served
from modelyard.runtime.store import Handler
from modelyard.runtime.watching import Selection


class _MetadataOnly(msgspec.Struct, gc=False):
    metadata: dict[str, Any]


_metadata = msgspec.json.Decoder(_MetadataOnly)


@dataclass(frozen=True)
class CachedObjects:
    """What a webhook reads: whatever the process has caches of."""

    caches: CacheSet
    served: Served

    def serves(self, kind: Kind) -> bool:
        return self.served.serves(kind)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        entry = self.caches.get(kind, Key(namespace if kind.namespaced else "", name))
        return entry.object if entry is not None else None

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        return [entry.object for entry in self.caches.list(kind, namespace or None, labels)]


@dataclass(frozen=True)
class CacheReader:
    """What a mapping function reads: the caches of the kinds that its controller declares."""

    caches: CacheSet
    controller: Controller

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        entry = self._check(kind).get(kind, Key(namespace if kind.namespaced else "", name))
        return entry.object if entry is not None else None

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        return [entry.object for entry in self._check(kind).list(kind, namespace or None, labels)]

    def _check(self, kind: Kind) -> CacheSet:
        if kind not in declared_kinds(self.controller):
            raise UndeclaredKind(
                f"a mapping of controller {self.controller.name} reads {kind}, which it does not declare"
            )
        return self.caches


def selection_of(
    kind: Kind,
    namespace: str | None,
    labels: Mapping[str, str] | None,
    limit: str | None,
    *,
    name: str | None = None,
    metadata_only: bool = False,
) -> Selection:
    """What to cache for a declaration; `limit` is the one namespace that the whole process may see."""
    where = (namespace or limit or "") if kind.namespaced else ""
    fields = f"metadata.name={name}" if name else ""
    return Selection(kind, where, str(labels_equal(labels)) if labels else "", fields, metadata_only)


class Sources:
    """The handlers of one controller, one for each cache that it needs."""

    def __init__(self, controller: Controller, caches: CacheSet, wake: Callable[[Key], None]) -> None:
        self._controller = controller
        self._reader = CacheReader(caches, controller)
        self._wake = wake
        self._by_manager: dict[str, Key] = {}
        """Whose contribution a field manager stands for."""

    def all(self, limit: str | None) -> Iterable[tuple[Selection, Handler]]:
        controller = self._controller
        if controller.kind is not None:
            for namespace in controller.namespaces or (None,):
                yield selection_of(controller.kind, namespace, None, limit), self._resource_changed
        for owns in controller.owns:
            yield selection_of(owns.kind, owns.namespace, owns.labels, limit), self._child_handler(owns)
        for watch in controller.watches:
            selection = selection_of(
                watch.kind, watch.namespace, watch.labels, limit, name=watch.name, metadata_only=watch.metadata_only
            )
            yield selection, self._watch_handler(watch)

    def _resource_changed(self, old: Entry | None, new: Entry | None) -> None:
        entry = new or old
        if entry is None:
            return
        manager = Owner(self._controller.name, entry.key, self._controller.kind).manager(
            self._controller.field_manager, Ownership.CONTRIBUTED
        )
        if new is None:
            self._by_manager.pop(manager, None)
        else:
            self._by_manager[manager] = entry.key
        self._wake(entry.key)

    def _child_handler(self, owns: Owns) -> Handler:
        name, kind = self._controller.name, self._controller.kind

        def changed(old: Entry | None, new: Entry | None) -> None:
            if not _is_of_interest(owns.predicate, old, new):
                return
            keys: dict[Key, None] = {}
            for entry in (old, new):
                if entry is None:
                    continue
                if entry.owner_uids or entry.labels:
                    metadata = _metadata.decode(entry.raw).metadata
                    keys |= dict.fromkeys(owner_keys({"metadata": metadata}, name, kind))
                keys |= dict.fromkeys(
                    self._by_manager[held.manager] for held in entry.managers if held.manager in self._by_manager
                )
            for key in keys:
                self._wake(key)

        return changed

    def _watch_handler(self, watch: Watch) -> Handler:
        def changed(old: Entry | None, new: Entry | None) -> None:
            if watch.to is None or not _is_of_interest(watch.predicate, old, new):
                return
            keys: dict[Key, None] = {}
            for entry in (old, new):
                if entry is not None:
                    keys |= dict.fromkeys(watch.to(entry.object, self._reader))
            for key in keys:
                self._wake(key)

        return changed


def _is_of_interest(predicate: Predicate | None, old: Entry | None, new: Entry | None) -> bool:
    return predicate is None or predicate(old.object if old else None, new.object if new else None)
