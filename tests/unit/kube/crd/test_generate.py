"""Typed classes become the CRDs that an API server takes."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from msgspec import Meta

from modelyard.kube.crd import (
    Column,
    Definition,
    Model,
    Resource,
    Rule,
    Version,
    WebhookService,
    default,
    definition_of,
    embedded,
    schema_of,
)


class Color(enum.Enum):
    RED = "Red"
    BLUE = "Blue"


class Part(Model):
    """A part
    of a thing."""

    rules: ClassVar[Sequence[Rule]] = (Rule("self.size > 0", "size must be positive"),)
    schema_extra: ClassVar[Mapping[str, Any]] = {"x-kubernetes-map-type": "atomic"}

    size: int
    name: str = "x"


class Node(Model):
    children: list[Node] | None = None


def schema_for(annotation: Any, **defaults: Any) -> dict[str, Any]:
    """The schema of one field of that type."""
    spec = msgspec.defstruct("Spec", [("field", annotation, *defaults.values())], bases=(Model,), kw_only=True)
    resource = msgspec.defstruct("Thing", [("spec", spec)], bases=(Resource,), kw_only=True)
    assert issubclass(resource, Resource)
    schema: dict[str, Any] = schema_of(resource)["properties"]["spec"]["properties"]["field"]
    return schema


PART = {
    "type": "object",
    "description": "A part of a thing.",
    "properties": {"size": {"type": "integer"}, "name": {"type": "string", "default": "x"}},
    "required": ["size"],
    "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "size must be positive"}],
    "x-kubernetes-map-type": "atomic",
}
INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
FIELDS: list[tuple[str, Any, dict[str, Any]]] = [
    ("text", str, {"type": "string"}),
    ("number", int, {"type": "integer"}),
    ("fraction", float, {"type": "number"}),
    ("flag", bool, {"type": "boolean"}),
    ("optional text", str | None, {"type": "string"}),
    ("nullable", Annotated[str, Meta(extra_json_schema={"nullable": True})] | None, {"type": "string", "nullable": True}),
    (
        "pattern and lengths",
        Annotated[str, Meta(pattern="^a$", min_length=1, max_length=5)],
        {"type": "string", "pattern": "^a$", "minLength": 1, "maxLength": 5},
    ),
    ("range", Annotated[int, Meta(ge=0, le=65535)], {"type": "integer", "minimum": 0, "maximum": 65535}),
    (
        "open range",
        Annotated[float, Meta(gt=0, lt=1)],
        {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1, "exclusiveMaximum": True},
    ),
    (
        "format",
        Annotated[int, Meta(extra_json_schema={"format": "int32"}), Meta(ge=1)],
        {"type": "integer", "format": "int32", "minimum": 1},
    ),
    ("literal", Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    ("numbers to choose from", Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
    ("enum", Color, {"type": "string", "enum": ["Red", "Blue"]}),
    ("list", list[str], {"type": "array", "items": {"type": "string"}}),
    (
        "list with limits",
        Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=3)],
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": 3},
    ),
    (
        "list map",
        Annotated[
            list[Part],
            Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
        ],
        {"type": "array", "items": PART, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
    ("map", dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    ("map with limit", Annotated[dict[str, str], Meta(max_length=2)],
     {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2}),
    ("any object", dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    ("anything", Any, {"x-kubernetes-preserve-unknown-fields": True}),
    ("number or text", int | str, INT_OR_STRING),
    ("optional number or text", int | str | None, INT_OR_STRING),
    ("part", Part, PART),
    ("optional part", Part | None, PART),
    ("set", set[str], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
    ("default beside the type", Annotated[dict[str, str], default({"a": "b"})],
     {"type": "object", "additionalProperties": {"type": "string"}, "default": {"a": "b"}}),
    ("description", Annotated[str, Meta(description="Why.", examples=["x"])], {"type": "string", "description": "Why."}),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "expected"), [row[1:] for row in FIELDS], ids=[row[0] for row in FIELDS])
def test_type_becomes_schema(annotation: Any, expected: dict[str, Any]) -> None:
    assert schema_for(annotation) == expected


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (str, "", ""), (int, 0, 0), (bool, False, False), (Color, Color.RED, "Red"), (Literal["a", "b"], "b", "b"),
        (int | str, "25%", "25%"),
    ],
)  # fmt: skip
def test_python_default_becomes_the_default(annotation: Any, value: Any, expected: Any) -> None:
    assert schema_for(annotation, default=value)["default"] == expected


@pytest.mark.parametrize("annotation", [list[str] | None, str | None])
def test_none_is_no_default(annotation: Any) -> None:
    assert "default" not in schema_for(annotation, default=None)


def test_embedded_core_type_brings_its_real_schema() -> None:
    schema = schema_for(Annotated[dict[str, Any], embedded("core.v1.Toleration")])
    assert schema["type"] == "object"
    assert schema["properties"]["tolerationSeconds"] == {"type": "integer", "format": "int64"}


@pytest.mark.parametrize(
    "name",
    ["resource.Quantity", "apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity"],
)
def test_embedded_types_are_known_by_their_openapi_names_too(name: str) -> None:
    assert schema_for(Annotated[int | str, embedded(name)])["x-kubernetes-int-or-string"] is True


def test_embedded_schema_can_be_changed_in_places() -> None:
    changed = embedded(
        "core.v1.SecretKeySelector", properties={"key": {"minLength": 1}, "optional": None}, required=["key", "name"]
    )
    schema = schema_for(Annotated[dict[str, Any], changed])
    assert schema["properties"]["key"] == {"type": "string", "minLength": 1}
    assert "optional" not in schema["properties"]
    assert schema["required"] == ["key", "name"]


def test_rules_beside_a_field_come_after_those_of_its_class() -> None:
    more = Meta(extra_json_schema={"x-kubernetes-validations": [{"rule": "self == oldSelf"}]})
    rules = schema_for(Annotated[Part, more])["x-kubernetes-validations"]
    assert [rule["rule"] for rule in rules] == ["self.size > 0", "self == oldSelf"]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (int | list[str], "a choice of types"),
        (dict[int, str], "the keys of a map are always texts"),
        (Node, "contains itself"),
        (tuple[int, str], "no structural schema"),
        (Annotated[dict[str, Any], embedded("core.v1.Nonsense")], "no built-in type is called core.v1.Nonsense"),
    ],
)
def test_type_without_structural_schema_is_refused_with_its_place(annotation: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"Thing\.spec\.field.*{message}"):
        schema_for(annotation)


class ThingSpec(Model):
    size: int = 1


class Thing(Resource, kw_only=True):
    """A thing."""

    schema_extra: ClassVar[Mapping[str, Any]] = {
        "properties": {"metadata": {"properties": {"name": {"type": "string", "maxLength": 40}}}}
    }

    spec: ThingSpec
    status: dict[str, Any] | None = None


class OldThing(Resource):
    spec: ThingSpec | None = None


THINGS = Definition(
    group="example.org",
    kind_name="Thing",
    plural="things",
    namespaced=False,
    short_names=["th"],
    categories=["all"],
    conversion_path="/convert",
    versions=[
        Version(
            "v1", Thing, columns=[Column("Size", ".spec.size", "integer", priority=1)], rules=[Rule("has(self.spec)")]
        ),
        Version("v1alpha1", OldThing, storage=False, status=False, deprecated=True, deprecation_warning="use v1"),
    ],
)


def test_definition_says_how_the_api_serves_it() -> None:
    crd = definition_of(THINGS, service=WebhookService("hook", "plane", 8443), ca_bundle="Q0E=")
    assert crd["metadata"] == {"name": "things.example.org"}
    spec = crd["spec"]
    assert spec["scope"] == "Cluster"
    assert spec["names"] == {
        "kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing", "shortNames": ["th"], "categories": ["all"],
    }  # fmt: skip
    assert spec["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "service": {"name": "hook", "namespace": "plane", "path": "/convert", "port": 8443},
                "caBundle": "Q0E=",
            },
            "conversionReviewVersions": ["v1"],
        },
    }
    new, old = spec["versions"]
    assert new["subresources"] == {"status": {}}
    assert new["additionalPrinterColumns"] == [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}
    ]
    assert (old["storage"], old["deprecated"], old["deprecationWarning"]) == (False, True, "use v1")
    assert "subresources" not in old


def test_root_schema_leaves_metadata_to_the_api_server() -> None:
    root = definition_of(THINGS)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert root["properties"]["apiVersion"] == root["properties"]["kind"] == {"type": "string"}
    assert root["properties"]["metadata"] == {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 40}},
    }
    assert root["required"] == ["spec"]
    assert root["x-kubernetes-validations"] == [{"rule": "has(self.spec)"}]
