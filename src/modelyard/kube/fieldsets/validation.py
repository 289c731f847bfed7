"""Whether a configuration fits its schema, with the messages that server-side apply gives."""

from __future__ import annotations

import json
from typing import Any

from modelyard.kube.fieldsets.sets import element_text
from modelyard.kube.fieldsets.typed import TypedError, element_of
from modelyard.kube.schema import DEDUCED, Schema

_PLAIN = (str, int, float, bool)


def validate(obj: dict[str, Any], schema: Schema) -> None:
    """Raise TypedError if a field is not declared, has the wrong type, or a list repeats an identity."""
    errors: list[tuple[str, str]] = []
    _map(obj, schema, (), errors)
    if errors:
        shown = [f"{path}: {said}" if path else said for path, said in errors]
        raise TypedError(shown[0] if len(shown) == 1 else "\n".join(["errors:", *(f"  {each}" for each in shown)]))


def _value(value: Any, schema: Schema, path: tuple[str, ...], errors: list[tuple[str, str]]) -> None:
    kind = type(value)
    if value is None:
        return
    if kind is dict:
        if schema.type == "object" or (not schema.type and not schema.is_plain):
            _map(value, schema, path, errors)
            return
    elif kind is list:
        if schema.type == "array" or (not schema.type and not schema.is_plain):
            _list(value, schema, path, errors)
            return
    elif schema.scalar:
        _scalar(value, schema.scalar, path, errors)
        return
    _fail(path, _wrong(value, schema), errors)


def _map(value: dict[str, Any], schema: Schema, path: tuple[str, ...], errors: list[tuple[str, str]]) -> None:
    if schema is DEDUCED:
        return
    fields, values = schema.fields, schema.values
    for key, each in value.items():
        child = fields.get(key) or values
        if child is None:
            _fail((*path, "f:" + key), "field not declared in schema", errors)
            return
        if type(each) is str and child.scalar == "string":
            continue
        _value(each, child, (*path, "f:" + key), errors)


def _list(value: list[Any], schema: Schema, path: tuple[str, ...], errors: list[tuple[str, str]]) -> None:
    items = schema.items or DEDUCED
    if not schema.associative:
        for position, item in enumerate(value):
            _value(item, items, (*path, f"i:{position}"), errors)
        return
    seen: set[str] = set()
    for position, item in enumerate(value):
        try:
            element = element_of(item, schema)
        except TypedError as error:
            _fail(path, f"element {position}: {error}", errors)
            return
        if element in seen:
            _fail(path, f"duplicate entries for key {element_text(element)}", errors)
        seen.add(element)
        _value(item, items, (*path, element), errors)


def _scalar(value: Any, kind: str, path: tuple[str, ...], errors: list[tuple[str, str]]) -> None:
    match kind:
        case "string":
            if not isinstance(value, str):
                _fail(path, f"expected string, got &value.valueUnstructured{{Value:{json.dumps(value)}}}", errors)
        case "numeric":
            if isinstance(value, bool) or not isinstance(value, int | float):
                _fail(path, f"expected numeric (int or float), got {_go_type(value)}", errors)
        case "boolean":
            if not isinstance(value, bool):
                _fail(path, f"expected boolean, got &{{{value}}}", errors)
        case _:
            if not isinstance(value, _PLAIN):
                _fail(path, f"expected any scalar, got &{{{value}}}", errors)


def _wrong(value: Any, schema: Schema) -> str:
    shown = f"&{{{json.dumps(value)}}}"
    match schema.type:
        case "object":
            return f"expected map, got {shown}"
        case "array":
            return f"expected list, got {shown}"
        case "integer" | "number":
            return f"expected numeric (int or float), got {_go_type(value)}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{json.dumps(value)}}}"
        case "boolean":
            return f"expected boolean, got {shown}"
        case _:
            return f"expected any scalar, got {shown}"


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else type(value).__name__


def _fail(path: tuple[str, ...], said: str, errors: list[tuple[str, str]]) -> None:
    errors.append(("".join(map(element_text, path)), said))
