"""Unknown and duplicate fields in bodies."""

from typing import Any

import pytest

from modelyard.kube.builtin import ConfigMap, CustomResourceDefinition, Deployment
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.crds import CustomStrategy
from modelyard.local.apiserver.requests.field_validation import FieldChecks
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import PlainStrategy, ServedResource

CHECKS = FieldChecks()
THING = Kind("example.com", "v1", "Thing", "things")


def builtin(kind: Kind) -> ServedResource:
    return ServedResource(kind, PlainStrategy())


def deployment() -> Object:
    container = {"name": "c", "image": "i", "odd": 1, "resources": {"limits": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"any": "thing"}}, "spec": {"containers": [container], "strange": 2}}
    return {"metadata": {"name": "d", "foo": 1}, "spec": {"template": template, "selector": {}}}


def test_unknown_fields_of_a_built_in_are_dropped_and_named_in_their_order() -> None:
    obj = deployment()
    assert CHECKS.check(builtin(Deployment), obj, [], "Warn") == [
        'unknown field "metadata.foo"',
        'unknown field "spec.template.spec.containers[0].odd"',
        'unknown field "spec.template.spec.strange"',
    ]
    assert obj["metadata"] == {"name": "d"}
    assert obj["spec"]["template"]["spec"]["containers"][0] == {
        "name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}},
    }  # fmt: skip


def test_strict_refuses_with_all_of_them() -> None:
    with pytest.raises(Problem) as refused:
        CHECKS.check(builtin(Deployment), deployment(), ["spec.template.spec.containers[0].image"], "Strict")
    assert refused.value.code == 400
    assert refused.value.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "metadata.foo", '
        'duplicate field "spec.template.spec.containers[0].image", unknown field "spec.template.spec.containers[0].odd", '
        'unknown field "spec.template.spec.strange"'
    )


def test_ignore_drops_in_silence() -> None:
    obj = deployment()
    assert CHECKS.check(builtin(Deployment), obj, ["spec.x"], "Ignore") == []
    assert "foo" not in obj["metadata"]


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        (ConfigMap, {"data": {"any": "key"}, "binaryData": {"k": ""}, "immutable": True}),
        (
            CustomResourceDefinition,
            {
                "spec": {
                    "versions": [
                        {
                            "name": "v1",
                            "schema": {
                                "openAPIV3Schema": {
                                    "type": "object",
                                    "properties": {
                                        "spec": {"type": "array", "items": {"type": "string"}, "default": {"x": 1}}
                                    },
                                    "x-kubernetes-validations": [{"rule": "true"}],
                                }
                            },
                        }
                    ]
                }
            },
        ),
    ],
)
def test_known_fields_are_left_alone(kind: Kind, obj: Any) -> None:
    assert CHECKS.check(builtin(kind), obj, [], "Strict") == []


def test_custom_resource() -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}},
    }
    resource = ServedResource(THING, CustomStrategy(THING, schema, has_status=False), custom=True)
    obj: Object = {"metadata": {"name": "x", "odd": 1}, "spec": {"b": 1}, "extra": {}}
    assert CHECKS.check(resource, obj, ["spec.b"], "Warn") == [
        'duplicate field "spec.b"',
        'unknown field "metadata.odd"',
        'unknown field "extra"',
        'unknown field "spec.b"',
    ]
    assert obj == {"metadata": {"name": "x"}, "spec": {"a": "x"}}
    with pytest.raises(
        Problem, match=r"json: cannot unmarshal number into Go struct field ObjectMeta\.labels of type string"
    ):
        CHECKS.check(resource, {"metadata": {"labels": {"a": 1}}}, [], "Ignore")
