"""Follows the kinds that only resources name (`Wraps`): a watch begins with the first resource that names one and ends with the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from modelyard.kube.kinds import Key, Kind
from modelyard.runtime.acting.apicluster import Shared
from modelyard.runtime.acting.sources import selection_of
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.caches import CacheView
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.store import Handler
from modelyard.runtime.declaring.controller import Wraps

Name = tuple[str, str]
"""An apiVersion and a kind: all that a resource says of what it wraps."""


class WrappedKinds:
    """Of one controller."""

    def __init__(
        self,
        user: str,
        wraps: Wraps,
        shared: Shared,
        view: CacheView,
        namespace: str | None,
        handler: Callable[[Kind], Handler],
    ) -> None:
        """`handler` makes what is told of the events of a kind."""
        self._user = user
        self._wraps = wraps
        self._shared = shared
        self._view = view
        self._namespace = namespace
        self._handler = handler
        self._named: dict[Key, frozenset[Name]] = {}
        self._users: dict[Name, set[Key]] = {}
        self._caches: dict[Kind, Cache] = {}

    def resource_changed(self, old: Entry | None, new: Entry | None) -> None:
        """Told of every event of a resource."""
        entry = new or old
        if entry is None:
            return
        names = frozenset(self._wraps.kinds(new.object)) if new is not None else frozenset()
        before = self._named.pop(entry.key, frozenset())
        if names:
            self._named[entry.key] = names
        for name in names - before:
            self._users.setdefault(name, set()).add(entry.key)
            self._demand(name)
        for name in before - names:
            users = self._users.get(name, set())
            users.discard(entry.key)
            if not users:
                self._users.pop(name, None)
                self._release(name)

    def served_changed(self, came: Iterable[Kind], went: Iterable[Kind]) -> set[Key]:
        """Kinds came or went; gives the keys that are concerned."""
        concerned: set[Key] = set()
        for kind in (*came, *went):
            name = (kind.api_version, kind.kind)
            concerned |= self._users.get(name, set())
        for kind in came:
            if (kind.api_version, kind.kind) in self._users:
                self._demand((kind.api_version, kind.kind))
        for kind in went:
            if (kind.api_version, kind.kind) in self._users:
                self._release((kind.api_version, kind.kind), kind)
        return concerned

    @property
    def caches(self) -> list[Cache]:
        """The watches that are open for it now."""
        return [cache for cache in self._caches.values() if cache.started]

    def _demand(self, name: Name) -> None:
        kind = self._shared.served.kind_of({"apiVersion": name[0], "kind": name[1]})
        if kind is None:
            return  # Its coming is told by `served_changed`.
        if kind not in self._caches:
            selection = selection_of(kind, None, self._wraps.labels or None, self._namespace)
            cache, is_new = self._shared.caches.on_demand(selection)
            if is_new:
                self._shared.tracking.follow(cache)
            self._view.include(cache)
            cache.subscribe(self._handler(kind))
            self._caches[kind] = cache
        self._shared.caches.demand(self._caches[kind], self._user)

    def _release(self, name: Name, kind: Kind | None = None) -> None:
        kind = kind or next((k for k in self._caches if (k.api_version, k.kind) == name), None)
        if kind is not None and kind in self._caches:
            self._shared.caches.release(self._caches[kind], self._user)
