"""Whether a schema may be a custom resource's: that it is structural, and the limits that Kubernetes sets to OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelyard.local.apiserver.requests.problems import Cause, field_forbidden, invalid_value, required
from modelyard.local.apiserver.structural.patterns import pattern_problem

Schema = Mapping[str, Any]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_LEVELS = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def unsupported_keyword(schema: Schema) -> str | None:
    """Why a schema cannot even be read as structural; None when it can."""
    for keyword, shown in (
        ("id", "id"), ("$schema", "schema"), ("$ref", "$ref"), ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"), ("additionalItems", "additionalItems"), ("definitions", "definitions"),
    ):  # fmt: skip
        if schema.get(keyword) or (keyword == "additionalItems" and keyword in schema):
            return f"OpenAPIV3Schema '{shown}' is not supported"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    for child in nested_schemas(schema):
        if problem := unsupported_keyword(child):
            return problem
    return None


def nested_schemas(schema: Schema) -> list[Schema]:
    """The schemas directly inside one."""
    children = list((schema.get("properties") or {}).values())
    children += [
        schema[name] for name in ("items", "additionalProperties", "not") if isinstance(schema.get(name), Mapping)
    ]
    for junctor in _JUNCTORS:
        children += schema.get(junctor) or ()
    return children


def check_structural(schema: Schema, path: str) -> list[Cause]:
    """What keeps a schema from being structural, in the order of the texts."""
    causes = _invariants(schema, "root", path) + _completeness(schema, schema, path, path)
    return sorted(causes, key=str)


def _invariants(schema: Schema, level: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    kind = schema.get("type") or ""
    items, additional = schema.get("items"), schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    if kind == "array" and items is None:
        causes.append(required(f"{path}.items", "must be specified"))
    if isinstance(items, Mapping):
        causes += _invariants(items, "item", f"{path}.items")
    for name, child in properties.items():
        causes += _invariants(child, "field", f"{path}.properties[{name}]")
    if additional is not None:
        if level == "root":
            causes.append(field_forbidden(f"{path}.additionalProperties", "must not be used at the root"))
        if isinstance(additional, Mapping):
            causes += _invariants(additional, "field", f"{path}.additionalProperties")
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    for keyword, given in (("preserve-unknown-fields", preserve), ("embedded-resource", embedded)):
        if int_or_string and given:
            text = "must be false if x-kubernetes-int-or-string is true"
            causes.append(invalid_value(f"{path}.x-kubernetes-{keyword}", True, text))
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    causes += _value_rules(
        schema, path, skip_any_of=any_of == _INT_OR_STRING,
        skip_first=bool(all_of) and (all_of[0].get("anyOf") or []) == _INT_OR_STRING,
    )  # fmt: skip
    if embedded and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        causes.append(invalid_value(f"{path}.type", kind, text) if kind else required(f"{path}.type", text))
    elif not kind and not int_or_string and not preserve:
        causes.append(required(f"{path}.type", _LEVELS[level]))
    if embedded and additional is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        causes.append(field_forbidden(f"{path}.additionalProperties", text))
    if level == "root" and kind and kind != "object":
        causes.append(invalid_value(f"{path}.type", kind, "must be object at the root"))
    causes += _meta_invariants(properties, level, level == "root" or embedded, path)
    if embedded and not preserve and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        causes.append(required(f"{path}.properties", text))
    return causes


def _meta_invariants(properties: Mapping[str, Schema], level: str, checked: bool, path: str) -> list[Cause]:
    causes = []
    for name in ("kind", "apiVersion"):
        if checked and name in properties and properties[name].get("type") != "string":
            found = properties[name].get("type") or ""
            causes.append(invalid_value(f"{path}.properties[{name}].type", found, "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return causes
    if checked and metadata.get("type") != "object":
        found = metadata.get("type") or ""
        causes.append(invalid_value(f"{path}.properties[metadata].type", found, "must be object"))
    if level == "root":
        inside = set(metadata.get("properties") or {})
        extra = {key for key, value in metadata.items() if value} - {"type", "properties", "default"}
        if extra or not inside <= {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            causes.append(field_forbidden(f"{path}.properties[metadata]", text))
    return causes


def _value_rules(schema: Schema, path: str, *, skip_any_of: bool = False, skip_first: bool = False) -> list[Cause]:
    """The rules inside anyOf, allOf, oneOf and not, and the pattern."""
    causes = []
    for junctor in ("anyOf", "allOf", "oneOf"):
        if junctor == "anyOf" and skip_any_of:
            continue
        for index, branch in enumerate(schema.get(junctor) or ()):
            skip = junctor == "allOf" and skip_first and index == 0
            causes += _nested(branch, f"{path}.{junctor}[{index}]", skip_any_of=skip)
    if isinstance(schema.get("not"), Mapping):
        causes += _nested(schema["not"], f"{path}.not")
    if (pattern := schema.get("pattern")) and (problem := pattern_problem(pattern)):
        text = f"must be a valid regular expression, but isn't: {problem}"
        causes.append(invalid_value(f"{path}.pattern", pattern, text))
    return causes


_FORBIDDEN_INSIDE = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def _nested(schema: Schema, path: str, *, skip_any_of: bool = False) -> list[Cause]:
    """A schema under a junctor: it may restrict values, not shape them."""
    causes = _value_rules(schema, path, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), Mapping):
        causes += _nested(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for name, child in properties.items():
        causes += _nested(child, f"{path}.properties[{name}]")
    for keyword, text in _FORBIDDEN_INSIDE:
        given = schema.get(keyword)
        if given or (keyword == "default" and given is not None):
            causes.append(field_forbidden(f"{path}.{keyword}", text))
    if "metadata" in properties:
        causes.append(field_forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))
    return causes


def _completeness(rules: Schema, node: Schema | None, node_path: str, path: str) -> list[Cause]:
    """Every value rule must be about something that the structural part declares."""
    causes = []
    branches = [(f"{path}.not", rules["not"])] if isinstance(rules.get("not"), Mapping) else []
    for junctor in _JUNCTORS:
        branches += [(f"{path}.{junctor}[{index}]", branch) for index, branch in enumerate(rules.get(junctor) or ())]
    for branch_path, branch in branches:
        causes += _nested_completeness(branch, node, node_path, branch_path)
    return causes


def _nested_completeness(rules: Schema, node: Schema | None, node_path: str, path: str) -> list[Cause]:
    if node is None:
        return [required(node_path, f"because it is defined in {path}")]
    causes = _completeness(rules, node, node_path, path)
    if isinstance(rules.get("items"), Mapping):
        causes += _nested_completeness(rules["items"], node.get("items"), f"{node_path}.items", f"{path}.items")
    declared = node.get("properties") or {}
    for name, child in (rules.get("properties") or {}).items():
        below = f".properties[{name}]"
        causes += _nested_completeness(child, declared.get(name), node_path + below, path + below)
    return causes
