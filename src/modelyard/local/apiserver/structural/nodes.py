"""A custom resource's schema as a tree of nodes, read once from `openAPIV3Schema`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modelyard.kube.kinds import Object

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
NO_DEFAULT: Any = object()
"""Stands for an absent default; null is a default of its own."""


@dataclass(slots=True, eq=False)
class Node:
    """The structural part of one schema; value rules (enum, pattern, anyOf ...) stay in `raw`."""

    raw: Object
    type: str = ""
    properties: dict[str, Node] = field(default_factory=dict)
    items: Node | None = None
    additional: Node | None = None
    """The schema of `additionalProperties`, when it is one."""
    additional_allowed: bool = False
    """`additionalProperties` is a schema or true."""
    additional_forbidden: bool = False
    """`additionalProperties` is false."""
    preserve: bool = False
    embedded: bool = False
    int_or_string: bool = False
    nullable: bool = False
    default: Any = NO_DEFAULT
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""

    @property
    def rules(self) -> Sequence[Object]:
        return self.raw.get("x-kubernetes-validations") or ()

    @property
    def has_rules(self) -> bool:
        """Whether this node or one below it has CEL rules."""
        children = [*self.properties.values(), self.items, self.additional]
        return bool(self.rules) or any(child.has_rules for child in children if child is not None)

    def child(self, name: str) -> Node | None:
        """The node of a property, declared or additional."""
        return self.properties.get(name) or self.additional


def read_schema(schema: Mapping[str, Any]) -> Node:
    """The node tree of a schema that passed the structural checks (others are read as far as they make sense)."""
    raw = dict(schema)
    additional = raw.get("additionalProperties")
    items = raw.get("items")
    return Node(
        raw=raw,
        type=raw.get("type") or "",
        properties={name: read_schema(child) for name, child in (raw.get("properties") or {}).items()},
        items=read_schema(items) if isinstance(items, Mapping) else None,
        additional=read_schema(additional) if isinstance(additional, Mapping) else None,
        additional_allowed=isinstance(additional, Mapping) or additional is True,
        additional_forbidden=additional is False,
        preserve=bool(raw.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(raw.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        nullable=bool(raw.get("nullable")),
        # Kubernetes cannot tell a null default from none.
        default=NO_DEFAULT if raw.get("default") is None else raw["default"],
        list_type=raw.get("x-kubernetes-list-type") or "",
        list_keys=tuple(raw.get("x-kubernetes-list-map-keys") or ()),
        map_type=raw.get("x-kubernetes-map-type") or "",
    )
