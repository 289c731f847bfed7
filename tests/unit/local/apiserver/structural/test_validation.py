"""Custom resources are judged by their schema in Kubernetes' words."""

from typing import Any

import pytest

from modelyard.local.apiserver.structural import Validator, compile_list_rules, read_schema


def spec(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def causes(schema: dict[str, Any], obj: dict[str, Any]) -> list[str]:
    return [str(cause) for cause in Validator(read_schema(schema)).validate(obj)]


CASES: list[tuple[str, dict[str, Any], Any, list[str]]] = [
    ("fine", {"type": "string"}, "a", []),
    (
        "wrong type",
        {"type": "integer"},
        "a",
        ['spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'],
    ),
    ("a whole float is an integer", {"type": "integer"}, 3.0, []),
    ("an integer is a number", {"type": "number"}, 3, []),
    (
        "a boolean is not an integer",
        {"type": "integer"},
        True,
        ['spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"'],
    ),
    (
        "null",
        {"type": "string"},
        None,
        ['spec.x: Invalid value: "null": spec.x in body must be of type string: "null"'],
    ),
    ("nullable", {"type": "string", "nullable": True}, None, []),
    (
        "enum",
        {"type": "string", "enum": ["a", "b"]},
        "c",
        ['spec.x: Unsupported value: "c": supported values: "a", "b"'],
    ),
    (
        "pattern",
        {"type": "string", "pattern": "^a+$"},
        "b",
        ["spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'"],
    ),
    (
        "a pattern's end is the very end",
        {"type": "string", "pattern": "^a$"},
        "a\n",
        ["spec.x: Invalid value: \"a\\n\": spec.x in body should match '^a$'"],
    ),
    ("maxLength", {"type": "string", "maxLength": 2}, "abc", ["spec.x: Too long: may not be more than 2 bytes"]),
    (
        "minLength",
        {"type": "string", "minLength": 1},
        "",
        ['spec.x: Invalid value: "": spec.x in body should be at least 1 chars long'],
    ),
    (
        "minimum",
        {"type": "integer", "minimum": 1},
        0,
        ["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
    ),
    (
        "exclusive maximum",
        {"type": "number", "maximum": 1.5, "exclusiveMaximum": True},
        1.5,
        ["spec.x: Invalid value: 1.5: spec.x in body should be less than 1.5"],
    ),
    (
        "multipleOf",
        {"type": "integer", "multipleOf": 5},
        7,
        ["spec.x: Invalid value: 7: spec.x in body should be a multiple of 5"],
    ),
    (
        "int32",
        {"type": "integer", "format": "int32"},
        2**31,
        ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'],
    ),
    (
        "date-time",
        {"type": "string", "format": "date-time"},
        "yesterday",
        ['spec.x: Invalid value: "yesterday": spec.x in body must be of type date-time: "yesterday"'],
    ),
    ("an unknown format is ignored", {"type": "string", "format": "colour"}, "yesterday", []),
    (
        "maxItems",
        {"type": "array", "maxItems": 1, "items": {"type": "string"}},
        ["a", "b"],
        ["spec.x: Too many: 2: must have at most 1 item"],
    ),
    (
        "minItems",
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        [],
        ["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"],
    ),
    (
        "items",
        {"type": "array", "items": {"type": "string"}},
        ["a", 1],
        ['spec.x[1]: Invalid value: "integer": spec.x[1] in body must be of type string: "integer"'],
    ),
    (
        "additional properties",
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"k": 1},
        ['spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer"'],
    ),
    ("required", {"type": "object", "required": ["a"]}, {}, ["spec.x.a: Required value"]),
    ("int or string", {"x-kubernetes-int-or-string": True}, "a", []),
    (
        "neither int nor string",
        {"x-kubernetes-int-or-string": True},
        True,
        ['spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"'],
    ),
    (
        "oneOf",
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {},
        [
            '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
            "spec.x.a: Required value",
        ],
    ),
    (
        "not",
        {"type": "string", "not": {"enum": ["a"]}},
        "a",
        ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'],
    ),
]


@pytest.mark.parametrize(("schema", "value", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_value_is_judged(schema: dict[str, Any], value: Any, expected: list[str]) -> None:
    assert causes(spec(x=schema), {"spec": {"x": value}}) == expected


def test_missing_root_property_is_named_without_a_dot() -> None:
    assert causes({"type": "object", "required": ["spec"]}, {}) == ["spec: Required value"]


def test_unchanged_wrong_value_does_not_block_an_update() -> None:
    validator = Validator(read_schema(spec(x={"type": "string", "enum": ["a"]}, y={"type": "string", "enum": ["a"]})))
    old = {"spec": {"x": "old", "y": "a"}}
    assert validator.validate_update({"spec": {"x": "old", "y": "a", "z": 1}}, old) == []
    assert [c.field for c in validator.validate_update({"spec": {"x": "new", "y": "a"}}, old)] == ["spec.x"]


def test_repeated_items_of_sets_and_maps_are_told_once() -> None:
    schema = spec(
        tags={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ports={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
        },
    )
    check = compile_list_rules(read_schema(schema))
    assert check is not None
    found = check({"spec": {"tags": ["a", "b", "a", "a"], "ports": [{"port": 1}, {"port": 1, "x": 2}]}})
    assert [str(cause) for cause in found] == [
        'spec.tags[2]: Duplicate value: "a"',
        'spec.ports[1]: Duplicate value: {"port":1}',
    ]
    assert compile_list_rules(read_schema(spec(x={"type": "string"}))) is None
