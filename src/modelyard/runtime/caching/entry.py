"""One cached object: its bytes without managedFields, and the metadata that is asked for without decoding."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import msgspec

from modelyard.kube.kinds import Key, Kind, Object


@dataclass(frozen=True, slots=True)
class Managed:
    """The fields (FieldsV1, undecoded) that one field manager holds on an object."""

    manager: str
    operation: str
    subresource: str
    fields: bytes


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""
    controller: bool | None = None


class _ManagedFields(msgspec.Struct, rename={"fields": "fieldsV1"}, gc=False):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.Raw(b"{}")


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _Outline(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_outline = msgspec.json.Decoder(_Outline)
_managed_fields = msgspec.json.Decoder(list[_ManagedFields] | None)
_encoder = msgspec.json.Encoder()


class Entry:
    """An object as the cache holds it. `object` decodes on every read, so each reader has a copy of its own."""

    __slots__ = (
        "controller_uid", "deleting", "generation", "key", "labels", "managers", "owner_uids", "raw", "resource_version", "uid",
        "version",
    )  # fmt: skip

    def __init__(self, raw: bytes, metadata: _Metadata, managers: tuple[Managed, ...]) -> None:
        self.raw = raw
        self.key = Key(sys.intern(metadata.namespace), metadata.name)
        self.uid = metadata.uid
        self.resource_version = metadata.resource_version
        self.version = version_number(metadata.resource_version)
        self.generation = metadata.generation
        self.deleting = metadata.deletion_timestamp is not None
        self.labels = _interned(metadata.labels)
        owners = metadata.owner_references or ()
        self.owner_uids = tuple(owner.uid for owner in owners)
        self.controller_uid = next((owner.uid for owner in owners if owner.controller), "")
        self.managers = managers

    @property
    def object(self) -> Object:
        data: Object = msgspec.json.decode(self.raw)
        return data

    def managed(self, manager: str, *, operation: str = "Apply", subresource: str = "") -> bytes | None:
        """The FieldsV1 that a field manager holds; None if it holds nothing (or is not one whose fields are kept)."""
        for held in self.managers:
            if (held.manager, held.operation, held.subresource) == (manager, operation, subresource):
                return held.fields
        return None

    def __repr__(self) -> str:
        return f"Entry({self.key}, version {self.resource_version})"


def entry_of(kind: Kind, raw: bytes, *, keep_managers: str = "") -> Entry:
    """Makes the entry of an object as the API sent it.

    Of managedFields only those whose manager begins with `keep_managers` stay (empty: none). Lists leave out
    `apiVersion` and `kind`, and metadata-only reads have others: here an object always says what it is.
    """
    outline = _outline.decode(raw)
    metadata = outline.metadata
    managers: tuple[Managed, ...] = ()
    if metadata.managed_fields and keep_managers:
        managers = tuple(
            Managed(sys.intern(held.manager), sys.intern(held.operation), held.subresource, bytes(held.fields))
            for held in _managed_fields.decode(metadata.managed_fields) or ()
            if held.manager.startswith(keep_managers)
        )
    lean: bytes | None = None
    if (outline.api_version, outline.kind) == (kind.api_version, kind.kind):
        lean = _cut(raw, bytes(metadata.managed_fields))
    return Entry(_written_again(kind, raw) if lean is None else lean, metadata, managers)


def _cut(raw: bytes, managed: bytes) -> bytes | None:
    """The object's own bytes without its managedFields; None where they cannot be cut out as they stand."""
    if not managed:
        return raw
    entry = b'"managedFields":' + managed
    start = raw.find(entry)
    end = start + len(entry)
    if start < 0:
        return None
    if raw[end : end + 1] == b",":
        return raw[:start] + raw[end + 1 :]
    return raw[: start - 1] + raw[end:] if raw[start - 1 : start] == b"," else raw[:start] + raw[end:]


def _written_again(kind: Kind, raw: bytes) -> bytes:
    parts = _fields.decode(raw)
    metadata = _fields.decode(parts.pop("metadata", msgspec.Raw(b"{}")))
    metadata.pop("managedFields", None)
    parts.pop("apiVersion", None)
    parts.pop("kind", None)
    return _encoder.encode({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **parts})


def version_number(resource_version: str) -> int:
    """A resource version as a number; they grow within one kind. One that is not a number is older than all."""
    return int(resource_version) if resource_version.isdecimal() else -1


def _interned(labels: dict[str, str] | None) -> dict[str, str]:
    # The same few label keys and values come thousands of times.
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()} if labels else {}
