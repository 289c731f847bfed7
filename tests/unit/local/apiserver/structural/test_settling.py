"""Unknown fields go, defaults come, nulls follow the schema."""

from typing import Any

import pytest

from modelyard.local.apiserver.structural import compile_settling, read_schema


def settled(schema: dict[str, Any], value: Any) -> tuple[Any, list[str]]:
    obj = {"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "odd": 1}, "spec": value}
    unknown = compile_settling(read_schema({"type": "object", "properties": {"spec": schema}}))(obj)
    assert obj["metadata"] == {"name": "n", "odd": 1}
    return obj["spec"], unknown


STRING = {"type": "string"}
CASES: list[tuple[str, dict[str, Any], Any, Any, list[str]]] = [
    ("unknown", {"type": "object", "properties": {"a": STRING}}, {"a": "", "b": 1}, {"a": ""}, ["spec.b"]),
    (
        "unknown in a list",
        {"type": "array", "items": {"type": "object", "properties": {"a": STRING}}},
        [{"a": ""}, {"b": 1}],
        [{"a": ""}, {}],
        ["spec[1].b"],
    ),
    (
        "preserved",
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "object"}}},
        {"b": {"c": 1}, "a": {"d": 1}},
        {"b": {"c": 1}, "a": {}},
        ["spec.a.d"],
    ),
    ("map", {"type": "object", "additionalProperties": STRING}, {"b": "x"}, {"b": "x"}, []),
    ("default", {"type": "object", "properties": {"a": STRING | {"default": "x"}}}, {}, {"a": "x"}, []),
    (
        "nested default",
        {"type": "object", "properties": {"a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 3}}}}},
        {},
        {"a": {"b": 3}},
        [],
    ),
    ("no default for an absent parent", {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": STRING | {"default": "x"}}}}}, {}, {}, []),
    ("null goes", {"type": "object", "properties": {"a": STRING}}, {"a": None}, {}, []),
    ("null stays", {"type": "object", "properties": {"a": STRING | {"nullable": True}}}, {"a": None}, {"a": None}, []),
    ("null becomes the default", {"type": "object", "properties": {"a": STRING | {"default": "x"}}}, {"a": None}, {"a": "x"}, []),
    (
        "nullable null keeps from the default",
        {"type": "object", "properties": {"a": STRING | {"default": "x", "nullable": True}}},
        {"a": None},
        {"a": None},
        [],
    ),
    ("default in list items", {"type": "array", "items": {"type": "object", "properties": {"a": STRING | {"default": "x"}}}}, [{}], [{"a": "x"}], []),
    (
        "embedded resource keeps its metadata",
        {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"a": STRING}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "b": 1},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
        ["spec.b"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "expected", "unknown"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_value_is_settled(schema: dict[str, Any], value: Any, expected: Any, unknown: list[str]) -> None:
    assert settled(schema, value) == (expected, unknown)


def test_defaults_are_fresh_for_each_object() -> None:
    settle = compile_settling(
        read_schema({"type": "object", "properties": {"a": {"type": "array", "items": STRING, "default": []}}})
    )
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    settle(first)
    settle(second)
    first["a"].append("x")
    assert second == {"a": []}
