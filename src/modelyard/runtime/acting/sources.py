"""What wakes a controller: the events of its resource, of its children and of what it watches, turned into keys."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.selectors import labels_equal
from modelyard.runtime.acting.apicluster import Change
from modelyard.runtime.acting.cluster import UndeclaredKind, declared_index, declared_kinds
from modelyard.runtime.acting.ownership import Owner, owner_keys
from modelyard.runtime.caching.caches import CacheView
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.served import Served
from modelyard.runtime.caching.store import Handler
from modelyard.runtime.caching.watching import Selection
from modelyard.runtime.declaring.controller import Controller, Owns, Predicate, Watch
from modelyard.runtime.declaring.desired import Ownership
from modelyard.runtime.webhooks.declarations import NotReadable

READABLE_TIMEOUT = 5.0
"""A webhook waits at most so long for its caches: shorter than the API waits for the webhook."""
READABLE_POLL = 0.05


class _MetadataOnly(msgspec.Struct, gc=False):
    metadata: dict[str, Any]


_metadata = msgspec.json.Decoder(_MetadataOnly)


@dataclass(frozen=True)
class CachedObjects:
    """What a webhook reads: the caches of the kinds that it declares in `reads`."""

    name: str
    view: CacheView
    served: Served
    declared: frozenset[Kind]

    async def wait_readable(self) -> None:
        """An empty cache must not look like an empty cluster."""
        try:
            async with asyncio.timeout(READABLE_TIMEOUT):
                while self._unread():
                    await asyncio.sleep(READABLE_POLL)
        except TimeoutError:
            names = ", ".join(kind.resource for kind in self._unread())
            raise NotReadable(f"{names} are still being read; try again in a moment") from None

    def _unread(self) -> list[Kind]:
        if not self.served.known:
            return sorted(self.declared, key=str)
        return [kind for kind in sorted(self.declared, key=str) if kind in self.served and not self.view.synced(kind)]

    def serves(self, kind: Kind) -> bool:
        return self.served.serves(kind)

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        if not self.served.known:
            raise NotReadable("which kinds the API serves is still being read; try again in a moment")
        return self.served.kind_of({"apiVersion": api_version, "kind": kind})

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        entry = self._check(kind).get(kind, Key(namespace if kind.namespaced else "", name))
        return entry.object if entry is not None else None

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        return [entry.object for entry in self._check(kind).list(kind, namespace or None, labels)]

    def _check(self, kind: Kind) -> CacheView:
        if kind not in self.declared:
            raise UndeclaredKind(f"webhook {self.name} reads {kind} but does not declare it: add it to `reads`")
        return self.view


@dataclass(frozen=True)
class CacheReader:
    """What a mapping function reads: the caches of the kinds that its controller declares."""

    view: CacheView
    controller: Controller

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        entry = self._check(kind).get(kind, Key(namespace if kind.namespaced else "", name))
        return entry.object if entry is not None else None

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        return [entry.object for entry in self._check(kind).list(kind, namespace or None, labels)]

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        index = declared_index(self.controller, name)
        full = f"{self.controller.name}/{name}"
        return [entry.object for entry in self._check(index.kind).by_index(index.kind, full, index.values, value)]

    def _check(self, kind: Kind) -> CacheView:
        if kind not in declared_kinds(self.controller):
            raise UndeclaredKind(
                f"a mapping of controller {self.controller.name} reads {kind}, which it does not declare"
            )
        return self.view


def selection_of(
    kind: Kind,
    namespace: str | None,
    labels: Mapping[str, str] | str | None,
    limit: str | None,
    *,
    name: str | None = None,
    metadata_only: bool = False,
) -> Selection:
    """What to cache for a declaration; `limit` is the one namespace that the whole process may see."""
    where = (namespace or limit or "") if kind.namespaced else ""
    fields = f"metadata.name={name}" if name else ""
    selector = labels if isinstance(labels, str) else str(labels_equal(labels)) if labels else ""
    return Selection(kind, where, selector, fields, metadata_only)


class Sources:
    """The handlers of one controller, one for each cache that it needs."""

    def __init__(self, controller: Controller, view: CacheView, wake: Callable[[Key, Change], None]) -> None:
        self._controller = controller
        self.reader = CacheReader(view, controller)
        self._wake = wake
        self._by_manager: dict[str, Key] = {}
        """Whose contribution a field manager stands for."""

    def all(self, limit: str | None) -> Iterable[tuple[Selection, Handler]]:
        controller = self._controller
        for face in controller.faces:
            if face.kind is not None:
                for namespace in controller.namespaces or (None,):
                    yield selection_of(face.kind, namespace, None, limit), partial(self._resource_changed, face)
        for owns in controller.owns:
            yield selection_of(owns.kind, owns.namespace, owns.labels, limit), self._child_handler(owns)
        for watch in controller.watches:
            selection = selection_of(
                watch.kind, watch.namespace, watch.labels, limit, name=watch.name, metadata_only=watch.metadata_only
            )
            yield selection, self._watch_handler(watch)

    def _resource_changed(self, face: Controller, old: Entry | None, new: Entry | None) -> None:
        entry = new or old
        if entry is None or face.kind is None:
            return
        key = face.key_for(entry.key)
        manager = Owner(face.name, entry.key, face.kind).manager(face.field_manager, Ownership.CONTRIBUTED)
        if new is None:
            self._by_manager.pop(manager, None)
        else:
            self._by_manager[manager] = key
        self._wake(key, _change(face.kind, entry, gone=new is None))

    def wrapped_handler(self, kind: Kind) -> Handler:
        """For the events of children of a kind that is known only at run time."""
        return self._child_handler(Owns(kind))

    def _child_handler(self, owns: Owns) -> Handler:
        faces = self._controller.faces

        def changed(old: Entry | None, new: Entry | None) -> None:
            if not _is_of_interest(owns.predicate, old, new):
                return
            keys: dict[Key, None] = {}
            for entry in (old, new):
                if entry is None:
                    continue
                if entry.owner_uids or entry.labels:
                    metadata = _metadata.decode(entry.raw).metadata
                    for face in faces:
                        found = owner_keys({"metadata": metadata}, face.name, face.kind)
                        keys |= dict.fromkeys(face.key_for(key) for key in found)
                keys |= dict.fromkeys(
                    self._by_manager[held.manager] for held in entry.managers if held.manager in self._by_manager
                )
            self._wake_all(keys, owns.kind, old, new)

        return changed

    def _watch_handler(self, watch: Watch) -> Handler:
        def changed(old: Entry | None, new: Entry | None) -> None:
            if watch.to is None or not _is_of_interest(watch.predicate, old, new):
                return
            keys: dict[Key, None] = {}
            for entry in (old, new):
                if entry is not None:
                    keys |= dict.fromkeys(watch.to(entry.object, self.reader))
            self._wake_all(keys, watch.kind, old, new)

        return changed

    def _wake_all(self, keys: Iterable[Key], kind: Kind, old: Entry | None, new: Entry | None) -> None:
        entry = new or old
        if entry is not None:
            change = _change(kind, entry, gone=new is None)
            for key in keys:
                self._wake(key, change)


def _change(kind: Kind, entry: Entry, *, gone: bool) -> Change:
    return Change(kind, entry.key, entry.uid, "" if gone else entry.resource_version)


def _is_of_interest(predicate: Predicate | None, old: Entry | None, new: Entry | None) -> bool:
    return predicate is None or predicate(old.object if old else None, new.object if new else None)
