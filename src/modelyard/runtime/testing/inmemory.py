"""A cluster in memory, for tests: what a pass applies is merged as the API does it; nothing is defaulted or collected."""

from __future__ import annotations

import builtins
import copy
import random
import string
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from modelyard.kube import builtin, fieldsets
from modelyard.kube.client import Propagation
from modelyard.kube.crd import Model, drop_none
from modelyard.kube.errors import error_from_status
from modelyard.kube.fieldsets import Conflicts, TypedError, Write
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import finalizers_of, key_of, labels_of, metadata_of
from modelyard.kube.patches import json_patch, merge_patch
from modelyard.kube.times import format_time
from modelyard.runtime.acting.cluster import Seen, created_by, managed_by, within
from modelyard.runtime.acting.drift import schema_of
from modelyard.runtime.acting.ownership import Owner, belongs_to
from modelyard.runtime.declaring.controller import Index
from modelyard.runtime.declaring.desired import EventNote
from modelyard.runtime.declaring.world import T

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
FOREIGN = frozenset(
    {
        builtin.HTTPRoute, builtin.Gateway, builtin.ServiceMonitor, builtin.Certificate, builtin.Route, builtin.ConsoleLink,
        builtin.Group,
    }
)  # fmt: skip
"""Kinds that a plain Kubernetes does not serve."""


class MemoryCluster:
    """A `Cluster` in memory. Applies are server-side applies, and refuse fields that a kind does not have."""

    def __init__(
        self,
        objects: Iterable[Object | Model] = (),
        *,
        kinds: Iterable[Kind] = (),
        served: Iterable[Kind] = (),
        optional: Iterable[Kind] = (),
        now: datetime = NOW,
        seed: int = 0,
    ) -> None:
        self._kinds = {(k.api_version, k.kind): k for k in vars(builtin).values() if isinstance(k, Kind)}
        self._kinds |= {(k.api_version, k.kind): k for k in (*kinds, *served, *optional)}
        self._unserved = (FOREIGN | set(optional)) - set(served)
        self._now = now
        self._elapsed = 0.0
        self._random = random.Random(seed)
        self._version = 0
        self._made: Counter[str] = Counter()
        self.objects: dict[tuple[Kind, Key], Object] = {}
        self.events: list[EventNote] = []
        self.writes: list[str] = []
        self.written: dict[tuple[str, str, str], str] = {}
        """What containers wrote, by namespace, pod and container."""
        for obj in objects:
            self.put(obj)

    def put(self, obj: Object | Model) -> Object:
        """Adds or replaces an object, filling in what the API would (uid, creation time)."""
        data = copy.deepcopy(obj.to_dict() if isinstance(obj, Model) else drop_none(obj))
        kind = self._kinds.get((data.get("apiVersion", ""), data.get("kind", "")))
        if kind is None:
            raise KeyError(
                f"{data.get('apiVersion')} {data.get('kind')} is not known here: declare its Kind in the controller or in `served`"
            )
        self._unserved -= {kind}
        place = (kind, key_of(data))
        self.objects[place] = self._system_fields(data, self.objects.get(place))
        return self.objects[place]

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        place = (kind, Key(namespace if kind.namespaced else "", name))
        self.objects.pop(place, None)

    def serve(self, kind: Kind, served: bool = True) -> None:
        """From now on the API serves this kind, or no longer does."""
        self._kinds[kind.api_version, kind.kind] = kind
        self._unserved = self._unserved - {kind} if served else self._unserved | {kind}

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._elapsed += seconds

    @property
    def now(self) -> datetime:
        return self._now + timedelta(seconds=self._elapsed)

    def time(self) -> float:
        return self._elapsed

    def token(self, size: int) -> str:
        return "".join(self._random.choices(string.ascii_letters + string.digits, k=size))

    def kind_of(self, obj: Object) -> Kind | None:
        return self._kinds.get((obj.get("apiVersion", ""), obj.get("kind", "")))

    def serves(self, kind: Kind) -> bool:
        return kind not in self._unserved

    def is_synced(self, kind: Kind) -> bool:
        return self.serves(kind)

    def is_complete(self, kind: Kind, namespace: str) -> bool:
        return self.serves(kind)

    def get(self, kind: Kind, key: Key) -> Object | None:
        found = self.objects.get((kind, key))
        return copy.deepcopy(found) if found is not None else None

    def list(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None) -> list[Object]:
        return [
            copy.deepcopy(obj)
            for (k, key), obj in sorted(self.objects.items(), key=lambda item: item[0][1])
            if k == kind
            and namespace in (None, "", key.namespace)
            and all(labels_of(obj).get(name) == value for name, value in (labels or {}).items())
        ]

    def by_index(self, index: Index, value: str) -> builtins.list[Object]:
        return [obj for obj in self.list(index.kind, None, None) if value in index.values(obj)]

    def look(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        obj = self.get(kind, key)
        if obj is None:
            return None
        # What a test puts there by hand counts as applied by whoever it says it belongs to.
        if "managedFields" not in obj["metadata"]:
            return Seen(obj, {}, created=True)
        return Seen(obj, managed_by(obj, manager), created_by(obj, manager))

    def children(self, kind: Kind, owner: Owner, besides: Collection[Key] = ()) -> builtins.list[Object]:
        found = (obj for obj in self.list(kind, None, None) if key_of(obj) not in besides)
        return [obj for obj in found if belongs_to(obj, owner)]

    def contributions(self, kind: Kind, manager: str) -> builtins.list[Key]:
        return [key for (k, key), obj in self.objects.items() if k == kind and managed_by(obj, manager) is not None]

    async def read(self, kind: Kind, key: Key, manager: str) -> Seen | None:
        return self.look(kind, key, manager)

    async def fetch(self, kind: Kind, key: Key) -> Object | None:
        return self.get(kind, key)

    async def find(self, kind: Kind, key: Key) -> Object | None:
        return self.get(kind, key)

    async def create(self, kind: Kind, obj: Object, *, manager: str) -> Object:
        key = key_of(obj)
        if (kind, key) in self.objects:
            said = f"{kind.resource} {key.name!r} already exists"
            raise error_from_status({"code": 409, "reason": "AlreadyExists", "message": said})
        self._wrote("create", kind, key)
        made = copy.deepcopy(obj)
        entry = {"manager": manager, "operation": "Update", "apiVersion": kind.api_version, "fieldsV1": {}}
        made["metadata"]["managedFields"] = [entry]
        self.objects[kind, key] = self._system_fields(made, None)
        return copy.deepcopy(self.objects[kind, key])

    async def apply(self, kind: Kind, obj: Object, *, manager: str, force: bool, new: bool = False) -> Object:
        key = key_of(obj)
        before = self.objects.get((kind, key))
        if new and before is not None:
            raise error_from_status({"code": 409, "reason": "Conflict", "message": f"{kind.resource} {key} exists"})
        self._wrote("apply", kind, key)
        write = Write(schema_of(kind), kind.api_version, self.now)
        try:
            after = fieldsets.apply(before, copy.deepcopy(obj), manager, write, force=force)
        except Conflicts as error:
            raise error_from_status({"code": 409, "reason": "Conflict", "message": str(error)}) from None
        except TypedError as error:
            raise error_from_status({"code": 400, "reason": "BadRequest", "message": str(error)}) from None
        if after is not before:
            self.objects[kind, key] = self._system_fields(copy.deepcopy(after), before)
        return copy.deepcopy(self.objects[kind, key])

    async def patch(
        self, kind: Kind, key: Key, body: Object | builtins.list[Object], *, subresource: str = ""
    ) -> Object:
        self._wrote(f"patch {subresource}".strip(), kind, key)
        if (before := self.objects.get((kind, key))) is None:
            raise error_from_status({"code": 404, "reason": "NotFound", "message": f"{kind.resource} {key} not found"})
        obj = copy.deepcopy(before)
        obj = json_patch(obj, body) if isinstance(body, list) else merge_patch(obj, body)
        if metadata_of(obj).get("deletionTimestamp") and not finalizers_of(obj):
            self.remove(kind, *key)
        else:
            self.objects[kind, key] = self._system_fields(obj, before)
        return copy.deepcopy(obj)

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
        self._wrote("delete", kind, key)
        obj = self.objects.get((kind, key))
        if obj is not None and finalizers_of(obj):
            obj["metadata"].setdefault("deletionTimestamp", format_time(self.now))
            obj["metadata"]["deletionGracePeriodSeconds"] = grace or 0
            return False
        self.remove(kind, *key)
        return True

    async def emit(self, involved: Object, note: EventNote, component: str) -> None:
        self.events.append(note)

    async def call(self, outside: Callable[[], Awaitable[T]], timeout: float) -> T:
        return await within(outside, timeout)

    async def logs(self, namespace: str, pod: str, container: str, *, lines: int) -> str:
        return "".join(self.written.get((namespace, pod, container), "").splitlines(keepends=True)[-lines:])

    def _wrote(self, verb: str, kind: Kind, key: Key) -> None:
        self.writes.append(f"{verb} {kind.kind} {key}")

    def _system_fields(self, obj: Object, before: Object | None) -> Object:
        self._version += 1
        metadata = obj.setdefault("metadata", {})
        old = metadata_of(before or {})
        place = "-".join(p for p in (obj.get("kind", ""), metadata.get("namespace"), metadata.get("name")) if p)
        if before is None:
            self._made[place] += 1
        # An object that comes again is another one.
        again = f"-{self._made[place]}" if self._made[place] > 1 else ""
        metadata.setdefault("uid", old.get("uid") or f"uid-{place}{again}".lower())
        metadata.setdefault("creationTimestamp", old.get("creationTimestamp") or format_time(self.now))
        generation = metadata.get("generation") or 1
        if before is not None and before.get("spec") != obj.get("spec"):
            generation += 1
        metadata["generation"] = generation
        metadata["resourceVersion"] = str(self._version)
        return obj
