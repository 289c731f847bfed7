"""`metadata.managedFields` as data: who owns which fields, decoded, encoded, sorted and capped as Kubernetes does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from modelyard.kube.fieldsets.sets import LEAF, Fields, FieldSet, json_text, ordered, union
from modelyard.kube.kinds import Object
from modelyard.kube.schema import Schema

MAX_UPDATERS = 10
ANCIENT = "ancient-changes"


class ManagedFieldsError(ValueError):
    """An entry of managedFields is malformed; the message says which and how."""


class Manager(NamedTuple):
    """Who owns fields. All that one applier applied to is one entry, whatever the version."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        """As conflict messages show it."""
        text = json_text(self.name)
        if self.subresource:
            text += f" with subresource {json_text(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


@dataclass(slots=True, frozen=True)
class Share:
    """What one manager owns; `entry` is the encoded form while it still holds."""

    fields: Fields
    api_version: str
    time: str | None
    entry: Object | None = None


Managed: TypeAlias = dict[Manager, Share]


def manager_of(name: str, operation: str, api_version: str, subresource: str) -> Manager:
    return Manager(name or "unknown", operation, "" if operation == "Apply" else api_version, subresource)


def decode(entries: Sequence[Mapping[str, Any]] | None, *, trusted: bool = False) -> Managed:
    """Read managedFields; trusted entries were written by `encode` and are taken as they are."""
    managed: Managed = {}
    for position, entry in enumerate(entries or ()):
        operation = entry.get("operation") or ""
        if operation not in ("Apply", "Update"):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        api_version = entry.get("apiVersion") or ""
        if not api_version:
            raise ManagedFieldsError("apiVersion must not be empty")
        kind = entry.get("fieldsType") or ""
        if kind != "FieldsV1":
            if not kind:
                raise ManagedFieldsError(f"missing fieldsType in managed fields entry {position}")
            raise ManagedFieldsError(f"invalid fieldsType {json_text(kind)} in managed fields entry {position}")
        fields = entry.get("fieldsV1") or LEAF
        if not trusted:
            try:
                fields = FieldSet.parse(fields).root
            except (ValueError, AttributeError, TypeError) as error:
                raise ManagedFieldsError(
                    f"error decoding fieldsV1 in managed fields entry {position}: {error}"
                ) from None
        manager = Manager(
            entry.get("manager") or "",
            operation,
            "" if operation == "Apply" else api_version,
            entry.get("subresource") or "",
        )
        managed[manager] = Share(fields, api_version, entry.get("time"), dict(entry) if trusted else None)
    return managed


def encode(managed: Managed) -> list[Object]:
    """Write managedFields: applied first, then by time and name."""
    entries = [_entry(manager, share) for manager, share in managed.items()]
    if len(entries) > 1:
        entries.sort(key=_entry_order)
    return entries


def _entry(manager: Manager, share: Share) -> Object:
    if share.entry is not None:
        return share.entry
    entry: Object = {"manager": manager.name, "operation": manager.operation, "apiVersion": share.api_version}
    if share.time is not None:
        entry["time"] = share.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = ordered(share.fields)
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def _entry_order(entry: Object) -> tuple[str, str, str, str, str]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry["manager"],
        entry["apiVersion"],
        entry.get("subresource") or "",
    )


def capped(managed: Managed) -> Managed:
    """With the oldest updaters folded into one where there are too many."""
    updaters = [manager for manager in managed if manager.operation == "Update"]
    if len(updaters) <= MAX_UPDATERS:
        return managed
    managed = dict(managed)
    updaters.sort(key=lambda manager: (managed[manager].time or "", manager))
    first: dict[str, Manager] = {}
    length = len(updaters)
    for manager in updaters:
        if length <= MAX_UPDATERS:
            break
        share = managed[manager]
        version = share.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = Manager(ANCIENT, "Update", version)
        if bucket not in managed:
            managed[bucket] = managed.pop(first[version])
        managed[bucket] = Share(union(share.fields, managed[bucket].fields), version, share.time)
        if manager != bucket:
            del managed[manager]
        length -= 1
    return managed


def fitted(managed: Managed, schema: Schema) -> Managed:
    """With fields that a changed schema now owns as a whole owned as a whole."""
    out: Managed = {}
    for manager, share in managed.items():
        fields = _fitted(share.fields, schema)
        out[manager] = share if fields is share.fields else Share(fields, share.api_version, share.time)
    return out


def _fitted(fields: Fields, schema: Schema) -> Fields:
    changes: Fields = {}
    for element, node in fields.items():
        if not node:
            continue
        child = schema.child(element[2:]) if element[0] == "f" else schema.items if element[0] == "k" else None
        if child is None:
            continue
        if (child.atomic and child.type == "object") or (child.type == "array" and not child.associative):
            changes[element] = LEAF
        else:
            below = _fitted(node, child)
            if below is not node:
                changes[element] = below
    return {**fields, **changes} if changes else fields


def without_managed_fields(obj: Object) -> Object:
    """The object without its managedFields; the rest is shared."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def with_managed_fields(obj: Object, managed: Managed) -> Object:
    """The object with these managedFields; the rest is shared."""
    entries = encode(managed)
    if not entries:
        return without_managed_fields(obj)
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}
