"""The limits that Kubernetes sets to a CRD's OpenAPI schema beside being structural: keywords, list types, CEL rules' texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.problems import Cause, field_forbidden, invalid_value, not_supported, required
from modelyard.local.apiserver.structural.checks import Schema
from modelyard.local.apiserver.structural.nodes import META_FIELDS

TYPES = ("array", "boolean", "integer", "number", "object", "string")
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")

RuleCheck = Callable[[Schema, str, str, bool], list[Cause]]
"""(schema, path, path of the uncorrelatable ancestor or "", is root) -> what is wrong with the schema's CEL rules."""


@dataclass(slots=True)
class _Found:
    schema: list[Cause] = field(default_factory=list)
    rules: list[Cause] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """What holds at a place of the schema."""

    no_defaults: str | None = None
    """Why defaults are not allowed here; None: they are."""
    inside_meta: bool = False
    uncorrelatable: str = ""
    structural: bool = True
    """CEL rules are compiled only where the schema is part of the structural spine."""


def check_keywords(schema: Schema, path: str, check_rules: RuleCheck | None) -> list[Cause]:
    """`check_rules` is None while the schema is not structural: its CEL rules cannot be judged."""
    found = _check(schema, path, _Place(structural=check_rules is not None), True, check_rules)
    return found.schema + found.rules


def _check(schema: Schema, path: str, place: _Place, root: bool, check_rules: RuleCheck | None) -> _Found:
    found = _Found()
    out = found.schema
    out += _plain_keywords(schema, path, place)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        out.append(field_forbidden(f"{path}.uniqueItems", text))
    for child_path, child, child_place in _children(schema, path, place, root, out):
        below = _check(child, child_path, child_place, False, check_rules)
        out += below.schema
        found.rules += below.rules
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        out.append(invalid_value(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    out += _map_type(schema, path)
    out += _list_type(schema, path)
    out += _list_keys(schema, path)
    rules = schema.get("x-kubernetes-validations") or ()
    for index, rule in enumerate(rules):
        out += _rule_texts(rule, schema, f"{path}.x-kubernetes-validations[{index}]")
    if rules and not out and check_rules is not None and place.structural:
        found.rules += check_rules(schema, path, place.uncorrelatable, root)
    return found


def _children(
    schema: Schema, path: str, place: _Place, root: bool, out: list[Cause]
) -> list[tuple[str, Schema, _Place]]:
    children: list[tuple[str, Schema, _Place]] = []
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if additional is not None:
        if properties and additional is not True:
            text = "additionalProperties and properties are mutual exclusive"
            out.append(field_forbidden(f"{path}.additionalProperties", text))
        if isinstance(additional, Mapping):
            reason = "inside additionalProperties applying to object metadata"
            below = replace(place, no_defaults=reason) if place.inside_meta else place
            children.append((f"{path}.additionalProperties", additional, below))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    for name, child in properties.items():
        below = place
        if schema.get("x-kubernetes-map-type") not in (None, "granular", "atomic"):
            below = replace(below, uncorrelatable=below.uncorrelatable or path)
        if (root or embedded) and name in META_FIELDS:
            below = replace(below, inside_meta=True)
            if root:
                below = replace(below, no_defaults=f"in top-level {name}")
        children.append((f"{path}.properties[{name}]", child, below))
    apart = replace(place, structural=False)
    if isinstance(schema.get("not"), Mapping):
        children.append((f"{path}.not", schema["not"], apart))
    for junctor in ("allOf", "oneOf", "anyOf"):
        children += [(f"{path}.{junctor}[{i}]", child, apart) for i, child in enumerate(schema.get(junctor) or ())]
    for name, child in (schema.get("definitions") or {}).items():
        children.append((f"{path}.definitions[{name}]", child, apart))
    items = schema.get("items")
    if items is not None:
        below = place
        if schema.get("x-kubernetes-list-type") != "map":
            below = replace(below, uncorrelatable=below.uncorrelatable or path)
        if isinstance(items, Mapping):
            children.append((f"{path}.items", items, below))
        else:
            children += [(f"{path}.items[{i}]", child, below) for i, child in enumerate(items)]
    return children


def _plain_keywords(schema: Schema, path: str, place: _Place) -> list[Cause]:
    causes = []
    kind = schema.get("type") or ""
    if kind and kind not in TYPES:
        causes.append(not_supported(f"{path}.type", kind, TYPES))
    if schema.get("default") is not None and place.no_defaults is not None:
        causes.append(field_forbidden(f"{path}.default", f"must not be set {place.no_defaults}"))
    for keyword in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        if schema.get(keyword) or (keyword in ("additionalItems", "dependencies") and schema.get(keyword) is not None):
            causes.append(field_forbidden(f"{path}.{keyword}", f"{keyword} is not supported"))
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        causes.append(field_forbidden(f"{path}.type", text))
    if isinstance(schema.get("items"), list) and schema["items"]:
        causes.append(field_forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        causes.append(field_forbidden(f"{path}.x-kubernetes-embedded-resource", text))
    return causes


def _wrong_type(path: str, kind: str, text: str) -> Cause:
    return invalid_value(f"{path}.type", kind, text) if kind else required(f"{path}.type", text)


def _map_type(schema: Schema, path: str) -> list[Cause]:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return []
    causes = []
    if schema.get("type") != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        causes.append(_wrong_type(path, schema.get("type") or "", text))
    if map_type not in ("atomic", "granular"):
        causes.append(not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular")))
    return causes


def _list_type(schema: Schema, path: str) -> list[Cause]:
    list_type = schema.get("x-kubernetes-list-type")
    if list_type is None:
        return []
    causes = []
    items = schema.get("items")
    if schema.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        causes.append(_wrong_type(path, schema.get("type") or "", text))
    elif list_type == "set" and isinstance(items, Mapping):
        text = "must be atomic as item of a list with x-kubernetes-list-type=set"
        if items.get("type") == "array" and items.get("x-kubernetes-list-type") not in (None, "atomic"):
            field_path = f"{path}.items.x-kubernetes-list-type"
            causes.append(invalid_value(field_path, items.get("x-kubernetes-list-type"), text))
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            field_path = f"{path}.items.x-kubernetes-map-type"
            # Kubernetes shows the list type here.
            causes.append(invalid_value(field_path, items.get("x-kubernetes-list-type"), text))
    if list_type not in ("atomic", "set", "map"):
        causes.append(not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map")))
    return causes


def _list_keys(schema: Schema, path: str) -> list[Cause]:
    causes = []
    keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if keys and list_type != "map":
        text, place = "must be map if x-kubernetes-list-map-keys is non-empty", f"{path}.x-kubernetes-list-type"
        causes.append(required(place, text) if list_type is None else invalid_value(place, list_type, text))
    if list_type == "map":
        if not keys:
            text = "must not be empty if x-kubernetes-list-type is map"
            causes.append(required(f"{path}.x-kubernetes-list-map-keys", text))
        if items is None:
            causes.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
        elif isinstance(items, Mapping):
            causes += _key_properties(keys, items, path)
    if isinstance(items, Mapping) and list_type in ("set", "map"):
        if items.get("nullable"):
            text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
            causes.append(field_forbidden(f"{path}.items.nullable", text))
        if list_type == "map":
            causes += _key_presence(keys, items, path)
    return causes


def _key_properties(keys: Sequence[str], items: Schema, path: str) -> list[Cause]:
    kind = items.get("type") or ""
    if kind != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [invalid_value(f"{path}.items.type", kind, text)]
    causes = []
    seen: set[str] = set()
    for key in keys:
        declared = (items.get("properties") or {}).get(key)
        if declared is None:
            text = "entries must all be names of item properties"
            causes.append(invalid_value(f"{path}.x-kubernetes-list-map-keys", list(keys), text))
        elif declared.get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            causes.append(invalid_value(f"{path}.items.properties[{key}].type", kind, text))
        if key in seen:
            text = "must not contain duplicate entries"
            causes.append(invalid_value(f"{path}.x-kubernetes-list-map-keys", list(keys), text))
        seen.add(key)
    return causes


def _key_presence(keys: Sequence[str], items: Schema, path: str) -> list[Cause]:
    causes = []
    for key in keys:
        declared = (items.get("properties") or {}).get(key)
        if declared is None:
            continue
        place = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and declared.get("default") is None:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            causes.append(required(f"{place}.default", text))
        if declared.get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            causes.append(field_forbidden(f"{place}.nullable", text))
    return causes


def _rule_texts(rule: Object, schema: Schema, path: str) -> list[Cause]:
    causes = []
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        causes.append(required(f"{path}.rule", "rule is not specified"))
    elif message and not message.strip():
        causes.append(invalid_value(f"{path}.message", message, "must be non-empty if specified"))
    elif _has_newline(message.strip()):
        causes.append(invalid_value(f"{path}.message", message, "must not contain line breaks"))
    elif _has_newline(text.strip()) and not message.strip():
        causes.append(required(f"{path}.message", "message must be specified if rule contains line breaks"))
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        causes.append(required(f"{path}.messageExpression", "messageExpression must be non-empty if specified"))
    reason = rule.get("reason")
    if reason is not None and reason not in REASONS:
        causes.append(not_supported(f"{path}.reason", reason, REASONS))
    field_path = rule.get("fieldPath") or ""
    if field_path and not field_path.strip():
        causes.append(invalid_value(f"{path}.fieldPath", field_path, "must be non-empty if specified"))
    if _has_newline(field_path):
        causes.append(invalid_value(f"{path}.fieldPath", field_path, "must not contain line breaks"))
    if field_path and resolve_field_path(field_path, schema) is None:
        causes.append(invalid_value(f"{path}.fieldPath", field_path, "must be a valid path"))
    return causes


def _has_newline(text: str) -> bool:
    return "\n" in text or "\r" in text


_PATH_TOKEN = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def resolve_field_path(text: str, schema: Schema) -> str | None:
    """A rule's `fieldPath` (`.spec.a`, `['b']`) as the path of an error; None when the schema has no such field."""
    position, path = 0, ""
    current: Any = schema
    while position < len(text):
        match = _PATH_TOKEN.match(text, position)
        if match is None or not isinstance(current, Mapping):
            return None
        name = match[1] if match[1] is not None else re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], ""), match[2])
        position = match.end()
        properties, additional = current.get("properties"), current.get("additionalProperties")
        if properties:
            if name not in properties:
                return None
            path, current = f"{path}.{name}" if path else name, properties[name]
        elif additional is not None:
            path, current = f"{path}[{name}]", additional
        else:
            return None
    return path
