"""Schemas of custom resources, from the structural OpenAPI schema in their definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelyard.kube.schema.catalog import definition
from modelyard.kube.schema.node import ANYTHING, DEDUCED, NO_DEFAULT, ListType, Schema

_STRING = Schema(type="string")

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def crd_schema(openapi: Mapping[str, Any]) -> Schema:
    """The schema of a custom resource's objects; `metadata` is what it is for every kind."""
    root = dict(openapi)
    root["x-kubernetes-embedded-resource"] = True
    return _node(root, preserve=False)


def _node(document: Mapping[str, Any], preserve: bool) -> Schema:
    preserve = preserve or bool(document.get("x-kubernetes-preserve-unknown-fields"))
    int_or_string = bool(document.get("x-kubernetes-int-or-string"))
    kind = "" if int_or_string else document.get("type", "")
    shared: dict[str, Any] = {
        "format": document.get("format", ""),
        "enum": tuple(document.get("enum") or ()),
        "default": document.get("default", NO_DEFAULT),
        "nullable": bool(document.get("nullable")),
    }
    if int_or_string:
        return Schema(int_or_string=True, quantity=document.get("pattern") == QUANTITY_PATTERN, **shared)
    if kind == "array":
        items = document.get("items")
        return Schema(
            type="array",
            items=_node(items, preserve) if items else ANYTHING,
            list_type=ListType(document.get("x-kubernetes-list-type") or "atomic"),
            keys=tuple(document.get("x-kubernetes-list-map-keys") or ()),
            **shared,
        )
    if kind in ("object", ""):
        return _object(document, kind, preserve, shared)
    return Schema(type=kind, **shared)


def _object(document: Mapping[str, Any], kind: str, preserve: bool, shared: dict[str, Any]) -> Schema:
    fields = {name: _node(each, preserve) for name, each in (document.get("properties") or {}).items()}
    embedded = bool(document.get("x-kubernetes-embedded-resource"))
    if embedded:
        fields |= {"apiVersion": _STRING, "kind": _STRING, "metadata": definition("meta.v1.ObjectMeta")}
    additional = document.get("additionalProperties")
    if isinstance(additional, Mapping) and additional:
        values: Schema | None = _node(additional, preserve)
    else:
        open_ended = preserve or not document.get("properties") if additional is None else additional is not False
        values = DEDUCED if open_ended else None
    return Schema(
        type=kind,
        fields=fields,
        values=values,
        items=ANYTHING,
        atomic=document.get("x-kubernetes-map-type") == "atomic",
        required=frozenset(document.get("required") or ()),
        preserve_unknown=preserve,
        embedded_resource=embedded,
        **shared,
    )
