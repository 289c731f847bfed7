"""The caches of one process, and the views that its readers have of them."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Iterable, Iterator, Mapping

from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.own_writes import OwnWrites
from modelyard.runtime.caching.store import IndexFn, Store, newest
from modelyard.runtime.caching.watching import Selection, Timing


class CacheView:
    """What one reader sees: the caches of what it declared, and no others, together with the process's own writes.

    Without that limit, what a controller reads would depend on which other controllers run in the same process.
    """

    def __init__(self, own_writes: OwnWrites) -> None:
        self._own_writes = own_writes
        self._by_kind: dict[Kind, list[Cache]] = {}

    def include(self, cache: Cache) -> None:
        caches = self._by_kind.setdefault(cache.selection.kind, [])
        if cache not in caches:
            caches.append(cache)

    def of(self, kind: Kind) -> builtins.list[Cache]:
        """The started caches of a kind that hold whole objects, or if there are none, those with metadata only."""
        started = [cache for cache in self._by_kind.get(kind, ()) if cache.started]
        return [cache for cache in started if not cache.selection.metadata_only] or started

    def whole(self, kind: Kind) -> builtins.list[Cache]:
        """The started caches of a kind that hold whole objects."""
        return [cache for cache in self._by_kind.get(kind, ()) if cache.started and not cache.selection.metadata_only]

    def get(self, kind: Kind, key: Key) -> Entry | None:
        """From all caches of the kind together."""
        caches = self.of(kind)
        return self._own_writes.newest(kind, key, newest(caches, key), caches)

    def outline(self, kind: Kind, key: Key) -> Entry | None:
        """An object's metadata, from caches that hold nothing else of it."""
        caches = [c for c in self._by_kind.get(kind, ()) if c.started and c.selection.metadata_only]
        return newest(caches, key)

    def list(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | str | None = None
    ) -> builtins.list[Entry]:
        caches = self.of(kind)
        if len(caches) == 1 and not self._own_writes.has(kind):
            return caches[0].list(namespace, labels)
        store = Store(Selection(kind))
        store.replace(self._found(kind, (entry for cache in caches for entry in cache.list(namespace))), "")
        return store.list(namespace, labels)

    def by_owner(self, kind: Kind, uid: str) -> builtins.list[Entry]:
        """The entries with an owner reference to that object."""
        return [entry for entry in self._each(kind, self.keys_by_owner(kind, uid)) if uid in entry.owner_uids]

    def keys_by_owner(self, kind: Kind, uid: str) -> builtins.list[Key]:
        """The keys of those entries, and perhaps of some that were among them a moment ago."""
        return [
            *(key for cache in self.whole(kind) for key in cache.keys_by_owner(uid)),
            *self._own_writes.keys(kind, (uid,)),
        ]

    def keys_of_own_writes(self, kind: Kind, labels: Mapping[str, str]) -> builtins.list[Key]:
        """The keys of objects that this process wrote lately with one of these labels."""
        return self._own_writes.keys(kind, [f"{name}={value}" for name, value in labels.items()])

    def by_manager(self, kind: Kind, manager: str) -> builtins.list[Entry]:
        """The entries on which that field manager holds fields."""
        cached = [entry.key for cache in self.whole(kind) for entry in cache.by_manager(manager)]
        found = self._each(kind, [*cached, *self._own_writes.keys(kind, (manager,))])
        return [entry for entry in found if any(held.manager == manager for held in entry.managers)]

    def by_index(self, kind: Kind, name: str, values: IndexFn, value: str) -> builtins.list[Entry]:
        """The entries that an index finds under a value. Asking for a new one builds it."""
        caches = self.of(kind)
        for cache in caches:
            cache.index(name, values)
        candidates = [entry for cache in caches for entry in cache.by_index(name, value)]
        if not self._own_writes.has(kind):
            return candidates if len(caches) == 1 else self._found(kind, candidates)
        return [entry for entry in self._found(kind, candidates) if value in values(entry.object)]

    def own_writes(self, kind: Kind) -> Iterator[Entry]:
        """The objects that this process wrote and the watches have not brought yet."""
        return self._own_writes.entries(kind, self.of(kind))

    def synced(self, kind: Kind) -> bool:
        """Is there a started cache of that kind, and are all of them listed?"""
        caches = self.of(kind)
        return bool(caches) and all(cache.synced for cache in caches)

    def _found(self, kind: Kind, candidates: Iterable[Entry]) -> builtins.list[Entry]:
        """Each of them once and as it is now, and what was written and not yet brought by a watch."""
        return self._each(kind, [entry.key for entry in (*candidates, *self.own_writes(kind))])

    def _each(self, kind: Kind, keys: Iterable[Key]) -> builtins.list[Entry]:
        return [entry for key in dict.fromkeys(keys) if (entry := self.get(kind, key)) is not None]


class CacheSet(CacheView):
    """All caches of one process, one for each selection, shared by everybody who asks for the same. As a view it shows everything."""

    def __init__(self, client: Client, *, keep_managers: str = "", timing: Timing | None = None) -> None:
        super().__init__(OwnWrites(keep_managers))
        self._client = client
        self._keep_managers = keep_managers
        self._timing = timing
        self._caches: dict[Selection, Cache] = {}
        self._demands: dict[Cache, set[str]] = {}
        """Of the caches that are there on demand only: who wants each now."""
        self._endings: dict[Cache, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[Cache]:
        return iter(list(self._caches.values()))

    def cache(self, selection: Selection) -> Cache:
        """The cache of a selection, made (not started) on first use."""
        cache = self._made(selection)
        self._demands.pop(cache, None)
        return cache

    def _made(self, selection: Selection) -> Cache:
        if selection not in self._caches:
            cache = Cache(self._client, selection, keep_managers=self._keep_managers, timing=self._timing)
            self._caches[selection] = cache
            self.include(cache)
        return self._caches[selection]

    def on_demand(self, selection: Selection) -> tuple[Cache, bool]:
        """The cache of a selection that is started while someone demands it; True if it was just made."""
        is_new = selection not in self._caches
        cache = self._made(selection)
        if is_new:
            self._demands[cache] = set()
        return cache, is_new

    def demand(self, cache: Cache, user: str) -> None:
        """From now on this user needs the cache; one that is always there needs no demand."""
        if cache not in self._demands:
            return
        self._demands[cache].add(user)
        if (ending := self._endings.pop(cache, None)) is not None:
            ending.cancel()
        cache.start()

    def release(self, cache: Cache, user: str) -> None:
        """The user needs the cache no longer. It ends a little later, so that coming and going does not start it over and over."""
        if cache not in self._demands:
            return
        self._demands[cache].discard(user)
        if not self._demands[cache] and cache not in self._endings:
            self._endings[cache] = asyncio.create_task(self._end(cache), name=f"end of {cache.selection}")

    async def _end(self, cache: Cache) -> None:
        await asyncio.sleep((self._timing or Timing()).linger)
        del self._endings[cache]
        await cache.stop()

    def is_wanted(self, cache: Cache) -> bool:
        """Is it always there, or does someone demand it now?"""
        return cache not in self._demands or bool(self._demands[cache])

    def is_on_demand(self, cache: Cache) -> bool:
        return cache in self._demands

    def view(self) -> CacheView:
        """A view that shows nothing yet; `include` adds caches to it."""
        return CacheView(self._own_writes)

    def wrote(self, kind: Kind, obj: Object) -> None:
        """The API answered a write of ours with this object: from now on nobody here reads an older one."""
        self._own_writes.wrote(kind, obj, self.whole(kind))

    def deleted(self, kind: Kind, key: Key, uid: str) -> None:
        """We deleted that very object, and it is gone: from now on nobody here reads it."""
        self._own_writes.deleted(kind, key, uid, self.whole(kind))

    def start(self, kind: Kind | None = None) -> None:
        """Starts the caches of a kind (None: all)."""
        for cache in self._chosen(kind):
            cache.start()

    async def stop(self, kind: Kind | None = None, *, clear: bool = True) -> None:
        """Stops the caches of a kind (None: all); they can be started again."""
        for ending in self._endings.values() if kind is None else ():
            ending.cancel()
        await asyncio.gather(*(cache.stop(clear=clear) for cache in self._chosen(kind)))

    async def wait_synced(self, timeout: float | None = None) -> builtins.list[Cache]:
        """Waits for every started cache; gives those that are not synced in time."""
        started = [cache for cache in self if cache.started]
        await asyncio.gather(*(cache.wait_synced(timeout) for cache in started))
        return [cache for cache in started if cache.started and not cache.synced]

    async def catch_up(self, timeout: float = 30.0) -> builtins.list[Cache]:
        """Brings every started cache to where the cluster is now; gives those that did not make it in time."""
        started = [cache for cache in self if cache.started]
        reached = await asyncio.gather(*(cache.catch_up(timeout) for cache in started))
        return [cache for cache, there in zip(started, reached, strict=True) if not there]

    @property
    def stale(self) -> builtins.list[Cache]:
        """The started caches whose content may be old: readiness asks for this."""
        return [cache for cache in self if cache.stale]

    def info(self) -> builtins.list[Object]:
        return [cache.info() for cache in self]

    def _chosen(self, kind: Kind | None) -> builtins.list[Cache]:
        return [cache for selection, cache in self._caches.items() if kind is None or selection.kind == kind]
