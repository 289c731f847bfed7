"""Parts of an object by field set: the object without them, or only them."""

from __future__ import annotations

from typing import Any

from modelyard.kube.fieldsets.sets import LEAF, Fields, FieldSet
from modelyard.kube.fieldsets.typed import element_of
from modelyard.kube.schema import DEDUCED, Schema


def remove(obj: dict[str, Any], fields: FieldSet, schema: Schema) -> dict[str, Any]:
    """The object without these fields; the rest is shared with it. What held nothing but them is null, as ownership sees it."""
    return _remove(obj, fields.root, schema) or {}


def _remove(value: Any, fields: Fields, schema: Schema) -> Any:
    kind = type(value)
    if kind is dict:
        if not schema.granular:
            return None
        kept = {}
        for key, each in value.items():
            node = fields.get("f:" + key)
            if node is None:
                kept[key] = each
            elif node and "." not in node:
                kept[key] = _remove(each, node, schema.child(key) or DEDUCED)
        return kept or None
    if kind is list:
        if not schema.associative:
            return None
        items = schema.items or DEDUCED
        rest = []
        for each in value:
            node = fields.get(element_of(each, schema))
            if node is None:
                rest.append(each)
            elif node and "." not in node:
                rest.append(_remove(each, node, items))
        return rest or None
    return value


def without_emptied(obj: dict[str, Any], fields: FieldSet, schema: Schema) -> dict[str, Any]:
    """An object that `remove` made, without the nulls that this left."""
    kept: dict[str, Any] = _without_emptied(obj, fields.root, schema)
    return kept


def _without_emptied(value: Any, fields: Fields, schema: Schema) -> Any:
    if type(value) is dict:
        kept = {}
        for key, each in value.items():
            node = fields.get("f:" + key)
            if not node:
                kept[key] = each
            elif each is not None:
                kept[key] = _without_emptied(each, node, schema.child(key) or DEDUCED)
        return kept
    if type(value) is list and schema.associative:
        items = schema.items or DEDUCED
        return [_without_emptied(each, fields.get(element_of(each, schema)) or LEAF, items) for each in value]
    return value


def extract(obj: dict[str, Any], fields: FieldSet, schema: Schema) -> dict[str, Any]:
    """Only these fields of the object; items of lists keep the fields that identify them."""
    return _extract(obj, fields.root, schema) or {}


def _extract(value: Any, fields: Fields, schema: Schema) -> Any:
    kind = type(value)
    if kind is dict:
        if not value or not schema.granular:
            return value
        found = {}
        for key, each in value.items():
            node = fields.get("f:" + key)
            if node is None:
                continue
            child = schema.child(key) or DEDUCED
            taken = _extract(each, node, child) if node else _bare(each, child)
            if taken is not None or each is None:
                found[key] = taken
        return found if found or "." in fields else None
    if kind is list:
        if not value or not schema.associative:
            return value
        items = schema.items or DEDUCED
        kept = []
        for each in value:
            node = fields.get(element_of(each, schema))
            if node is None:
                continue
            if type(each) is dict:
                identity = {name: each[name] for name in schema.keys if name in each}
                kept.append(identity | (_extract(each, node, items) or {} if node else {}))
            else:
                kept.append(each)
        return kept if kept or "." in fields else None
    return value


def _bare(value: Any, schema: Schema) -> Any:
    """A field that is owned by itself, without what is below it."""
    if type(value) is dict and schema.granular:
        return {}
    if type(value) is list and schema.associative:
        return []
    return value
