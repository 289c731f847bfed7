"""Custom resources: pruning, defaulting, validation, CEL, subresources and versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.errors import Invalid, NotFound
from modelyard.kube.kinds import Object
from tests.cluster.api.calls import APPLY, JSON_PATCH, MERGE, call, eventually
from tests.cluster.api.definitions import Custom, definition, established, install, spec, version
from tests.cluster.conftest import Api

STRING: Object = {"type": "string"}
INTEGER: Object = {"type": "integer"}
NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)

SCHEMA = spec(
    text=STRING | {"maxLength": 3, "pattern": "^[a-z]*$"},
    size=INTEGER | {"minimum": 1, "maximum": 5},
    ratio={"type": "number", "exclusiveMaximum": True, "maximum": 1},
    small=INTEGER | {"format": "int32"},
    color=STRING | {"enum": ["red", "green"]},
    port={"x-kubernetes-int-or-string": True},
    maybe=STRING | {"nullable": True},
    when=STRING | {"format": "date-time"},
    tags={"type": "array", "x-kubernetes-list-type": "set", "items": STRING, "maxItems": 3},
    ports={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "protocol"],
        "items": spec(name=STRING, protocol=STRING | {"default": "TCP"}, number=INTEGER) | {"required": ["name"]},
    },
    labels={"type": "object", "additionalProperties": STRING, "maxProperties": 2},
    inner=spec(a=STRING, b=STRING | {"default": "bee"}) | {"required": ["a"]},
    filled=spec(c=INTEGER | {"default": 7}) | {"default": {}},
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    pod={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    one=spec(x=STRING, y=STRING) | {"oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
    multiple=INTEGER | {"multipleOf": 5},
)


@pytest.fixture
async def things(api: Api) -> Custom:
    return await install(api, definition(version(schema=SCHEMA)))


REFUSED: list[tuple[str, Object, list[str]]] = [
    (
        "type",
        {"size": "x"},
        ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'],
    ),
    (
        "fraction",
        {"size": 1.5},
        [
            'spec.size: Invalid value: "number": spec.size in body must be of type integer: "number"',
            '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.size',
        ],
    ),
    (
        "boolean",
        {"text": True},
        ['spec.text: Invalid value: "boolean": spec.text in body must be of type string: "boolean"'],
    ),
    ("list", {"text": []}, ['spec.text: Invalid value: "array": spec.text in body must be of type string: "array"']),
    ("too long", {"text": "abcd"}, ["spec.text: Too long: may not be more than 3 bytes"]),
    ("pattern", {"text": "A"}, ["spec.text: Invalid value: \"A\": spec.text in body should match '^[a-z]*$'"]),
    ("minimum", {"size": 0}, ["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"]),
    ("maximum", {"size": 6}, ["spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5"]),
    ("exclusive", {"ratio": 1.0}, ["spec.ratio: Invalid value: 1: spec.ratio in body should be less than 1"]),
    (
        "int32",
        {"small": 2**31},
        ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.small'],
    ),
    ("enum", {"color": "blue"}, ['spec.color: Unsupported value: "blue": supported values: "red", "green"']),
    (
        "int or string",
        {"port": True},
        ['spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"'],
    ),
    (
        "date",
        {"when": "now"},
        ['spec.when: Invalid value: "now": spec.when in body must be of type date-time: "now"'],
    ),
    ("set", {"tags": ["a", "b", "a"]}, ['spec.tags[2]: Duplicate value: "a"']),
    ("items", {"tags": ["a", "b", "c", "d"]}, ["spec.tags: Too many: 4: must have at most 3 items"]),
    (
        "map list",
        {"ports": [{"name": "a"}, {"name": "a", "protocol": "TCP", "number": 1}]},
        ['spec.ports[1]: Duplicate value: {"name":"a","protocol":"TCP"}'],
    ),
    (
        "additional",
        {"labels": {"a": 1}},
        ['spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer"'],
    ),
    ("properties", {"labels": {"a": "", "b": "", "c": ""}}, ["spec.labels: Too many: 3: must have at most 2 items"]),
    ("required", {"inner": {}}, ["spec.inner.a: Required value"]),
    ("embedded", {"pod": {"kind": "Pod"}}, ["spec.pod.apiVersion: Required value"]),
    (
        "one of",
        {"one": {"x": "", "y": ""}},
        [
            '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives'
        ],
    ),
    (
        "none of",
        {"one": {}},
        [
            '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid',
            "spec.one.x: Required value",
        ],
    ),
    ("multiple", {"multiple": 7}, ["spec.multiple: Invalid value: 7: spec.multiple in body should be a multiple of 5"]),
]


@pytest.mark.parametrize(("value", "expected"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
async def test_wrong_object_is_refused(things: Custom, value: Object, expected: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        await things.create(value)
    assert [f"{cause['field']}: {cause['message']}" for cause in refused.value.causes] == expected


async def test_unknown_fields_are_pruned_and_defaults_filled_in(things: Custom) -> None:
    made = await things.create(
        {
            "text": "a",
            "odd": 1,
            "inner": {"a": "x", "odd": 1},
            "free": {"any": {"thing": [1]}},
            "maybe": None,
            "size": None,
        }
    )
    assert made["spec"] == {
        "text": "a",
        "inner": {"a": "x", "b": "bee"},
        "filled": {"c": 7},
        "free": {"any": {"thing": [1]}},
        "maybe": None,
    }
    assert (await things.get())["spec"] == made["spec"]


async def test_embedded_resource_is_kept_whole(things: Custom) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    assert (await things.create({"pod": pod}))["spec"]["pod"] == pod


def body(things: Custom, value: Any, **more: Any) -> Object:
    metadata = {"name": "x", "namespace": things.namespace}
    return {"apiVersion": things.kind.api_version, "kind": things.kind.kind, "metadata": metadata, "spec": value} | more


async def test_strict_validation_refuses_unknown_and_duplicate_fields(things: Custom) -> None:
    path = things.kind.path(things.namespace)
    obj = body(things, {"odd": 1, "inner": {"a": "x", "c": 1}}, extra=1)
    obj["metadata"]["strange"] = 1
    answer = await call(things.api, "POST", path, obj, fieldValidation="Strict")
    kind = things.kind.kind
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == (
        f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: unknown field "metadata.strange", '
        'unknown field "extra", unknown field "spec.inner.c", unknown field "spec.odd"'
    )
    text = (
        f'{{"apiVersion":"{things.kind.api_version}","kind":"{kind}","metadata":{{"name":"x"}},'
        '"spec":{"text":"a","text":"b"}}'
    )
    answer = await call(things.api, "POST", path, text.encode(), fieldValidation="Strict")
    assert answer.message.endswith('strict decoding error: duplicate field "spec.text"')


async def test_unknown_fields_are_warned_of_by_default(things: Custom) -> None:
    answer = await call(things.api, "POST", things.kind.path(things.namespace), body(things, {"odd": 1}))
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.odd\\""'
    ignored = body(things, {"odd": 1})
    ignored["metadata"]["name"] = "y"
    answer = await call(things.api, "POST", things.kind.path(things.namespace), ignored, fieldValidation="Ignore")
    assert "Warning" not in answer.headers


async def test_patch_with_an_unknown_field_follows_field_validation(things: Custom) -> None:
    await things.create({"text": "a"})
    path = things.kind.path(things.namespace, "x")
    answer = await call(things.api, "PATCH", path, {"spec": {"odd": 1}}, type=MERGE, fieldValidation="Strict")
    assert answer.status == 422
    assert answer.message.endswith('strict decoding error: unknown field "spec.odd"')
    answer = await call(things.api, "PATCH", path, {"spec": {"odd": 1}}, type=MERGE)
    assert (answer.status, answer.headers["Warning"]) == (200, '299 - "unknown field \\"spec.odd\\""')
    patch = [{"op": "add", "path": "/spec/odd", "value": 1}]
    answer = await call(things.api, "PATCH", path, patch, type=JSON_PATCH)
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.odd\\""'


async def test_apply_of_an_unknown_field_fails(things: Custom) -> None:
    path = things.kind.path(things.namespace, "x")
    answer = await call(things.api, "PATCH", path, body(things, {"odd": 1}), type=APPLY, fieldManager="m")
    assert answer.status == 500
    assert answer.message.endswith(".spec.odd: field not declared in schema")


async def test_strategic_merge_patch_is_not_accepted(things: Custom) -> None:
    await things.create({"text": "a"})
    path = things.kind.path(things.namespace, "x")
    answer = await call(things.api, "PATCH", path, {}, type="application/strategic-merge-patch+json")
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


async def test_generation_counts_changes_beside_metadata(things: Custom) -> None:
    obj = await things.create({"text": "a"})
    assert obj["metadata"]["generation"] == 1
    obj["metadata"]["labels"] = {"a": "b"}
    obj = await things.api.client.update(things.kind, obj)
    assert obj["metadata"]["generation"] == 1
    obj["spec"]["text"] = "b"
    obj = await things.api.client.update(things.kind, obj)
    assert obj["metadata"]["generation"] == 2
    # Without a status subresource the status is content like any other.
    obj["status"] = {"a": 1}
    obj = await things.api.client.update(things.kind, obj)
    assert (obj["metadata"]["generation"], obj["status"]) == (3, {"a": 1})


async def test_update_needs_a_resource_version(things: Custom) -> None:
    obj = await things.create({"text": "a"})
    del obj["metadata"]["resourceVersion"]
    with pytest.raises(Invalid) as refused:
        await things.api.client.update(things.kind, obj)
    assert refused.value.causes[0]["field"] == "metadata.resourceVersion"


async def test_value_that_was_wrong_before_may_stay(api: Api) -> None:
    custom = await install(api, definition(version(schema=spec(a=STRING, b=STRING))))
    await custom.create({"a": "long text", "b": "x"})
    live = await established(api, custom.name)
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec(
        a=STRING | {"maxLength": 3}, b=STRING | {"maxLength": 3}
    )
    await api.client.update(CustomResourceDefinition, live)

    async def enforced() -> bool:
        try:
            await custom.create({"a": "long text"}, name="probe")
        except Invalid:
            return True
        await api.client.delete(custom.kind, custom.namespace, "probe")
        return False

    await eventually(enforced)
    obj = await custom.get()
    obj["spec"]["b"] = "y"
    assert (await api.client.update(custom.kind, obj))["spec"] == {"a": "long text", "b": "y"}
    obj = await custom.get()
    obj["spec"]["a"] = "other text"
    with pytest.raises(Invalid):
        await api.client.update(custom.kind, obj)


def ruled(schema: Object, *rules: Object) -> Object:
    return schema | {"x-kubernetes-validations": list(rules)}


async def test_cel_rules(api: Api) -> None:
    schema = ruled(
        spec(
            low=INTEGER,
            high=INTEGER,
            name=ruled(STRING, {"rule": "self == oldSelf", "message": "name is immutable"}),
            namespace=STRING,
            tags={"type": "array", "maxItems": 5, "items": STRING | {"maxLength": 10}},
        ),
        {"rule": "self.low <= self.high", "messageExpression": "self.low > 2 ? 'low is far above high' : 'low is above high'"},
        {"rule": "!has(self.__namespace__) || self.__namespace__ != 'x'", "fieldPath": ".namespace", "reason": "FieldValueForbidden", "message": "not x"},
        {"rule": "!has(self.tags) || self.tags.all(t, t.startsWith('a'))"},
    )  # fmt: skip
    custom = await install(api, definition(version(schema=schema)))
    with pytest.raises(Invalid) as refused:
        await custom.create({"low": 3, "high": 2, "namespace": "x", "tags": ["b"]})
    assert [(c["field"], c["reason"], c["message"]) for c in refused.value.causes] == [
        ("spec", "FieldValueInvalid", "Invalid value: low is far above high"),
        ("spec.namespace", "FieldValueForbidden", "Forbidden: not x"),
        (
            "spec",
            "FieldValueInvalid",
            "Invalid value: failed rule: !has(self.tags) || self.tags.all(t, t.startsWith('a'))",
        ),
    ]
    with pytest.raises(Invalid) as refused:
        await custom.create({"low": 3})
    assert refused.value.causes[0]["message"] == (
        'Invalid value: "object": no such key: high evaluating rule: self.low <= self.high'
    )
    obj = await custom.create({"low": 1, "high": 2, "name": "a"})
    obj["spec"]["name"] = "b"
    with pytest.raises(Invalid) as refused:
        await api.client.update(custom.kind, obj)
    assert [str(c["field"]) + ": " + c["message"] for c in refused.value.causes] == [
        'spec.name: Invalid value: "b": name is immutable'
    ]


async def test_cel_rules_wait_for_a_valid_object(api: Api) -> None:
    schema = ruled(spec(a=INTEGER), {"rule": "self.a > 0"})
    custom = await install(api, definition(version(schema=schema)))
    with pytest.raises(Invalid) as refused:
        await custom.create({"a": "x"})
    assert f"{refused.value.causes[-1]['field']}: {refused.value.causes[-1]['message']}" == NOT_CHECKED


async def test_rule_at_the_root_sees_the_name(api: Api) -> None:
    obj = definition()
    root = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["x-kubernetes-validations"] = [{"rule": "self.metadata.name == 'only'", "message": "must be only"}]
    custom = await install(api, obj)
    with pytest.raises(Invalid) as refused:
        await custom.create(name="other")
    assert [(c["field"], c["message"]) for c in refused.value.causes] == [("<nil>", "Invalid value: must be only")]
    await custom.create(name="only")


SCALE = {
    "specReplicasPath": ".spec.count",
    "statusReplicasPath": ".status.count",
    "labelSelectorPath": ".status.selector",
}


async def test_status_subresource_splits_the_object(api: Api) -> None:
    custom = await install(api, definition(version(schema=spec(a=STRING), subresources={"status": {}})))
    obj = await custom.create({"a": "x"}, status={"b": 1})
    assert "status" not in obj
    obj["status"], obj["spec"]["a"] = {"b": 2}, "ignored"
    obj = await api.client.update(custom.kind, obj, subresource="status")
    assert (obj["spec"], obj["status"], obj["metadata"]["generation"]) == ({"a": "x"}, {"b": 2}, 1)
    obj["status"], obj["spec"]["a"] = {"b": 3}, "y"
    obj = await api.client.update(custom.kind, obj)
    assert (obj["spec"], obj["status"], obj["metadata"]["generation"]) == ({"a": "y"}, {"b": 2}, 2)


async def test_status_is_not_found_without_its_subresource(things: Custom) -> None:
    obj = await things.create({"text": "a"})
    with pytest.raises(NotFound):
        await things.api.client.update(things.kind, obj, subresource="status")


async def test_scale_subresource(api: Api) -> None:
    custom = await install(
        api, definition(version(schema=spec(count=INTEGER), subresources={"status": {}, "scale": SCALE}))
    )
    obj = await custom.create({"count": 2})
    obj["status"] = {"count": 1, "selector": "a=b"}
    await api.client.update(custom.kind, obj, subresource="status")
    path = custom.kind.path(custom.namespace, "x", "scale")
    scale = (await call(api, "GET", path)).body
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    answer = await call(api, "PATCH", path, {"spec": {"replicas": 5}}, type=MERGE)
    assert answer.body["spec"] == {"replicas": 5}
    live = await custom.get()
    assert (live["spec"]["count"], live["metadata"]["generation"]) == (5, 2)
    with pytest.raises(Invalid) as refused:
        await custom.create({"count": -1}, name="negative")
    assert [(c["field"], c["message"]) for c in refused.value.causes] == [
        (".spec.count", "Invalid value: -1: should be a non-negative integer")
    ]


async def test_versions_share_objects(api: Api) -> None:
    custom = await install(
        api,
        definition(
            version("v1", spec(a=STRING)),
            version("v2", spec(a=STRING, b=STRING | {"default": "bee"}), storage=False),
        ),
    )
    await custom.create({"a": "x"})
    newer = custom.at("v2")
    obj = await api.client.get(newer, custom.namespace, "x")
    assert (obj["apiVersion"], obj["spec"]) == (newer.api_version, {"a": "x"})
    obj["spec"] = {"a": "y", "b": "c"}
    updated = await api.client.update(newer, obj)
    # The stored version has no b, and only its defaults are filled in on read.
    assert updated["spec"] == {"a": "y"}
    listed = (await api.client.list(newer, custom.namespace)).items
    assert [o["spec"]["a"] for o in listed] == ["y"]
    assert (await custom.get())["spec"] == {"a": "y"}


async def test_deprecated_version_warns(api: Api) -> None:
    custom = await install(
        api,
        definition(version("v1beta1", deprecated=True, storage=False), version("v1", spec(a=STRING))),
    )
    answer = await call(api, "GET", custom.at("v1beta1").path(custom.namespace))
    group, kind = custom.kind.group, custom.kind.kind
    assert answer.headers["Warning"] == f'299 - "{group}/v1beta1 {kind} is deprecated; use {group}/v1 {kind}"'


async def test_cluster_scoped_resource(api: Api) -> None:
    custom = await install(api, definition(scope="Cluster"))
    made = await api.client.create(
        custom.kind, {"apiVersion": custom.kind.api_version, "kind": custom.kind.kind, "metadata": {"name": "x"}}
    )
    assert "namespace" not in made["metadata"]
    assert [o["metadata"]["name"] for o in (await api.client.list(custom.kind)).items] == ["x"]


async def test_kind_and_version_must_be_given(things: Custom) -> None:
    path, kind = things.kind.path(things.namespace), things.kind
    metadata = {"name": "x"}
    answer = await call(things.api, "POST", path, {"apiVersion": kind.api_version, "metadata": metadata})
    assert answer.status == 400
    assert answer.message.startswith(
        f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing in '{{"
    )
    answer = await call(things.api, "POST", path, {"kind": kind.kind, "metadata": metadata})
    assert answer.message == (
        f"the API version in the data () does not match the expected API version ({kind.api_version})"
    )
    other = {"apiVersion": kind.api_version, "kind": "Other", "metadata": metadata}
    answer = await call(things.api, "POST", path, other)
    assert (answer.status, answer.causes) == (422, [("kind", f'Invalid value: "Other": must be {kind.kind}')])


async def test_watch_as_table(things: Custom) -> None:
    await things.create({"text": "a"})
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    query = {"watch": "true", "timeoutSeconds": "5"}
    response = await things.api.client.transport.send(
        "GET", things.kind.path(things.namespace), query=query, headers={"Accept": accept}
    )
    first = b""
    async for chunk in response.chunks():
        first += chunk
        if b"\n" in first:
            break
    await response.close()
    event = json.loads(first.split(b"\n")[0])
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert [column["name"] for column in event["object"]["columnDefinitions"]] == ["Name", "Age"]
    assert event["object"]["rows"][0]["cells"][0] == "x"
    assert event["object"]["rows"][0]["object"]["metadata"]["name"] == "x"
