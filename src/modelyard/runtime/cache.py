"""What the cluster holds, kept current: caches that follow the API, shared by everyone who follows the same."""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Iterable, Iterator, Mapping

from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.entry import Entry
from modelyard.runtime.store import Handler, IndexFn, Store, newest
from modelyard.runtime.unseen import Unseen
from modelyard.runtime.watching import Reflector, Selection, Timing

log = logging.getLogger(__name__)

CATCH_UP_STEP = 1.0

__all__ = ["Cache", "CacheSet", "Entry", "Handler", "IndexFn", "Selection", "Store", "Timing", "newest"]


class Cache(Store):
    """A store that follows the API while it is started."""

    def __init__(
        self, client: Client, selection: Selection, *, keep_managers: str = "", timing: Timing | None = None
    ) -> None:
        super().__init__(selection)
        self._client = client
        self._keep_managers = keep_managers
        self._timing = timing
        self._reflector: Reflector | None = None
        self._task: asyncio.Task[None] | None = None
        self._synced = asyncio.Event()

    @property
    def started(self) -> bool:
        return self._task is not None

    @property
    def _dead(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    @property
    def stale(self) -> bool:
        """Started, but what it holds may be old."""
        return self._reflector is not None and (self._reflector.stale or self._dead)

    @property
    def error(self) -> str:
        """Why it is not current; empty while all is well."""
        if self._dead:
            return "the watch was cancelled"
        return self._reflector.error if self._reflector else ""

    def start(self) -> None:
        """Begins to follow; a no-op when it does already."""
        if self._task is None:
            self._reflector = Reflector(
                self._client, self.selection, self, keep_managers=self._keep_managers, timing=self._timing
            )
            self._spawn(self._reflector)

    async def stop(self, *, clear: bool = True) -> None:
        """Follows no more. `clear`: and holds nothing, so handlers see everything go."""
        task, self._task, self._reflector = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._synced.clear()
        if clear:
            self.clear()

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits for the first complete list; False if it did not come in time."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    async def catch_up(self, timeout: float = 30.0) -> bool:
        """Brings the cache to where the cluster is now: the first thing a new leader does. False if that took too long."""
        try:
            async with asyncio.timeout(timeout):
                version = await self._version_now()
                while not await self.wait_passed(version, CATCH_UP_STEP):
                    # A quiet collection sends no events that would prove it current, so it is read again.
                    if self._reflector is not None:
                        self._reflector.relist()
        except TimeoutError:
            return False
        return True

    async def _version_now(self) -> str:
        """The version of a consistent read, tried until it succeeds."""
        chosen = self.selection
        while True:
            try:
                page = await self._client.list_page(
                    chosen.kind,
                    chosen.namespace,
                    labels=chosen.labels,
                    fields=chosen.fields,
                    limit=1,
                    metadata_only=chosen.metadata_only,
                )
            except (ApiError, Unreachable) as error:
                log.info("%s: %s", chosen, error)
                await asyncio.sleep(CATCH_UP_STEP)
            else:
                return page.resource_version

    def replace(self, entries: Iterable[Entry], resource_version: str) -> None:
        super().replace(entries, resource_version)
        if self._reflector is not None:
            self._synced.set()

    def info(self) -> Object:
        """For the debug page."""
        reflector = self._reflector
        return {
            "selection": str(self.selection),
            "objects": len(self),
            "bytes": self.size(),
            "resourceVersion": self.resource_version,
            "state": type(reflector.state).__name__ if reflector else "Stopped",
            "synced": self.synced,
            "stale": self.stale,
            "relists": reflector.relists if reflector else 0,
            "error": self.error,
        }

    def _spawn(self, reflector: Reflector) -> None:
        task = asyncio.create_task(reflector.run(), name=f"watch {self.selection}")
        self._task = task

        def ended(_: asyncio.Task[None]) -> None:
            if self._task is not task:
                return
            # Only `stop` may end it. When the loop shuts down all tasks are cancelled; a failure must not be the end.
            if not task.cancelled():
                log.error("%s: the watch failed and is started again", self.selection, exc_info=task.exception())
                self._spawn(reflector)

        task.add_done_callback(ended)


class CacheSet:
    """The caches of one process, one a selection, shared by everybody who asks for the same.

    What it is told of the process's own writes is part of what it shows, before the watches bring it.
    """

    def __init__(self, client: Client, *, keep_managers: str = "", timing: Timing | None = None) -> None:
        self._client = client
        self._keep_managers = keep_managers
        self._timing = timing
        self._caches: dict[Selection, Cache] = {}
        self._by_kind: dict[Kind, builtins.list[Cache]] = {}
        self._unseen = Unseen(keep_managers)

    def __iter__(self) -> Iterator[Cache]:
        return iter(list(self._caches.values()))

    def cache(self, selection: Selection) -> Cache:
        """The cache of a selection, made (not started) on first use."""
        if selection not in self._caches:
            cache = Cache(self._client, selection, keep_managers=self._keep_managers, timing=self._timing)
            self._caches[selection] = cache
            self._by_kind.setdefault(selection.kind, []).append(cache)
        return self._caches[selection]

    def of(self, kind: Kind) -> builtins.list[Cache]:
        """The started caches of a kind that hold whole objects, or if there are none, those with metadata only."""
        started = [cache for cache in self._by_kind.get(kind, ()) if cache.started]
        return [cache for cache in started if not cache.selection.metadata_only] or started

    def get(self, kind: Kind, key: Key) -> Entry | None:
        """From all caches of the kind together."""
        return self._unseen.over(kind, key, newest(self.of(kind), key))

    def outline(self, kind: Kind, key: Key) -> Entry | None:
        """An object's metadata, from caches that hold nothing else of it."""
        caches = [c for c in self._by_kind.get(kind, ()) if c.started and c.selection.metadata_only]
        return newest(caches, key)

    def list(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | str | None = None
    ) -> builtins.list[Entry]:
        caches = self.of(kind)
        if len(caches) == 1 and not self._unseen.has(kind):
            return caches[0].list(namespace, labels)
        store = Store(Selection(kind))
        store.replace(self._found(kind, (entry for cache in caches for entry in cache.list(namespace))), "")
        return store.list(namespace, labels)

    def by_owner(self, kind: Kind, uid: str) -> builtins.list[Entry]:
        """The entries with an owner reference to that object."""
        candidates = [entry for cache in self._whole(kind) for entry in cache.by_owner(uid)]
        return [entry for entry in self._found(kind, candidates) if uid in entry.owner_uids]

    def by_manager(self, kind: Kind, manager: str) -> builtins.list[Entry]:
        """The entries on which that field manager holds fields."""
        candidates = [entry for cache in self._whole(kind) for entry in cache.by_manager(manager)]
        found = self._found(kind, candidates)
        return [entry for entry in found if any(held.manager == manager for held in entry.managers)]

    def _found(self, kind: Kind, candidates: Iterable[Entry]) -> builtins.list[Entry]:
        """Each of them once and as it is now, and what was written and is not seen yet."""
        keys = dict.fromkeys(entry.key for entry in candidates)
        keys |= dict.fromkeys(entry.key for entry in self._unseen.entries(kind))
        return [entry for key in keys if (entry := self.get(kind, key)) is not None]

    def _whole(self, kind: Kind) -> builtins.list[Cache]:
        return [cache for cache in self.of(kind) if not cache.selection.metadata_only]

    def unseen(self, kind: Kind) -> Iterator[Entry]:
        """What was written here and no watch has brought yet."""
        return self._unseen.entries(kind)

    def wrote(self, kind: Kind, obj: Object) -> None:
        """The API answered a write of ours with this object: from now on nobody here reads an older one."""
        self._unseen.wrote(kind, obj, self._whole(kind))

    def deleted(self, kind: Kind, key: Key, uid: str) -> None:
        """We deleted that very object, and it is gone: from now on nobody here reads it."""
        self._unseen.deleted(kind, key, uid, self._whole(kind))

    def start(self, kind: Kind | None = None) -> None:
        """Starts the caches of a kind (None: all)."""
        for cache in self._chosen(kind):
            cache.start()

    async def stop(self, kind: Kind | None = None, *, clear: bool = True) -> None:
        """Stops the caches of a kind (None: all); they can be started again."""
        await asyncio.gather(*(cache.stop(clear=clear) for cache in self._chosen(kind)))

    def synced(self, kind: Kind) -> bool:
        """Is there a started cache of that kind, and are all of them listed?"""
        caches = self.of(kind)
        return bool(caches) and all(cache.synced for cache in caches)

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
