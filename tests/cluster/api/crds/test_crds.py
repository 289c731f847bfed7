"""Custom resource definitions: what is accepted, how they come to be served, and how they go."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.errors import ApiError, BadRequest, Invalid, NotFound
from modelyard.kube.kinds import Object
from tests.cluster.api.calls import call, eventually
from tests.cluster.api.definitions import condition, definition, established, install, spec, version
from tests.cluster.conftest import Api

STRING: Object = {"type": "string"}
INTEGER: Object = {"type": "integer"}


async def test_definition_gets_names_conditions_and_stored_versions(api: Api) -> None:
    obj = definition()
    names = obj["spec"]["names"]
    del names["singular"], names["listKind"]
    created = await api.client.create(CustomResourceDefinition, obj)
    assert created["spec"]["names"]["listKind"] == names["kind"] + "List"
    assert created["spec"]["names"]["singular"] == names["kind"].lower()
    assert created["spec"]["conversion"] == {"strategy": "None"}
    assert created["status"]["storedVersions"] == ["v1"]
    live = await established(api, obj["metadata"]["name"])
    assert live["status"]["acceptedNames"] == live["spec"]["names"]
    reasons = {c["type"]: (c["status"], c["reason"], c["message"]) for c in live["status"]["conditions"]}
    assert reasons == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }


async def test_second_definition_cannot_take_a_kind_of_its_group(api: Api) -> None:
    first, second = definition(), definition()
    names = second["spec"]["names"]
    group = second["spec"]["group"] = first["spec"]["group"]
    names["kind"] = first["spec"]["names"]["kind"]
    second["metadata"]["name"] = f"{names['plural']}.{group}"
    await install(api, first)
    await api.client.create(CustomResourceDefinition, second)

    async def refused() -> Object | None:
        live = await api.client.get(CustomResourceDefinition, "", second["metadata"]["name"])
        return live if condition(live, "NamesAccepted") == "False" else None

    live = await eventually(refused)
    assert condition(live, "Established") == "False"
    [names_accepted] = [c for c in live["status"]["conditions"] if c["type"] == "NamesAccepted"]
    assert names_accepted["reason"] == "KindConflict"
    assert names_accepted["message"] == f'"{names["kind"]}" is already in use'
    await api.client.delete(CustomResourceDefinition, "", first["metadata"]["name"])
    await established(api, second["metadata"]["name"])


def wrong_schema(schema: Object) -> Object:
    return definition(version(schema=schema))


def root(**changes: Any) -> Object:
    obj = definition()
    obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"].update(changes)
    return obj


SCHEMA = "spec.validation.openAPIV3Schema"
SPEC = f"{SCHEMA}.properties[spec]"
REFUSED: list[tuple[str, Object, list[str]]] = [
    (
        "no type",
        wrong_schema(spec(a={})),
        [f"{SPEC}.properties[a].type: Required value: must not be empty for specified object fields"],
    ),
    (
        "no items",
        wrong_schema(spec(a={"type": "array"})),
        [f"{SPEC}.properties[a].items: Required value: must be specified"],
    ),
    (
        "unknown type",
        wrong_schema(spec(a={"type": "text"})),
        [
            f'{SPEC}.properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", '
            '"number", "object", "string"'
        ],
    ),
    (
        "bad pattern",
        wrong_schema(spec(a=STRING | {"pattern": "("})),
        [
            f'{SPEC}.properties[a].pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error '
            "parsing regexp: missing closing ): `(`"
        ],
    ),
    (
        "type under anyOf",
        wrong_schema(spec(a=STRING | {"anyOf": [{"type": "string"}]})),
        [f"{SPEC}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    (
        "rule for an undeclared property",
        root(anyOf=[{"properties": {"b": {"minLength": 1}}}]),
        [f"{SCHEMA}.properties[b]: Required value: because it is defined in {SCHEMA}.anyOf[0].properties[b]"],
    ),
    (
        "properties and additionalProperties",
        wrong_schema(spec(a=STRING) | {"additionalProperties": STRING}),
        [f"{SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    (
        "wrong default",
        wrong_schema(spec(a=INTEGER | {"default": "x"})),
        [f'{SPEC}.properties[a].default: Invalid value: "string":  in body must be of type integer: "string"'],
    ),
    (
        "default with unknown fields",
        wrong_schema(spec(a=spec(b=STRING) | {"default": {"c": 1}})),
        [f'{SPEC}.properties[a].default: Invalid value: {{"c":1}}: must not have unknown fields'],
    ),
    (
        "unique items",
        wrong_schema(spec(a={"type": "array", "uniqueItems": True, "items": STRING})),
        [
            f"{SPEC}.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
            "becomes quadratic"
        ],
    ),
    (
        "map list without keys",
        wrong_schema(spec(a={"type": "array", "x-kubernetes-list-type": "map", "items": spec(k=STRING)})),
        [
            f"{SPEC}.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if "
            "x-kubernetes-list-type is map"
        ],
    ),
    (
        "map list with an optional key",
        wrong_schema(
            spec(
                a={
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": spec(k=STRING),
                }
            )
        ),
        [
            f"{SPEC}.properties[a].items.properties[k].default: Required value: this property is in "
            "x-kubernetes-list-map-keys, so it must have a default or be a required property"
        ],
    ),
    (
        "metadata restricted",
        root(properties={"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}),
        [
            f"{SCHEMA}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"
        ],
    ),
    ("nullable root", root(nullable=True), [f"{SCHEMA}.nullable: Forbidden: nullable cannot be true at the root"]),
    (
        "no schema",
        definition({"name": "v1", "served": True, "storage": True}),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"],
    ),
    (
        "wrong scope",
        definition(scope="World"),
        ['spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'],
    ),
    (
        "column without type",
        definition(version(additionalPrinterColumns=[{"name": "A", "jsonPath": ".spec.a"}])),
        ["spec.additionalPrinterColumns[0].type: Required value: must be one of boolean,date,integer,number,string"],
    ),
    (
        "column path",
        definition(version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec.a"}])),
        [
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.a": must be a simple json path starting with .'
        ],
    ),
    (
        "scale path",
        definition(
            version(subresources={"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}})
        ),
        ['spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec'],
    ),
    (
        "webhook without client config",
        definition(conversion={"strategy": "Webhook"}),
        [
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Required value",
        ],
    ),
    (
        "unknown CEL field",
        wrong_schema(spec(a=STRING) | {"x-kubernetes-validations": [{"rule": "self.b == 'x'"}]}),
        [
            f'{SPEC}.x-kubernetes-validations[0].rule: Invalid value: {{"Rule":"self.b == \'x\'","Message":"",'
            '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: '
            "<input>:1:5: undefined field 'b'\n | self.b == 'x'\n | ....^"
        ],
    ),
    (
        "oldSelf in an atomic list",
        wrong_schema(
            spec(
                a={
                    "type": "array",
                    "items": STRING | {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                    "maxItems": 5,
                }
            )
        ),
        [
            f'{SPEC}.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf '
            f"cannot be used on the uncorrelatable portion of the schema within {SPEC}.properties[a]"
        ],
    ),
]


@pytest.mark.parametrize(("obj", "expected"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
async def test_wrong_definition_is_refused(api: Api, obj: Object, expected: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        await api.client.create(CustomResourceDefinition, obj)
    assert [f"{cause['field']}: {cause['message']}" for cause in refused.value.causes] == expected


async def test_name_must_be_plural_and_group(api: Api) -> None:
    obj = definition()
    obj["metadata"]["name"] = "other.example.com"
    with pytest.raises(Invalid) as refused:
        await api.client.create(CustomResourceDefinition, obj)
    assert [c["message"] for c in refused.value.causes] == [
        'Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group'
    ]


@pytest.mark.parametrize("storage", [0, 2])
async def test_exactly_one_version_is_stored(api: Api, storage: int) -> None:
    versions = [version("v1", storage=storage > 0), version("v2", spec(a=STRING), storage=storage > 1)]
    with pytest.raises(Invalid, match="must have exactly one version marked as storage version"):
        await api.client.create(CustomResourceDefinition, definition(*versions))


async def test_field_of_the_wrong_type_is_a_bad_request(api: Api) -> None:
    obj = definition()
    obj["spec"]["scope"] = 5
    with pytest.raises(BadRequest, match="cannot unmarshal number into Go struct field"):
        await api.client.create(CustomResourceDefinition, obj)


async def test_kind_and_scope_are_fixed_once_established(api: Api) -> None:
    custom = await install(api, definition())
    live = await established(api, custom.name)
    live["spec"]["scope"] = "Cluster"
    with pytest.raises(Invalid) as refused:
        await api.client.update(CustomResourceDefinition, live)
    assert [str(c["field"]) for c in refused.value.causes] == ["spec.scope"]
    assert refused.value.causes[0]["message"] == 'Invalid value: "Cluster": field is immutable'


async def test_stored_version_may_not_be_dropped(api: Api) -> None:
    custom = await install(api, definition(version("v1"), version("v2", spec(a=STRING), storage=False)))
    live = await established(api, custom.name)
    old, new = live["spec"]["versions"]
    old["storage"], new["storage"] = False, True
    live = await api.client.update(CustomResourceDefinition, live)
    assert live["status"]["storedVersions"] == ["v1", "v2"]
    live = await established(api, custom.name)
    live["spec"]["versions"] = live["spec"]["versions"][1:]
    with pytest.raises(Invalid, match=r"missing from spec\.versions; v1 was previously a storage version"):
        await api.client.update(CustomResourceDefinition, live)


async def test_deleting_a_definition_deletes_its_objects(api: Api) -> None:
    custom = await install(api, definition())
    await custom.create(name="a")
    held = await custom.create(name="b")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.client.update(custom.kind, held)
    await api.client.delete(CustomResourceDefinition, "", custom.name)

    async def one_left() -> list[Object] | None:
        items = (await api.client.list(custom.kind, custom.namespace)).items
        return items if len(items) == 1 else None

    [left] = await eventually(one_left)
    assert "deletionTimestamp" in left["metadata"]
    live = await api.client.get(CustomResourceDefinition, "", custom.name)
    assert live["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert condition(live, "Terminating") == "True"
    patch = {"metadata": {"finalizers": None}}
    await api.client.patch(custom.kind, custom.namespace, "b", patch)

    async def gone() -> bool:
        return await api.client.find(CustomResourceDefinition, "", custom.name) is None

    await eventually(gone)
    with pytest.raises(NotFound):
        await api.client.list(custom.kind, custom.namespace)


async def test_unserved_version_is_not_found(api: Api) -> None:
    custom = await install(api, definition(version("v1"), version("v2", spec(a=STRING), storage=False, served=False)))
    with pytest.raises(NotFound):
        await api.client.list(custom.at("v2"), custom.namespace)


async def test_changed_schema_takes_effect(api: Api) -> None:
    custom = await install(api, definition(version(schema=spec(a=STRING))))
    await custom.create({"a": "x"}, name="old")
    live = await established(api, custom.name)
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec(
        a=STRING, b=STRING | {"default": "new"}
    )
    await api.client.update(CustomResourceDefinition, live)

    async def defaulted() -> bool:
        return bool((await custom.get("old"))["spec"] == {"a": "x", "b": "new"})

    await eventually(defaulted)


async def test_unknown_format_is_warned_of(api: Api) -> None:
    obj = definition(version(schema=spec(a=STRING | {"format": "colour"})))
    answer = await call(api, "POST", CustomResourceDefinition.path(), obj)
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "unrecognized format \\"colour\\""'


async def test_refusal_is_an_api_error_with_status(api: Api) -> None:
    with pytest.raises(ApiError) as refused:
        await api.client.create(CustomResourceDefinition, definition(scope="World"))
    assert refused.value.status["details"]["kind"] == "CustomResourceDefinition"
    assert refused.value.status["details"]["group"] == "apiextensions.k8s.io"
