import json
from typing import Any

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind
from modelyard.kube.schema import (
    DEDUCED,
    ListType,
    Schema,
    builtin_kinds,
    builtin_schema,
    crd_schema,
    definition,
    openapi_dict,
)


def at(schema: Schema | None, *path: str) -> Schema:
    for name in path:
        assert schema is not None
        schema = schema.items if name == "[]" else schema.child(name)
    assert schema is not None
    return schema


def test_every_builtin_kind_has_a_schema() -> None:
    foreign = {
        kind
        for kind in vars(builtin).values()
        if (isinstance(kind, Kind) and "openshift" in kind.group) or getattr(kind, "group", "") in
        ("gateway.networking.k8s.io", "monitoring.coreos.com", "cert-manager.io")
    }  # fmt: skip
    for kind in vars(builtin).values():
        if isinstance(kind, Kind):
            assert (builtin_schema(kind) is None) == (kind in foreign), kind


def test_all_kinds_build() -> None:
    for name in builtin_kinds().values():
        assert definition(name).type == "object"


def test_lists_of_containers_are_maps_by_name() -> None:
    containers = at(builtin_schema(builtin.Deployment), "spec", "template", "spec", "containers")
    assert containers.list_type is ListType.MAP
    assert containers.keys == ("name",)
    assert containers.merge_key == "name"
    ports = at(containers, "[]", "ports")
    assert [(key.name, key.default) for key in ports.item_keys] == [("containerPort", 0), ("protocol", "TCP")]


@pytest.mark.parametrize(
    ("path", "granular", "associative"),
    [
        (("spec", "selector"), False, False),
        (("spec", "template", "metadata", "labels"), True, False),
        (("spec", "template", "spec", "tolerations"), False, False),
        (("metadata", "finalizers"), False, True),
        (("spec", "template", "spec", "nodeSelector"), False, False),
    ],
)
def test_merge_rules_of_a_deployment(path: tuple[str, ...], granular: bool, associative: bool) -> None:
    node = at(builtin_schema(builtin.Deployment), *path)
    assert node.granular is granular
    assert node.associative is associative


def test_quantities_and_int_or_strings_are_marked() -> None:
    assert at(definition("core.v1.ResourceRequirements"), "limits", "cpu").quantity
    assert at(definition("core.v1.ServicePort"), "targetPort").int_or_string
    assert not at(definition("core.v1.ServicePort"), "targetPort").quantity


def test_a_type_that_contains_itself_is_finite() -> None:
    props = definition("apiextensions.v1.JSONSchemaProps")
    assert at(props, "properties", "any").fields is props.fields


def test_the_zero_object_holds_the_structs_that_are_always_written() -> None:
    schema = builtin_schema(builtin.Deployment)
    assert schema is not None
    assert schema.zero == {
        "metadata": {},
        "spec": {"selector": None, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": None}}},
        "status": {},
    }


def test_an_unknown_definition_is_named() -> None:
    with pytest.raises(LookupError, match="no definition of this name"):
        definition("core.v1.Nope")


CRD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string", "default": "main"}}},
                },
                "plain": {"type": "array", "items": {"type": "string"}},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
                "memory": openapi_dict("resource.Quantity"),
                "template": {"type": "object", "x-kubernetes-embedded-resource": True},
            },
        }
    },
}


def test_a_custom_resource_schema() -> None:
    schema = crd_schema(CRD)
    spec = at(schema, "spec")
    assert at(schema, "metadata", "finalizers").list_type is ListType.SET
    assert at(spec, "ports").item_keys[0].default == "main"
    assert not at(spec, "plain").associative
    assert at(spec, "raw").values is DEDUCED
    assert spec.child("unknown") is None
    assert at(spec, "whole").atomic
    assert at(spec, "memory").quantity
    assert at(spec, "template", "metadata", "ownerReferences").keys == ("uid",)


def test_embedded_types_hold_no_reference_and_are_structural() -> None:
    text = json.dumps(openapi_dict("core.v1.PodTemplateSpec"))
    assert "$ref" not in text
    assert "allOf" not in text


def test_embedded_types_read_as_generators_write_them() -> None:
    env = openapi_dict("core.v1.EnvFromSource")["properties"]
    assert env["configMapRef"] == {
        "type": "object",
        "properties": {"name": {"type": "string", "default": ""}, "optional": {"type": "boolean"}},
        "x-kubernetes-map-type": "atomic",
    }
    port = openapi_dict("core.v1.ContainerPort")
    assert port["properties"]["protocol"] == {"type": "string", "default": "TCP"}
    assert port["properties"]["containerPort"] == {"type": "integer", "format": "int32"}
    assert openapi_dict("meta.v1.Time") == {"type": "string", "format": "date-time"}
    assert openapi_dict("core.v1.HTTPGetAction")["properties"]["port"] == {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    }
