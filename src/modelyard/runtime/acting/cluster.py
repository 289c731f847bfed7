"""What a pass reads and does. The API behind caches, a dry one for plans and one in memory for tests all look like this."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from modelyard.kube.client import Propagation
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.acting.ownership import Owner
from modelyard.runtime.declaring.controller import Controller, Index
from modelyard.runtime.declaring.desired import EventNote
from modelyard.runtime.declaring.world import T


@dataclass(frozen=True)
class Seen:
    """A live object, and the fields that one field manager has applied on it (its FieldsV1; None: nothing)."""

    object: Object
    managed: Object | None = None
    created: bool = False
    """The field manager created it by POST."""

    @property
    def uid(self) -> str:
        return str(self.object["metadata"].get("uid") or "")

    @property
    def terminating(self) -> bool:
        return bool(self.object["metadata"].get("deletionTimestamp"))


def managed_by(obj: Object, manager: str) -> Object | None:
    """What a field manager has applied, from the object's own managedFields."""
    for entry in obj["metadata"].get("managedFields") or ():
        applied = entry.get("operation") == "Apply" and not entry.get("subresource")
        if applied and entry.get("manager") == manager:
            fields: Object = entry.get("fieldsV1") or {}
            return fields
    return None


def created_by(obj: Object, manager: str) -> bool:
    """Did a field manager send the object, or a change of it, otherwise than by an apply?"""
    return any(
        entry.get("manager") == manager and entry.get("operation") == "Update" and not entry.get("subresource")
        for entry in obj["metadata"].get("managedFields") or ()
    )


class Cluster(Protocol):
    """Reads come from caches and are private copies; writes go to the API and raise the exceptions of `kube.errors`."""

    @property
    def now(self) -> datetime: ...

    def time(self) -> float:
        """Seconds on a clock that only goes forward."""
        ...

    def token(self, size: int) -> str: ...

    def kind_of(self, obj: Object) -> Kind | None:
        """The kind of an object, also of one known only at run time; None if the API does not serve it."""
        ...

    def serves(self, kind: Kind) -> bool: ...

    def is_synced(self, kind: Kind) -> bool:
        """Does a cache of this kind stand for the cluster right now (served, readable, listed)?"""
        ...

    def is_complete(self, kind: Kind, namespace: str) -> bool:
        """Does absence from the cache prove absence (synced, and filtered by nothing)?"""
        ...

    def get(self, kind: Kind, key: Key) -> Object | None: ...

    def list(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None) -> list[Object]: ...

    def by_index(self, index: Index, value: str) -> builtins.list[Object]: ...

    def look(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        """From the cache, with what the field manager applied."""
        ...

    def children(self, kind: Kind, owner: Owner, besides: Collection[Key] = ()) -> builtins.list[Object]:
        """What belongs to the owner, by owner reference or label; `besides`: those are not asked for."""
        ...

    def contributions(self, kind: Kind, manager: str) -> builtins.list[Key]:
        """The objects on which a field manager (one owner's own) has applied something."""
        ...

    async def read(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        """Like `look`, but asks the API."""
        ...

    async def fetch(self, kind: Kind, key: Key) -> Object | None:
        """Like `get`, for objects of which the caches hold the metadata only."""
        ...

    async def apply(self, kind: Kind, obj: Object, *, manager: str, force: bool, new: bool = False) -> Object:
        """A server-side apply. A `new` object is only created: `Conflict` if there is one of that name, which is not touched."""
        ...

    async def find(self, kind: Kind, key: Key) -> Object | None:
        """From the cache of a kind known at run time, and if it is not there, from the API."""
        ...

    async def create(self, kind: Kind, obj: Object, *, manager: str) -> Object:
        """A POST; `AlreadyExists` if there is one of that name."""
        ...

    async def patch(
        self, kind: Kind, key: Key, body: Object | builtins.list[Object], *, subresource: str = ""
    ) -> Object:
        """A merge patch, or a JSON patch if the body is a list."""
        ...

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
        """Deletes that very object; True if it is gone at once, False if something still holds it."""
        ...

    async def emit(self, involved: Object, note: EventNote, component: str) -> None: ...

    async def call(self, outside: Callable[[], Awaitable[T]], timeout: float) -> T:
        """Talks to something beyond the API, without keeping other keys waiting."""
        ...

    async def logs(self, namespace: str, pod: str, container: str, *, lines: int) -> str:
        """The last lines of a container; empty where they cannot be read."""
        ...


class UndeclaredKind(TypeError):
    """A reconcile read a kind that its controller does not declare; that would be a read of nothing."""


@dataclass(frozen=True)
class WorldView:
    """The `World` of one pass: a cluster, seen by one controller on behalf of one owner."""

    cluster: Cluster
    controller: Controller
    owner: Owner
    declared: frozenset[Kind] = field(default=frozenset())

    @property
    def now(self) -> datetime:
        return self.cluster.now

    def serves(self, kind: Kind) -> bool:
        return self.cluster.serves(kind)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        self._check(kind)
        return self.cluster.get(kind, Key(namespace if kind.namespaced else "", name))

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        self._check(kind)
        return self.cluster.list(kind, namespace, labels)

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        index = declared_index(self.controller, name)
        self._check(index.kind)
        return self.cluster.by_index(index, value)

    async def fetch(self, kind: Kind, namespace: str, name: str) -> Object | None:
        self._check(kind)
        return await self.cluster.fetch(kind, Key(namespace if kind.namespaced else "", name))

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        found = self.cluster.kind_of({"apiVersion": api_version, "kind": kind})
        return found if found is not None and self.cluster.serves(found) else None

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        if self.controller.wraps is None:
            self._check(kind)
        return await self.cluster.find(kind, Key(namespace if kind.namespaced else "", name))

    def owned(self, kind: Kind) -> builtins.list[Object]:
        if self.controller.wraps is None:
            self._check(kind)
        return self.cluster.children(kind, self.owner)

    def token(self, size: int = 32) -> str:
        return self.cluster.token(size)

    async def call(self, outside: Callable[[], Awaitable[T]], *, timeout: float) -> T:
        return await self.cluster.call(outside, timeout)

    async def logs(self, namespace: str, pod: str, container: str, *, lines: int) -> str:
        return await self.cluster.logs(namespace, pod, container, lines=lines)

    def _check(self, kind: Kind) -> None:
        if kind not in self.declared:
            raise UndeclaredKind(
                f"controller {self.controller.name} reads {kind} but does not declare it: add it to `owns` or `watches`"
            )


def declared_index(controller: Controller, name: str) -> Index:
    try:
        return controller.indexes[name]
    except KeyError:
        raise UndeclaredKind(f"controller {controller.name} has no index {name!r}: add it to `indexes`") from None


async def within(outside: Callable[[], Awaitable[T]], timeout: float) -> T:
    """What `outside` gives, or `TimeoutError` with a message that people understand."""
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await outside()
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"no answer within {timeout:g} s") from None


def declared_kinds(controller: Controller) -> frozenset[Kind]:
    """Every kind that a controller has a cache of."""
    kinds = {o.kind for o in controller.owns} | {w.kind for w in controller.watches}
    return frozenset(kinds | set(controller.kinds))


def kinds_that_matter(controller: Controller) -> frozenset[Kind]:
    """Every kind whose coming or going may change what a controller wants."""
    return declared_kinds(controller) | controller.asks
