"""Who owns what after a write: server-side apply, and updates of any other kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import msgspec

from modelyard.kube.fieldsets import sets
from modelyard.kube.fieldsets.managed import (
    Managed,
    ManagedFieldsError,
    Manager,
    Share,
    capped,
    decode,
    fitted,
    manager_of,
    with_managed_fields,
    without_managed_fields,
)
from modelyard.kube.fieldsets.parts import remove, without_emptied
from modelyard.kube.fieldsets.sets import LEAF, Fields, FieldSet, path_text, with_named_fields
from modelyard.kube.fieldsets.typed import TypedError, changed, compare, fieldset_of, identical, merge
from modelyard.kube.fieldsets.validation import validate
from modelyard.kube.kinds import Object
from modelyard.kube.schema import Schema
from modelyard.kube.times import format_time

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY = "before-first-apply"

_NOTHING = FieldSet()
_META = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields")
_UNOWNED: Fields = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {".": LEAF, **{f"f:{name}": LEAF for name in (*_META, "resourceVersion")}},
}
"""What no one owns: what the API server itself sets."""

Convert: TypeAlias = Callable[[Object, str], tuple[Object, Schema] | None]
"""An object in another version with that version's schema; nothing where the version is no longer served."""


class Conflict(NamedTuple):
    """A field that another manager owns and an apply would change."""

    manager: Manager
    path: tuple[str, ...]

    @property
    def field(self) -> str:
        return path_text(self.path)


class Conflicts(Exception):
    """An apply was refused because others own fields that it would change."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        super().__init__(self._message())

    @property
    def causes(self) -> list[Object]:
        """For the API's Status."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {each.manager}", "field": each.field}
            for each in self.conflicts
        ]

    def _message(self) -> str:
        if len(self.conflicts) == 1:
            only = self.conflicts[0]
            return f"Apply failed with 1 conflict: conflict with {only.manager}: {only.field}"
        by_manager: dict[Manager, list[str]] = {}
        for each in self.conflicts:
            by_manager.setdefault(each.manager, []).append(each.field)
        lines = []
        for manager in sorted(by_manager):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {field}" for field in by_manager[manager]]
        return f"Apply failed with {len(self.conflicts)} conflicts: " + "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Write:
    """What a write is made under: the version and subresource of the request, the kind's schema there, and when."""

    schema: Schema
    api_version: str
    now: datetime | None
    """When the write is made; none for a write that leaves no time, as those through the scale subresource do."""
    subresource: str = ""
    reset: FieldSet = _NOTHING
    """Fields that this endpoint does not write and nobody owns through it (status on the main resource, and the reverse)."""
    convert: Convert | None = None

    @property
    def time(self) -> str | None:
        return None if self.now is None else format_time(self.now)


def update(old: Object | None, new: Object, manager: str, write: Write) -> Object:
    """`new` with its managedFields after a create (no `old`), an update or a patch. Parts of both are shared with it."""
    managed = _managed_for_update(old, new, write)
    bare = without_managed_fields(new)
    if old is not None and not managed and (old.get("metadata") or {}).get("uid"):
        # An object that nobody tracks stays untracked until it is applied to.
        return bare
    live = dict(write.schema.zero or {}) if old is None else without_managed_fields(old)
    try:
        managed = _after_update(
            live, bare, managed, manager_of(manager, "Update", write.api_version, write.subresource), write
        )
    except TypedError:
        # Kubernetes lets a write pass even if ownership cannot be computed, and keeps what was known.
        managed = decode((old or {}).get("metadata", {}).get("managedFields"), trusted=True)
    return with_managed_fields(bare, managed)


def _managed_for_update(old: Object | None, new: Object, write: Write) -> Managed:
    before = (old or {}).get("metadata", {}).get("managedFields")
    sent = (new.get("metadata") or {}).get("managedFields")
    if not write.subresource and sent is not None and sent is not before and sent != before:
        if sent == [] or sent == [{}]:
            return {}
        try:
            managed = decode(sent)
            if managed:
                return managed
        except ManagedFieldsError:
            pass
    try:
        return decode(before, trusted=True)
    except ManagedFieldsError:
        return {}


def _after_update(live: Object, new: Object, managed: Managed, me: Manager, write: Write) -> Managed:
    if managed and write.schema.zero is None:
        managed = fitted(managed, write.schema)
    mine, removed = changed(live, new, write.schema)
    if write.reset:
        mine = sets.recursive_difference(mine, write.reset.root)
        removed = sets.recursive_difference(removed, write.reset.root)
    if managed and (mine or removed):
        managed = _taken_from(managed, live, new, (mine, removed), write)
    mine = sets.difference(mine, _UNOWNED)
    if mine:
        before = managed.get(me)
        fields = sets.union(mine, before.fields) if before else mine
        managed = {**managed, me: Share(fields, write.api_version, write.time)}
    return capped(managed)


def _taken_from(
    managed: Managed,
    live: Object,
    new: Object,
    changes: tuple[Fields, Fields],
    write: Write,
    keep: Manager | None = None,
) -> Managed:
    """What all but one manager own after these changes were made by someone else."""
    by_version: dict[str, tuple[Fields, Fields] | None] = {write.api_version: changes}
    left: Managed = {}
    for manager, share in managed.items():
        if manager == keep:
            left[manager] = share
            continue
        seen = _changes_at(share.api_version, live, new, by_version, write)
        if seen is None:
            continue
        fields = share.fields
        for gone in seen:
            if gone:
                fields = sets.difference(fields, gone)
        if fields == share.fields:
            left[manager] = share
        elif fields:
            left[manager] = Share(fields, share.api_version, share.time)
    return left


def _changes_at(
    version: str, live: Object, new: Object, by_version: dict[str, tuple[Fields, Fields] | None], write: Write
) -> tuple[Fields, Fields] | None:
    """The changes as a version sees them; nothing where the version is gone."""
    if write.convert is None:
        return by_version[write.api_version]
    if version not in by_version:
        before, after = write.convert(live, version), write.convert(new, version)
        by_version[version] = None if before is None or after is None else changed(before[0], after[0], after[1])
    return by_version[version]


def apply(live: Object | None, config: Object, manager: str, write: Write, *, force: bool = False) -> Object:
    """The object after a server-side apply, with its managedFields; raises Conflicts or TypedError.

    Nothing live means that the apply creates. Where the apply changes nothing at all, the answer is `live` itself.
    """
    try:
        return _with_last_applied(_apply(live, config, manager, write, force), config, manager)
    except Conflicts as error:
        allowed = _allowed_conflicts(live, write) if manager == "kubectl" and live else None
        if allowed is None:
            raise
        left = [each for each in error.conflicts if each.path not in allowed]
        if left:
            raise Conflicts(left) from None
    return _with_last_applied(_apply(live, config, manager, write, True), config, manager)


def _apply(live: Object | None, config: Object, name: str, write: Write, force: bool) -> Object:
    schema = write.schema
    try:
        validate(config, schema)
    except TypedError as error:
        raise TypedError(f"failed to create typed patch object ({_described(config)}): {error}") from None
    me = manager_of(name, "Apply", write.api_version, write.subresource)
    if live is None:
        managed: Managed = {}
        before: Object = {}
    else:
        managed = decode(live.get("metadata", {}).get("managedFields"), trusted=True)
        before = without_managed_fields(live)
        if not managed:
            first = manager_of(BEFORE_FIRST_APPLY, "Update", write.api_version, write.subresource)
            managed = _after_update(dict(schema.zero or {}), before, {}, first, write)
        elif schema.zero is None:
            managed = fitted(managed, schema)

    last = managed.get(me)
    fields = fieldset_of(config, schema).root
    if write.reset:
        fields = sets.recursive_difference(fields, write.reset.root)
    new = merge(before, config, schema)
    if last is not None and sets.difference(last.fields, fields):
        new, gone = _pruned(new, {**managed, me: Share(fields, write.api_version, None)}, last, write)
    else:
        gone = _NOTHING

    same = before == new and identical(before, new)
    if not same:
        managed = _won(managed, me, before, new, write, force)
        if gone:
            new = without_emptied(new, gone, schema)
    owned = sets.difference(fields, _UNOWNED)
    time = write.time if not same else last.time if last else None
    if last is not None and owned == last.fields and last.api_version == write.api_version and same:
        share = last
    else:
        share = Share(owned, write.api_version, time)
    managed = {manager: each for manager, each in managed.items() if manager != me}
    if owned:
        managed[me] = share
    if live is not None and same and managed == decode(live["metadata"].get("managedFields"), trusted=True):
        return live
    return with_managed_fields(before if same else new, managed)


def _won(managed: Managed, me: Manager, before: Object, new: Object, write: Write, force: bool) -> Managed:
    """What the others own after the apply; Conflicts if it changes what they own and is not forced."""
    taken, removed = changed(before, new, write.schema)
    if write.reset:
        taken = sets.recursive_difference(taken, write.reset.root)
        removed = sets.recursive_difference(removed, write.reset.root)
    if not force:
        by_version: dict[str, tuple[Fields, Fields] | None] = {write.api_version: (taken, removed)}
        conflicts: list[Conflict] = []
        for manager in sorted(managed):
            if manager == me:
                continue
            seen = _changes_at(managed[manager].api_version, before, new, by_version, write)
            if seen is not None and seen[0]:
                contested = sets.intersection(managed[manager].fields, seen[0])
                conflicts += [Conflict(manager, path) for path in sets.members(contested)]
        if conflicts:
            raise Conflicts(conflicts)
    return _taken_from(managed, before, new, (taken, removed), write, keep=me)


def _pruned(merged: Object, managed: Managed, last: Share, write: Write) -> tuple[Object, FieldSet]:
    """Without what this manager applied before, no longer applies, and nobody else owns; and what that was."""
    schema, version = write.schema, last.api_version
    if write.convert is not None and version != write.api_version:
        converted = write.convert(merged, version)
        if converted is None:
            return merged, _NOTHING
        back, gone_there = _pruned(converted[0], managed, last, Write(converted[1], version, write.now, convert=None))
        returned = write.convert(without_emptied(back, gone_there, converted[1]), write.api_version)
        return (merged if returned is None else returned[0]), _NOTHING
    before = with_named_fields(last.fields, schema)
    pruned = remove(merged, FieldSet(before), schema)
    owned: Fields = {}
    for share in managed.values():
        owned = sets.union(owned, share.fields)
    whole = with_named_fields(fieldset_of(merged, schema).root, schema)
    kept = sets.union(with_named_fields(fieldset_of(pruned, schema).root, schema), with_named_fields(owned, schema))
    pruned = remove(merged, FieldSet(sets.difference(whole, kept)), schema)
    left = with_named_fields(fieldset_of(pruned, schema).root, schema)
    gone = FieldSet(sets.intersection(sets.difference(whole, left), before))
    return remove(merged, gone, schema), gone


def _described(obj: Object) -> str:
    given = obj.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    kind = f"{group}/{version}, Kind={obj.get('kind', '')}"
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind}"


def _allowed_conflicts(live: Object, write: Write) -> FieldSet | None:
    """What `kubectl apply` without server-side apply last set and nobody changed: kubectl may take it over."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        last: Any = msgspec.json.decode(text)
        if not isinstance(last, dict) or last.get("apiVersion") != write.api_version:
            return None
        validate(last, write.schema)
        found = fieldset_of(last, write.schema)
        changes = compare(last, without_managed_fields(live), write.schema)
    except (msgspec.DecodeError, TypedError):
        return None
    return found - changes.modified - changes.added - changes.removed


def _with_last_applied(obj: Object, config: Object, manager: str) -> Object:
    """kubectl's annotation follows its server-side applies where it is in use, so that both ways can be mixed."""
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if manager != "kubectl" or not annotations.get(LAST_APPLIED):
        return obj
    mine = dict(config.get("metadata") or {})
    if mine.get("annotations") is not None:
        mine["annotations"] = {key: value for key, value in mine["annotations"].items() if key != LAST_APPLIED}
    text = json.dumps({**config, "metadata": mine}, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    if annotations[LAST_APPLIED] == text:
        return obj
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}
