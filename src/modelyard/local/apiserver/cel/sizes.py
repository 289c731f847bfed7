"""How large the values of a schema can be, as Kubernetes reckons: what cost estimates of CEL rules start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modelyard.local.apiserver.cel.shapes import escape
from modelyard.local.apiserver.structural.nodes import NO_DEFAULT, Node

LARGEST_REQUEST = 3 * 1024 * 1024
_NAME = 253
_BYTES_OF_A_CHARACTER = 4
_FORMATS = {
    # format: (type, characters, bytes of the shortest in JSON)
    "duration": ("duration", 32, 3),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 32, 21),
}
_SHORTEST = {"boolean": ("bool", 4), "number": ("double", 1), "integer": ("int", 1)}


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """A type of values as CEL sees them, and how large one can be."""

    type: str
    """string, bytes, duration, timestamp, bool, int, double, list, map, object, or dyn."""
    most: int = 0
    """Characters, items or entries; nothing is counted for the other types."""
    shortest: int = 2
    """Bytes of the smallest value in JSON."""
    fields: Mapping[str, Size] = field(default_factory=dict)
    element: Size | None = None

    def at(self, name: str) -> Size | None:
        """The type one step below: a field, `@items`, `@values` or `@keys`."""
        if name in ("@items", "@values"):
            return self.element
        if name == "@keys":
            return STRING if self.type == "map" else None
        return self.fields.get(name)


STRING = Size("string")


def size_of(node: Node, *, resource: bool) -> Size | None:
    """None for what CEL does not see. `resource`: a whole object, whose kind and name are always there."""
    if node.int_or_string:
        return Size("dyn", _length(node.raw, LARGEST_REQUEST - 2), 1)
    match node.type:
        case "array":
            return _list(node)
        case "object":
            return _map(node) if node.additional is not None else _object(node, resource)
        case "string":
            return _string(node)
    if node.type in _SHORTEST:
        type, shortest = _SHORTEST[node.type]
        return Size(type, 0, shortest)
    return None


def _list(node: Node) -> Size | None:
    element = size_of(node.items, resource=node.items.embedded) if node.items is not None else None
    if element is None:
        return None
    return Size("list", _count(node.raw, "maxItems", (LARGEST_REQUEST - 2) // (element.shortest + 1)), element=element)


def _map(node: Node) -> Size | None:
    element = size_of(node.additional, resource=node.additional.embedded) if node.additional is not None else None
    if element is None:
        return None
    most = _count(node.raw, "maxProperties", (LARGEST_REQUEST - 2) // (element.shortest + 6))
    return Size("map", most, element=element)


def _object(node: Node, resource: bool) -> Size:
    fields: dict[str, Size] = {}
    shortest, needed = 2, set(node.raw.get("required") or ())
    for name, child in node.properties.items():
        below = size_of(child, resource=child.embedded)
        if below is None:
            continue
        if (escaped := escape(name)) is not None:
            fields[escaped] = below
        if name in needed and child.default is NO_DEFAULT:
            shortest += len(name) + below.shortest + 4
    if resource:
        text = Size("string", LARGEST_REQUEST - 2)
        names = {"name": _name(node, "name", _NAME), "generateName": _name(node, "generateName", _NAME - 1)}
        fields |= {"kind": text, "apiVersion": text, "metadata": Size("object", fields=names)}
    return Size("object", 0, shortest, fields)


def _name(node: Node, name: str, most: int) -> Size:
    metadata = node.properties.get("metadata")
    given = metadata.properties[name].raw if metadata is not None and name in metadata.properties else {}
    return Size("string", min(most, _count(given, "maxLength", most)) * _BYTES_OF_A_CHARACTER)


def _string(node: Node) -> Size:
    raw = node.raw
    if (known := _FORMATS.get(raw.get("format") or "")) is not None:
        return Size(*known)
    if raw.get("format") == "byte":
        return Size("bytes", _count(raw, "maxLength", LARGEST_REQUEST - 2))
    words = [len(value.encode()) for value in raw.get("enum") or () if isinstance(value, str)]
    return Size("string", _length(raw, max(words, default=0) if raw.get("enum") else LARGEST_REQUEST - 2))


def _length(raw: Mapping[str, Any], otherwise: int) -> int:
    """A limit is in characters, and any of them may take four bytes."""
    return _count(raw, "maxLength", -1) * _BYTES_OF_A_CHARACTER if raw.get("maxLength") is not None else otherwise


def _count(raw: Mapping[str, Any], limit: str, otherwise: int) -> int:
    return otherwise if raw.get(limit) is None else max(0, int(raw[limit]))
