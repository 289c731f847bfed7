"""The `Cluster` that a pass meets when it runs for real: reads from caches, writes to the API, and a record of what was written."""

from __future__ import annotations

import asyncio
import builtins
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import msgspec

from modelyard.kube.builtin import Event
from modelyard.kube.client import Client, Propagation
from modelyard.kube.errors import AlreadyExists, ApiError, NotFound, Unreachable
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, labels_of, resource_version_of, uid_of
from modelyard.kube.selectors import parse_labels
from modelyard.kube.times import format_time
from modelyard.runtime.acting.cluster import Seen, created_by, managed_by, within
from modelyard.runtime.acting.ownership import (
    OWNER_KIND,
    OWNER_NAME,
    OWNER_NAMESPACE,
    SHARE_PREFIX,
    Owner,
    belongs_to,
    digest,
)
from modelyard.runtime.acting.slots import Slot, Slots
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.caches import CacheSet, CacheView
from modelyard.runtime.caching.entry import Entry, entry_of
from modelyard.runtime.caching.served import Served
from modelyard.runtime.caching.store import KeysByValue
from modelyard.runtime.declaring.controller import Controller, Index
from modelyard.runtime.declaring.desired import EventNote
from modelyard.runtime.declaring.world import T

LOG_BYTES = 1 << 20
"""More of a container's log is not read at once."""


class NotLeading(Exception):
    """A write was refused because another process may be acting by now."""


@dataclass(frozen=True)
class Change:
    """One version of one object, as a watch event names it."""

    kind: Kind
    key: Key
    uid: str
    version: str
    """Empty: the object is gone."""

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key} {'changed' if self.version else 'is gone'}"


@dataclass(frozen=True)
class Written:
    """One of our writes, for the caches to see before the key is taken up again."""

    kind: Kind
    key: Key
    object: Object | None
    """What the API answered; None if the object is gone."""
    uid: str

    @property
    def change(self) -> Change:
        return Change(self.kind, self.key, self.uid, resource_version_of(self.object) if self.object else "")


class Tracking:
    """Finds children by their tracking labels, in all caches of the process."""

    def __init__(self) -> None:
        self._indexes: dict[Kind, list[KeysByValue]] = {}

    def follow(self, cache: Cache) -> None:
        # One a cache: where two caches hold an object, one of them may stop without the other.
        index = KeysByValue()
        self._indexes.setdefault(cache.selection.kind, []).append(index)

        def changed(old: Entry | None, new: Entry | None) -> None:
            if old is not None:
                for value in _tracks(old.labels):
                    index.discard(value, old.key)
            if new is not None:
                for value in _tracks(new.labels):
                    index.add(value, new.key)

        cache.subscribe(changed)

    def keys(self, kind: Kind, values: Sequence[str]) -> list[Key]:
        return list(dict.fromkeys(k for index in self._indexes.get(kind, ()) for v in values for k in index.keys(v)))


def _tracks(labels: Mapping[str, str]) -> list[str]:
    values = [label for label in labels if label.startswith(SHARE_PREFIX)]
    if OWNER_KIND in labels:
        values.append(f"{labels[OWNER_KIND]}/{labels.get(OWNER_NAMESPACE, '')}/{labels.get(OWNER_NAME, '')}")
    return values


def _distinctive(labels: Mapping[str, str]) -> dict[str, str]:
    """Those of the tracking labels that name the owner itself, not only its type."""
    return {name: value for name, value in labels.items() if name == OWNER_NAME or name.startswith(SHARE_PREFIX)}


def _tracking_labels(owner: Owner) -> dict[str, str]:
    """The labels of what is tracked for the owner alone, and of what it shares with others."""
    return owner.labels | {SHARE_PREFIX + owner.token: owner.type_name}


class Fetched:
    """Whole objects of which the caches hold the metadata only: those that someone asked for, the last `most` of them."""

    def __init__(self, client: Client, most: int = 4096) -> None:
        self._client = client
        self._most = most
        self._kept: dict[tuple[Kind, Key], Entry] = {}

    async def get(self, kind: Kind, outline: Entry) -> Object | None:
        """The object whose metadata a cache shows; read only if it is not the version that we have."""
        place = (kind, outline.key)
        kept = self._kept.pop(place, None)
        if kept is None or kept.uid != outline.uid or kept.version < outline.version:
            found = await self._client.find(kind, *outline.key)
            if found is None:
                return None
            kept = entry_of(kind, msgspec.json.encode(found))
        self._kept[place] = kept
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return kept.object


@dataclass(frozen=True)
class Shared:
    """What all controllers of a process have in common."""

    client: Client
    caches: CacheSet
    served: Served
    tracking: Tracking
    clock: Callable[[], datetime]
    may_write: Callable[[], bool] = lambda: True
    """Asked before every write: is the lease still ours?"""

    @cached_property
    def fetched(self) -> Fetched:
        return Fetched(self.client)


@dataclass
class ApiCluster:
    """One pass's view of the API. It keeps what the pass wrote."""

    shared: Shared
    controller: Controller
    known: Mapping[tuple[str, str], Kind]
    """The kinds that the controller declares, by apiVersion and kind."""
    view: CacheView
    """The caches of what the controller declares."""
    slot: Slot = field(default_factory=lambda: Slot(Slots(1)))
    written: list[Written] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return self.shared.clock()

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def token(self, size: int) -> str:
        return secrets.token_urlsafe(size)[:size]

    def kind_of(self, obj: Object) -> Kind | None:
        name = (obj.get("apiVersion", ""), obj.get("kind", ""))
        return self.known.get(name) or self.shared.served.kind_of(obj)

    def serves(self, kind: Kind) -> bool:
        """A declared kind counts as served once its cache holds it all: an empty cache must not look like an empty cluster."""
        if kind not in self.shared.served:
            return False
        return (kind.api_version, kind.kind) not in self.known or self.view.synced(kind)

    def is_synced(self, kind: Kind) -> bool:
        return kind in self.shared.served and self.view.synced(kind)

    def is_complete(self, kind: Kind, namespace: str) -> bool:
        return any(
            cache.synced and not cache.selection.labels and not cache.selection.fields
            and cache.selection.namespace in ("", namespace)
            for cache in self.view.whole(kind)
        )  # fmt: skip

    def get(self, kind: Kind, key: Key) -> Object | None:
        entry = self.view.get(kind, key)
        return entry.object if entry is not None else None

    def list(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None) -> list[Object]:
        return [entry.object for entry in self.view.list(kind, namespace or None, labels)]

    def by_index(self, index: Index, value: str) -> builtins.list[Object]:
        name = f"{self.controller.name}/{index.name}"
        return [entry.object for entry in self.view.by_index(index.kind, name, index.values, value)]

    def look(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        entry = self.view.get(kind, key) if self.view.whole(kind) else None
        if entry is None:
            return None
        fields = entry.managed(manager)
        created = entry.managed(manager, operation="Update") is not None
        return Seen(entry.object, None if fields is None else msgspec.json.decode(fields), created)

    def children(self, kind: Kind, owner: Owner, besides: Collection[Key] = ()) -> builtins.list[Object]:
        view, labels = self.view, _tracking_labels(owner)
        keys: dict[Key, None] = dict.fromkeys(self.shared.tracking.keys(kind, _tracks(labels)))
        if owner.uid:
            keys |= dict.fromkeys(view.keys_by_owner(kind, owner.uid))
        keys |= dict.fromkeys(view.keys_of_own_writes(kind, _distinctive(labels)))
        found = [obj for key in keys if key not in besides and (obj := self.get(kind, key)) is not None]
        return [obj for obj in found if belongs_to(obj, owner)]

    def contributions(self, kind: Kind, manager: str) -> builtins.list[Key]:
        return [entry.key for entry in self.shared.caches.by_manager(kind, manager)]

    async def read(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        obj = await self.shared.client.find(kind, key.namespace, key.name)
        return None if obj is None else Seen(obj, managed_by(obj, manager), created_by(obj, manager))

    async def find(self, kind: Kind, key: Key) -> Object | None:
        if self.is_synced(kind) and (cached := self.get(kind, key)) is not None:
            return cached
        return await self.shared.client.find(kind, *key)

    async def fetch(self, kind: Kind, key: Key) -> Object | None:
        cached, outline = self.view.get(kind, key), self.view.outline(kind, key)
        if outline is None or (self.view.whole(kind) and cached is not None and cached.version >= outline.version):
            return cached.object if cached is not None and self.view.whole(kind) else None
        return await self.shared.fetched.get(kind, outline)

    async def apply(self, kind: Kind, obj: Object, *, manager: str, force: bool, new: bool = False) -> Object:
        self._check_lease()
        body = never_stored(obj) if new else obj
        made = await self.shared.client.apply(kind, body, field_manager=manager, force=force)
        self._wrote(kind, made)
        return made

    async def create(self, kind: Kind, obj: Object, *, manager: str) -> Object:
        self._check_lease()
        made = await self.shared.client.create(kind, obj, field_manager=manager)
        self._wrote(kind, made)
        return made

    async def patch(
        self, kind: Kind, key: Key, body: Object | builtins.list[Object], *, subresource: str = ""
    ) -> Object:
        self._check_lease()
        made = await self.shared.client.patch(
            kind,
            key.namespace,
            key.name,
            body,
            type="json" if isinstance(body, list) else "merge",
            subresource=subresource,
            field_manager=self.controller.field_manager,
        )
        self._wrote(kind, made)
        return made

    async def delete(
        self,
        kind: Kind,
        key: Key,
        *,
        uid: str,
        resource_version: str = "",
        grace: int | None = None,
        propagation: Propagation = "Background",
    ) -> bool:
        self._check_lease()
        try:
            answer = await self.shared.client.delete(
                kind, key.namespace, key.name, uid=uid or None, resource_version=resource_version or None,
                propagation=propagation, grace=grace,
            )  # fmt: skip
        except NotFound:
            answer = {"kind": "Status"}
        if gone := is_gone(answer):
            self.shared.caches.deleted(kind, key, uid)
            self.written.append(Written(kind, key, None, uid))
        else:
            self._wrote(kind, answer)
        return gone

    def _wrote(self, kind: Kind, made: Object) -> None:
        self.shared.caches.wrote(kind, made)
        self.written.append(Written(kind, key_of(made), made, uid_of(made)))

    async def emit(self, involved: Object, note: EventNote, component: str) -> None:
        self._check_lease()
        await emit(self.shared.client, involved, note, component, self.now)

    async def call(self, outside: Callable[[], Awaitable[T]], timeout: float) -> T:
        async with self.slot.lent():
            return await within(outside, timeout)

    async def logs(self, namespace: str, pod: str, container: str, *, lines: int) -> str:
        try:
            return await self.shared.client.logs(namespace, pod, container=container, tail=lines, limit_bytes=LOG_BYTES)
        except (ApiError, Unreachable):
            return ""

    def _check_lease(self) -> None:
        if not self.shared.may_write():
            raise NotLeading("the lease is no longer held")

    async def wait_until_seen(self, timeout: float) -> bool:
        """Waits until the caches show everything that this pass wrote; False if that took too long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        reached = True
        for write in self.written:
            for cache in self.view.of(write.kind):
                if not _concerns(cache, write):
                    continue
                left = max(deadline - loop.time(), 0.0)
                if write.object is None:
                    reached = await cache.wait_lost(write.key, write.uid, left) and reached
                else:
                    version = resource_version_of(write.object)
                    reached = await cache.wait_seen(write.key, version, left) and reached
        return reached


def is_gone(answer: Object) -> bool:
    """Says the API's answer to a deletion that the object is gone, and not only marked?

    If someone else ended it meanwhile, kube-apiserver answers with the object as it would have marked it, which no version
    stands for: no watch will ever show it.
    """
    metadata = answer.get("metadata") or {}
    marked = metadata.get("deletionTimestamp") and metadata.get("resourceVersion")
    return answer.get("kind") == "Status" or not marked


def never_stored(obj: Object) -> Object:
    """The object with a version that no stored one has: applied, it is created, or refused with a `Conflict`.

    That costs one request where a look for a namesake, and then an apply, would cost two and leave a gap between them.
    """
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": "1"}}


def _concerns(cache: Cache, write: Written) -> bool:
    """Will the cache hear of that write? One that selects by labels hears only of what matches."""
    chosen = cache.selection
    if chosen.namespace and chosen.namespace != write.key.namespace:
        return False
    if write.object is None or not (chosen.labels or chosen.fields):
        return True
    return not chosen.fields and parse_labels(chosen.labels).matches(labels_of(write.object))


async def emit(client: Client, involved: Object, note: EventNote, component: str, now: datetime) -> None:
    """Writes an Event; the same one again only counts up. Its name follows from its content, so a restart finds it too."""
    reference = {
        "apiVersion": involved.get("apiVersion"),
        "kind": involved.get("kind"),
        "namespace": involved["metadata"].get("namespace"),
        "name": involved["metadata"]["name"],
        "uid": involved["metadata"].get("uid"),
    }
    namespace = reference["namespace"] or "default"
    identity = digest(f"{reference['uid']}/{note.type}/{note.reason}/{note.message}/{component}", 16)
    name = f"{reference['name'][:230]}.{identity}"
    stamp = format_time(now)
    event: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {k: v for k, v in reference.items() if v},
        "type": note.type,
        "reason": note.reason,
        "message": note.message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
    }
    try:
        await client.create(Event, event)
    except AlreadyExists:
        known = await client.find(Event, namespace, name)
        again = {"count": int((known or {}).get("count") or 1) + 1, "lastTimestamp": stamp}
        await client.patch(Event, namespace, name, again)
