"""Whether a configuration fits its schema, with the messages that server-side apply gives."""

from __future__ import annotations

from typing import Any, TypeAlias

from modelyard.kube.fieldsets.sets import element_text
from modelyard.kube.fieldsets.typed import TypedError, element_of
from modelyard.kube.gotext import go_source, go_text
from modelyard.kube.schema import DEDUCED, Schema

_PLAIN = (str, int, float, bool)

_Errors: TypeAlias = list[tuple[str, str]]
"""What is wrong, by path; paths are completed on the way up, so that a good object costs none."""


def validate(obj: dict[str, Any], schema: Schema) -> None:
    """Raise TypedError if a field is not declared, has the wrong type, or a list repeats an identity."""
    errors: _Errors = []
    _map(obj, schema, errors)
    if errors:
        shown = [f"{path}: {said}" if path else said for path, said in errors]
        raise TypedError(shown[0] if len(shown) == 1 else "\n".join(["errors:", *(f"  {each}" for each in shown)]))


def _value(value: Any, schema: Schema, element: str, errors: _Errors) -> None:
    known = len(errors)
    kind = type(value)
    if kind is dict:
        if schema.type == "object" or (not schema.type and not schema.is_plain):
            _map(value, schema, errors)
        else:
            errors.append(("", _wrong(value, schema)))
    elif kind is list:
        if schema.type == "array" or (not schema.type and not schema.is_plain):
            _list(value, schema, errors)
        else:
            errors.append(("", _wrong(value, schema)))
    elif value is not None and not _fits(value, schema.scalar):
        errors.append(("", _wrong(value, schema)))
    if len(errors) > known:
        prefix = element_text(element)
        errors[known:] = [(prefix + path, said) for path, said in errors[known:]]


def _map(value: dict[str, Any], schema: Schema, errors: _Errors) -> None:
    if schema is DEDUCED:
        return
    fields, values = schema.fields, schema.values
    for key, each in value.items():
        child = fields.get(key) or values
        if child is None:
            if schema.preserve_unknown:
                continue
            errors.append(("." + key, "field not declared in schema"))
            return
        if type(each) is not str or child.scalar != "string":
            _value(each, child, "f:" + key, errors)


def _list(value: list[Any], schema: Schema, errors: _Errors) -> None:
    items = schema.items or DEDUCED
    if not schema.associative:
        for position, item in enumerate(value):
            _value(item, items, f"i:{position}", errors)
        return
    seen: set[str] = set()
    for position, item in enumerate(value):
        try:
            element = element_of(item, schema)
        except TypedError as error:
            errors.append(("", f"element {position}: {error}"))
            return
        if element in seen:
            errors.append(("", f"duplicate entries for key {element_text(element)}"))
        seen.add(element)
        _value(item, items, element, errors)


def _fits(value: Any, scalar: str) -> bool:
    match scalar:
        case "string":
            return isinstance(value, str)
        case "numeric":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "untyped":
            return isinstance(value, _PLAIN)
        case _:
            return False


def _wrong(value: Any, schema: Schema) -> str:
    shown = f"&{{{go_text(value)}}}"
    match schema.type:
        case "object":
            return f"expected map, got {shown}"
        case "array":
            return f"expected list, got {shown}"
        case "integer" | "number":
            return f"expected numeric (int or float), got {_go_type(value)}"
        case "string":
            return f"expected string, got &value.valueUnstructured{{Value:{go_source(value)}}}"
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
