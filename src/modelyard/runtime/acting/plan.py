"""What a controller would do about a resource, before it does it: the same pass, over a cluster that only takes notes."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from modelyard.kube.client import Client, Propagation
from modelyard.kube.errors import ApiError, Forbidden, NotFound
from modelyard.kube.fieldsets import LAST_APPLIED
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, status_of
from modelyard.kube.patches import json_patch, merge_patch
from modelyard.kube.times import utc_now
from modelyard.runtime.acting.apicluster import ApiCluster, Shared, Tracking, never_stored
from modelyard.runtime.acting.cluster import Seen, declared_kinds
from modelyard.runtime.acting.memory import KeyMemory, merged
from modelyard.runtime.acting.ownership import Owner
from modelyard.runtime.acting.passes import Pass
from modelyard.runtime.acting.sources import Sources
from modelyard.runtime.caching.caches import CacheSet
from modelyard.runtime.caching.served import Served
from modelyard.runtime.declaring.controller import Controller, Index
from modelyard.runtime.declaring.desired import EventNote, Failure, Hold
from modelyard.runtime.declaring.world import T
from modelyard.runtime.process.manager import FIELD_MANAGERS

PLANNED_UID = "00000000-0000-0000-0000-000000000000"
"""Stands for the uid of a resource that does not exist yet."""
_UNINTERESTING = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
_MASK = "(hidden)"

Action = Literal["create", "change", "delete", "release"]


@dataclass(frozen=True)
class FieldChange:
    """One field: None stands for absent."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Change:
    """What would happen to one object."""

    action: Action
    kind: Kind
    key: Key
    fields: tuple[FieldChange, ...] = ()
    object: Object | None = None
    """The object as it would be after a create."""
    sent: Object | None = None
    """What we would apply: only the fields that are ours."""


@dataclass(frozen=True)
class Plan:
    """All that one pass would do."""

    changes: tuple[Change, ...] = ()
    status: tuple[FieldChange, ...] = ()
    resulting: Object = field(default_factory=dict)
    """The whole status after the pass."""
    failures: tuple[Failure, ...] = ()
    hold: Hold | None = None
    waiting: bool = False
    """Later stages wait for earlier ones: there is more to come than is shown."""
    events: tuple[EventNote, ...] = ()

    def of(self, action: Action) -> list[Change]:
        return [change for change in self.changes if change.action == action]

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.failures or self.hold)


@dataclass
class PlanCluster:
    """Reads through to a real cluster, but keeps every write to itself (the API checks them as dry runs)."""

    real: ApiCluster
    resources: dict[tuple[Kind, Key], Object]
    """What reads give instead of what is cached: the resource that is planned."""
    changes: list[Change] = field(default_factory=list)
    status: tuple[FieldChange, ...] = ()
    events: list[EventNote] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return self.real.now

    def time(self) -> float:
        return self.real.time()

    def token(self, size: int) -> str:
        return _MASK

    def kind_of(self, obj: Object) -> Kind | None:
        return self.real.kind_of(obj)

    def serves(self, kind: Kind) -> bool:
        return self.real.serves(kind)

    def is_synced(self, kind: Kind) -> bool:
        return self.real.is_synced(kind)

    def is_complete(self, kind: Kind, namespace: str) -> bool:
        return self.real.is_complete(kind, namespace)

    def get(self, kind: Kind, key: Key) -> Object | None:
        planned = self.resources.get((kind, key))
        return copy.deepcopy(planned) if planned is not None else self.real.get(kind, key)

    def list(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None) -> list[Object]:
        planned = [
            obj for (k, key), obj in self.resources.items() if k == kind and namespace in (None, "", key.namespace)
        ]
        names = {key_of(obj) for obj in planned}
        found = [obj for obj in self.real.list(kind, namespace, labels) if key_of(obj) not in names]
        wanted = (labels or {}).items()
        return found + [copy.deepcopy(o) for o in planned if wanted <= (o["metadata"].get("labels") or {}).items()]

    def by_index(self, index: Index, value: str) -> builtins.list[Object]:
        planned = {key_of(obj): obj for (kind, _), obj in self.resources.items() if kind == index.kind}
        found = [obj for obj in self.real.by_index(index, value) if key_of(obj) not in planned]
        return found + [copy.deepcopy(obj) for obj in planned.values() if value in index.values(obj)]

    def look(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        return self.real.look(kind, key, manager)

    def children(self, kind: Kind, owner: Owner, besides: Collection[Key] = ()) -> builtins.list[Object]:
        return self.real.children(kind, owner, besides)

    def contributions(self, kind: Kind, manager: str) -> builtins.list[Key]:
        return self.real.contributions(kind, manager)

    async def read(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        return await self.real.read(kind, key, manager)

    async def fetch(self, kind: Kind, key: Key) -> Object | None:
        return await self.real.fetch(kind, key)

    async def find(self, kind: Kind, key: Key) -> Object | None:
        return await self.real.find(kind, key)

    async def create(self, kind: Kind, obj: Object, *, manager: str) -> Object:
        try:
            made = await self.real.shared.client.create(kind, obj, field_manager=manager, dry_run=True)
        except (NotFound, Forbidden):
            made = obj
        fields = tuple(field_changes({}, made, secret=_is_secret(kind)))
        self.changes.append(Change("create", kind, key_of(made), fields, masked(kind, made), masked(kind, obj)))
        return made

    async def apply(self, kind: Kind, obj: Object, *, manager: str, force: bool, new: bool = False) -> Object:
        key = key_of(obj)
        before = await self.real.shared.client.find(kind, key.namespace, key.name)
        body = never_stored(obj) if new else obj
        try:
            after = await self.real.shared.client.apply(kind, body, field_manager=manager, force=force, dry_run=True)
        except (NotFound, Forbidden):
            # Its namespace may not be there yet, or we may look but not touch: then it is what we would send.
            after = merged(before or {}, obj)
        fields = tuple(field_changes(before or {}, after, secret=_is_secret(kind)))
        if before is None:
            self.changes.append(Change("create", kind, key, fields, masked(kind, after), masked(kind, obj)))
        elif fields:
            self.changes.append(Change("change", kind, key, fields, sent=masked(kind, obj)))
        return after

    async def patch(
        self, kind: Kind, key: Key, body: Object | builtins.list[Object], *, subresource: str = ""
    ) -> Object:
        before = self.get(kind, key) or {}
        after: Object = json_patch(before, body) if isinstance(body, list) else merge_patch(before, body)
        fields = tuple(field_changes(before, after))
        if subresource == "status":
            self.status = tuple(field_changes(status_of(before), status_of(after)))
        elif fields:
            self.changes.append(Change("change", kind, key, fields))
        self.resources[kind, key] = after
        return copy.deepcopy(after)

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
        self.changes.append(Change("delete", kind, key))
        return True

    async def emit(self, involved: Object, note: EventNote, component: str) -> None:
        self.events.append(note)

    async def call(self, outside: Callable[[], Awaitable[T]], timeout: float) -> T:
        return await self.real.call(outside, timeout)

    async def logs(self, namespace: str, pod: str, container: str, *, lines: int) -> str:
        return await self.real.logs(namespace, pod, container, lines=lines)


def field_changes(before: Any, after: Any, path: str = "", *, secret: bool = False) -> Iterator[FieldChange]:
    """Field by field; lists are compared item by item while their length is the same, else as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            if path == "metadata" and name in _UNINTERESTING:
                continue
            at = f"{path}.{name}" if path else name
            yield from field_changes(before.get(name), after.get(name), at, secret=secret)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from field_changes(old, new, f"{path}[{position}]", secret=secret)
    elif before != after:
        if isinstance(after, dict) and before is None and after:
            for name, value in after.items():
                if path != "metadata" or name not in _UNINTERESTING:
                    yield from field_changes(None, value, f"{path}.{name}" if path else name, secret=secret)
        elif secret and path.startswith(("data.", "stringData.")):
            yield FieldChange(path, _MASK if before is not None else None, _MASK if after is not None else None)
        else:
            yield FieldChange(path, before, after)


def _is_secret(kind: Kind) -> bool:
    return kind.group == "" and kind.kind == "Secret"


def masked(kind: Kind, obj: Object) -> Object:
    """The object without a Secret's values."""
    if not _is_secret(kind):
        return obj
    return obj | {name: dict.fromkeys(obj[name], _MASK) for name in ("data", "stringData") if obj.get(name)}


async def plan(
    client: Client,
    controller: Controller,
    resource: Object | None,
    *,
    key: Key | None = None,
    clock: Callable[[], datetime] = utc_now,
    namespace: str | None = None,
    timeout: float = 30.0,
) -> Plan:
    """What the controller would do if the resource were applied like this (None: about the one of that key, as it is)."""
    served = Served(client)
    if not await served.refresh():
        raise ConnectionError(f"the API does not answer: {served.error}")
    caches = CacheSet(client, keep_managers=FIELD_MANAGERS)
    shared = Shared(client, caches, served, Tracking(), clock)
    view = caches.view()
    for selection, _ in Sources(controller, view, lambda key, change: None).all(namespace):
        cache = caches.cache(selection)
        view.include(cache)
        if selection.kind in served and not cache.started:
            shared.tracking.follow(cache)
            cache.start()
    try:
        if late := await caches.wait_synced(timeout):
            said = ", ".join(f"{cache.selection} ({cache.error or 'no answer'})" for cache in late)
            raise TimeoutError(f"these could not be read within {timeout:g} s: {said}")
        return await _plan(ApiCluster(shared, controller, _known(controller), view), controller, resource, key)
    finally:
        await caches.stop()


def _known(controller: Controller) -> dict[tuple[str, str], Kind]:
    return {(kind.api_version, kind.kind): kind for kind in declared_kinds(controller)}


async def _plan(real: ApiCluster, controller: Controller, resource: Object | None, key: Key | None) -> Plan:
    planned: dict[tuple[Kind, Key], Object] = {}
    if resource is not None:
        controller = face_for(controller, resource)
    if resource is not None and controller.kind is not None:
        key = key_of(resource)
        planned[controller.kind, key] = await _as_applied(real, controller, resource)
    if key is None:
        raise ValueError("a plan needs a resource or a key")
    cluster = PlanCluster(real, planned)
    # What would happen once no other operator is at work any more.
    result = await Pass(
        controller, cluster, KeyMemory(), key, timeout=controller.timeout, defer_to_predecessor=False
    ).run()
    released = tuple(Change("release", kind, place) for kind, place in result.released)
    return Plan(
        changes=(*cluster.changes, *released),
        status=cluster.status,
        resulting=result.status or {},
        failures=tuple(result.failures),
        hold=result.outcome if isinstance(result.outcome, Hold) else None,
        waiting=result.live.waiting,
        events=tuple(cluster.events),
    )


def face_for(controller: Controller, resource: Object) -> Controller:
    """The controller as the kind of this resource sees it."""
    named = (resource.get("apiVersion"), resource.get("kind"))
    faces = [face for face in controller.faces if face.kind and (face.kind.api_version, face.kind.kind) == named]
    return faces[0] if faces else controller


async def _as_applied(real: ApiCluster, controller: Controller, resource: Object) -> Object:
    """The resource as the API would store it: defaults, webhooks and all, if it lets us try."""
    kind = controller.kind
    assert kind is not None
    key = key_of(resource)
    live = real.get(kind, key) or {}
    try:
        stored = await _tried(real.shared.client, kind, resource)
    except ApiError as error:
        if not isinstance(error, NotFound | Forbidden):
            raise
        stored = merged(live, resource)
    metadata = {"uid": PLANNED_UID} | (live.get("metadata") or {}) | stored["metadata"]
    metadata.pop("managedFields", None)
    if not live:
        metadata["uid"] = PLANNED_UID
    return stored | {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


async def _tried(client: Client, kind: Kind, resource: Object) -> Object:
    """Sent again the way it was sent before, so that a field which is no longer in it goes, as it would for the user."""
    key = key_of(resource)
    live = await client.find(kind, key.namespace, key.name)
    metadata = (live or {}).get("metadata") or {}
    if last := (metadata.get("annotations") or {}).get(LAST_APPLIED):
        body = merged(_removals(msgspec.json.decode(last), resource), resource)
        return await client.patch(kind, key.namespace, key.name, body, dry_run=True)
    appliers = [
        entry["manager"]
        for entry in metadata.get("managedFields") or ()
        if entry.get("operation") == "Apply" and not entry.get("subresource")
    ]
    manager = appliers[0] if appliers else "modelyard-plan"
    return await client.apply(kind, resource, field_manager=manager, force=True, dry_run=True)


def _removals(last: Object, now: Object) -> Object:
    """A merge patch that takes away what was there last time and is not now."""
    found: Object = {}
    for name, value in last.items():
        if name not in now:
            found[name] = None
        elif isinstance(value, dict) and isinstance(now[name], dict):
            found[name] = _removals(value, now[name])
    return found
