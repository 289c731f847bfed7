"""Makes one child true: finds out whose it is, whether it already is as desired, and if not, writes it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from modelyard.kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, TooManyRequests, Unauthorized
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import resource_version_of
from modelyard.kube.patches import merge_diff
from modelyard.runtime.acting import ownership, text_items
from modelyard.runtime.acting.cluster import Cluster, Seen, managed_by
from modelyard.runtime.acting.drift import differences, stored
from modelyard.runtime.acting.memory import KeyMemory, fingerprint, merged
from modelyard.runtime.acting.ownership import GENERATED, Owner
from modelyard.runtime.declaring.desired import Child, Failure, Ownership, Policy, generated_name
from modelyard.runtime.declaring.predecessor import Predecessor

_TRIES = 5
"""How often an item is put into a text again when others change the object meanwhile."""
_IMMUTABLE = ("immutable", "may not change", "cannot change", "forbidden: updates to", "forbidden: pod updates")


@dataclass(frozen=True)
class Placed:
    """A child and where it goes."""

    child: Child
    kind: Kind
    key: Key

    @property
    def place(self) -> tuple[Kind, Key]:
        return self.kind, self.key


@dataclass(frozen=True)
class Made:
    """A child as it is now; `in_place` is False while an old one is still being deleted."""

    object: Object | None
    in_place: bool = True
    retry_after: float | None = None


class OwnerGone(Exception):
    """The owner of the children is no longer there, though our cache still shows it."""


class ChildFailed(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass
class Applier:
    """Applies the children of one owner. `again` writes even what looks settled."""

    cluster: Cluster
    owner: Owner
    manager: str
    memory: KeyMemory
    again: bool = False
    predecessor: Predecessor | None = None
    """Whose objects are taken over."""

    def place(self, entry: Child | Object) -> Placed:
        """Where a child goes: its kind, and its namespace (the owner's, if it names none)."""
        child = entry if isinstance(entry, Child) else Child(entry)
        obj = child.object
        metadata: Object = dict(obj.get("metadata") or {})
        name = metadata.get("name")
        if not name and child.policy is Policy.CREATE and metadata.get("generateName"):
            name = metadata["name"] = generated_name(metadata["generateName"], child.slot, self.owner.token)
        if not name or not obj.get("apiVersion") or not obj.get("kind"):
            raise ValueError(
                f"a child of {self.owner.key} lacks apiVersion, kind or metadata.name: {obj.get('kind')} {name}"
            )
        kind = self.cluster.kind_of(obj)
        if kind is None:
            group, _, version = str(obj["apiVersion"]).rpartition("/")
            unknown = Kind(group, version, str(obj["kind"]), "", namespaced=bool(metadata.get("namespace")))
            message = f"the API does not serve {obj['apiVersion']} {obj['kind']}"
            raise ChildFailed(Failure(unknown, Key(metadata.get("namespace") or "", name), "NotServed", message))
        if kind.namespaced:
            metadata["namespace"] = metadata.get("namespace") or self.owner.key.namespace
        else:
            metadata.pop("namespace", None)
        key = Key(metadata.get("namespace") or "", name)
        return Placed(replace(child, object=obj | {"metadata": metadata}), kind, key)

    async def make(self, placed: Placed) -> Made:
        """Raises `ChildFailed` when the child cannot be as desired."""
        kind, key, child = placed.kind, placed.key, placed.child
        if not self.cluster.serves(kind):
            raise ChildFailed(self._not_served(kind, key))
        held = ownership.resolve(child, self.owner, kind)
        manager = self.owner.manager(self.manager, held)
        try:
            seen = self.cluster.look(kind, key, manager)
            if seen is None and held is Ownership.CONTRIBUTED and not self.cluster.is_complete(kind, key.namespace):
                seen = await self.cluster.read(kind, key, manager)
            if seen is None:
                made = await self._create(placed, manager)
                if made is not None:
                    return made
                seen = await self.cluster.read(kind, key, manager)
                if seen is None:
                    return Made(None, in_place=False)  # It has gone again.
            if seen.terminating and not child.until_gone:
                return Made(seen.object, in_place=False)
            if not ownership.may_take(seen.object, child, self.owner, kind) and not await self._made_before(placed):
                if ownership.was_made_for_namesake(seen.object, self.owner):
                    return Made(seen.object, in_place=False)
                raise ChildFailed(self._foreign(placed, seen.object))
            if child.policy in (Policy.ONCE, Policy.CREATE):
                return Made(seen.object)
            if held is Ownership.CONTRIBUTED and (child.items or self._items_in(seen.object)):
                return await self._contribute_items(placed, manager, seen)
            return await self._update(placed, manager, seen, force=held is not Ownership.CONTRIBUTED)
        except (TooManyRequests, Unauthorized):
            raise
        except ApiError as error:
            if isinstance(error, NotFound) and not (error.status.get("details") or {}).get("name"):
                # Not an object is missing, but the whole resource: its definition has just gone.
                raise ChildFailed(self._not_served(kind, key)) from error
            raise ChildFailed(Failure(kind, key, "ApplyFailed", error.message, cause=error.reason)) from error

    def _not_served(self, kind: Kind, key: Key) -> Failure:
        message = f"the API does not serve {kind.api_version} {kind.kind}"
        return Failure(kind, key, "NotServed", message, retryable=False)

    async def _create(self, placed: Placed, manager: str) -> Made | None:
        """None if an object of that name exists: the caches do not show everything, and not at once."""
        kind, key, child = placed.kind, placed.key, placed.child
        if ownership.resolve(child, self.owner, kind) is Ownership.CONTRIBUTED:
            message = f"{kind.kind} {key} does not exist, so nothing can be contributed to it"
            raise ChildFailed(Failure(kind, key, "ApplyFailed", message, retryable=False))
        if child.policy is Policy.CREATE:
            try:
                return Made(await self.cluster.create(kind, ownership.stamp(child, self.owner, kind), manager=manager))
            except AlreadyExists:
                return None
        if self.memory.child(kind, key).desired:
            await self._check_owner()
        desired = stored(kind, ownership.stamp(child, self.owner, kind))
        self._check_contested(placed, desired, "deleted")
        full = desired
        if child.generate is not None:
            generated = stored(kind, child.generate())
            full = merged(desired, generated)
            if child.policy is not Policy.ONCE:
                note = {GENERATED: msgspec.json.encode(_leaves(generated)).decode()}
                full = merged(full, {"metadata": {"annotations": note}})
        try:
            made = await self.cluster.apply(kind, full, manager=manager, force=False, new=True)
        except Conflict:
            return None
        self._remember(placed, desired, _carried(desired, made), made, managed_by(made, manager))
        return Made(made)

    async def _made_before(self, placed: Placed) -> bool:
        """Did our predecessor make it, without saying for whom?"""
        if self.predecessor is None:
            return False
        found = await self.cluster.read(placed.kind, placed.key, self.manager)
        if found is None or ownership.controller_of(found.object) is not None:
            return False
        return self.predecessor.made(found.object)

    async def _inherit(self, placed: Placed, manager: str, seen: Seen) -> Seen:
        """The object with what our predecessor applied on it in our hands."""
        if self.predecessor is None:
            return seen
        found = await self.cluster.read(placed.kind, placed.key, manager)
        if found is None or found.uid != seen.uid:
            return seen
        metadata = found.object["metadata"]
        fields = self.predecessor.inherited(metadata.get("managedFields") or (), manager)
        if fields is None:
            return found
        body = [
            {"op": "replace", "path": "/metadata/managedFields", "value": fields},
            # Only as we have read it: a write in between may have changed who holds what.
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        ]
        made = await self.cluster.patch(placed.kind, placed.key, body)
        return Seen(made, managed_by(made, manager))

    async def _check_owner(self) -> None:
        """A child that has gone may have gone with its owner: then it is not made again, only to be collected again."""
        if self.owner.kind is None:
            return
        found = await self.cluster.read(self.owner.kind, self.owner.key, self.manager)
        if found is None or found.uid != self.owner.uid:
            raise OwnerGone(f"{self.owner.kind.kind} {self.owner.key} is gone")

    async def _update(self, placed: Placed, manager: str, seen: Seen, *, force: bool) -> Made:
        kind, key, child = placed.kind, placed.key, placed.child
        if seen.managed is None and force:
            seen = await self._inherit(placed, manager, seen)
        desired = stored(kind, ownership.stamp(child, self.owner, kind))
        remembered = self.memory.child(kind, key)
        wanted, version = fingerprint(desired), resource_version_of(seen.object)
        if not self.again and remembered.settled == (wanted, version):
            return Made(seen.object)
        carried = _carried(desired, seen.object)
        differing = differences(kind, carried, seen.object, seen.managed)
        # Where we have applied nothing yet, we do so even if all is as desired: only then are the fields ours.
        settled = seen.managed is not None and (not differing or remembered.is_settled(wanted, differing))
        if settled and not self.again:
            remembered.settled = (wanted, version)
            return Made(seen.object)
        self._check_contested(placed, desired, "changed")
        body = merged(carried, {"metadata": {"uid": seen.uid}} if seen.uid else {})
        try:
            made = await self.cluster.apply(kind, body, manager=manager, force=force)
        except Conflict as error:
            if not force:
                raise ChildFailed(Failure(kind, key, "Contested", error.message)) from error
            raise
        except Invalid as error:
            if child.policy is Policy.RECREATE and any(word in error.message for word in _IMMUTABLE):
                return await self._recreate(placed, manager, seen)
            raise
        self._remember(placed, desired, carried, made, managed_by(made, manager))
        return Made(made)

    def _items_in(self, live: Object) -> list[text_items.Noted]:
        return text_items.noted(live, text_items.annotation(self.owner))

    async def _contribute_items(self, placed: Placed, manager: str, seen: Seen) -> Made:
        """Old items go while they are noted, new ones come when they are: whenever we are cut off, the note names what is ours."""
        child, before = placed.child, self._items_in(seen.object)
        try:
            text_items.with_items(seen.object, child.items)
        except text_items.MissingPlace as missing:
            raise ChildFailed(Failure(placed.kind, placed.key, "ApplyFailed", str(missing), retryable=False)) from None
        if old := [note for note in before if note.what not in child.items]:
            live = await self._change(placed, seen.object, lambda obj: text_items.without_items(obj, old))
            seen = Seen(live, managed_by(live, manager) if "managedFields" in live["metadata"] else seen.managed)
        obj = child.object
        if child.items:
            note = {text_items.annotation(self.owner): text_items.note_of(seen.object, child.items, before)}
            obj = merged(obj, {"metadata": {"annotations": note}})
        whole = replace(placed, child=replace(child, object=obj))
        made = await self._update(whole, manager, seen, force=False)
        assert made.object is not None
        if text_items.with_items(made.object, child.items) == made.object:
            return made
        self._check_contested(
            whole, stored(placed.kind, ownership.stamp(whole.child, self.owner, placed.kind)), "changed"
        )
        self.memory.child(placed.kind, placed.key).repairs.append(self.cluster.time())
        return Made(await self._change(placed, made.object, lambda obj: text_items.with_items(obj, child.items)))

    async def _change(self, placed: Placed, live: Object, change: Callable[[Object], Object]) -> Object:
        """Changes someone's object as it is now, whatever others do to it meanwhile."""
        for _ in range(_TRIES):
            body = merge_diff(live, change(live))
            if not body:
                return live
            try:
                patch = guarded(body, resource_version_of(live))
                return await self.cluster.patch(placed.kind, placed.key, patch)
            except Conflict:
                found = await self.cluster.read(placed.kind, placed.key, self.manager)
                if found is None:
                    raise
                live = found.object
        message = "others change this object all the time; it is tried again"
        raise ChildFailed(Failure(placed.kind, placed.key, "ApplyFailed", message))

    async def _recreate(self, placed: Placed, manager: str, seen: Seen) -> Made:
        try:
            gone = await self.cluster.delete(placed.kind, placed.key, uid=seen.uid)
        except NotFound:
            gone = True
        if not gone:
            return Made(seen.object, in_place=False)
        self.memory.children.pop(placed.place, None)
        return await self._create(placed, manager) or Made(None, in_place=False)

    def _remember(self, placed: Placed, desired: Object, applied: Object, made: Object, managed: Object | None) -> None:
        left = differences(placed.kind, applied, made, managed)
        memory = self.memory.child(placed.kind, placed.key)
        memory.applied(fingerprint(desired), left, resource_version_of(made), self.cluster.time())

    def _check_contested(self, placed: Placed, desired: Object, what: str) -> None:
        remembered = self.memory.child(placed.kind, placed.key)
        wait = 0.0 if self.again else remembered.contested_for(fingerprint(desired), self.cluster.time())
        if wait > 0:
            message = (
                f"someone keeps this object {what}: it was restored {len(remembered.repairs)} times in a few minutes; "
                f"next try in {wait:.0f} s, or set the annotation {ownership.RECONCILE} on {self.owner.key}"
            )
            raise ChildFailed(Failure(placed.kind, placed.key, "Contested", message))

    def _foreign(self, placed: Placed, live: Object) -> Failure:
        holder = ownership.controller_of(live)
        whose = f"it belongs to {holder.get('kind')} {holder.get('name')}" if holder else "it is not ours"
        message = f"an object of this name exists and {whose}; it is left alone. Rename or delete it to go on"
        return Failure(placed.kind, placed.key, "Foreign", message)

    async def release(self, kind: Kind, key: Key, ownership_: Ownership) -> bool:
        """Takes back our share of someone's object; deletes a shared one that nobody holds any more."""
        manager = self.owner.manager(self.manager, ownership_)
        seen = await self.cluster.read(kind, key, manager)
        if seen is None:
            return True
        if ownership_ is Ownership.SHARED and not ownership.has_other_owners(seen.object, self.owner):
            version = str(seen.object["metadata"].get("resourceVersion") or "")
            return await self.cluster.delete(kind, key, uid=seen.uid, resource_version=version)
        if ownership_ is Ownership.CONTRIBUTED and (notes := self._items_in(seen.object)):
            placed = Placed(Child(seen.object, ownership=ownership_), kind, key)
            await self._change(placed, seen.object, lambda obj: text_items.without_items(obj, notes))
        if seen.managed is not None:
            await self.cluster.apply(kind, _empty(kind, key, seen.object), manager=manager, force=False)
        return True


def guarded(patch: Object | Sequence[Object], version: str) -> Object | list[Object]:
    """The patch, only for the object as it was read."""
    if isinstance(patch, dict):
        return patch | {"metadata": {**(patch.get("metadata") or {}), "resourceVersion": version}}
    return [*patch, {"op": "replace", "path": "/metadata/resourceVersion", "value": version}]


def _empty(kind: Kind, key: Key, live: Object) -> Object:
    """An apply of nothing: it gives up every field of its manager. The uid keeps it from creating anything."""
    metadata: Object = {"name": key.name, "uid": live["metadata"].get("uid")}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _leaves(value: Object, path: tuple[str, ...] = ()) -> list[list[str]]:
    """The paths of what was generated; lists count as one value."""
    leaves: list[list[str]] = []
    for name, below in value.items():
        if isinstance(below, dict) and below:
            leaves += _leaves(below, (*path, name))
        else:
            leaves.append([*path, name])
    return leaves


def _carried(desired: Object, live: Object) -> Object:
    """The desired object together with what was generated on creation and what others have put into its texts,
    so that an apply does not give that up."""
    desired = text_items.carried(desired, live)
    note = (live["metadata"].get("annotations") or {}).get(GENERATED)
    if not note:
        return desired
    carried = merged(desired, {"metadata": {"annotations": {GENERATED: note}}})
    try:
        paths = msgspec.json.decode(note, type=list[list[str]])
    except msgspec.MsgspecError:
        return carried
    for path in paths:
        value: Any = live
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            for step in reversed(path):
                value = {step: value}
            carried = merged(carried, value)
    return carried
