"""Scenarios 1 to 22: objects, names, custom properties, PATCH."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.unit.programs.registry.conftest import Api

MODELS = "/registered_models"


def text(value: str) -> dict[str, Any]:
    return {"metadataType": "MetadataStringValue", "string_value": value}


def integer(value: str) -> dict[str, Any]:
    return {"metadataType": "MetadataIntValue", "int_value": value}


async def test_01_a_created_model_has_exactly_these_fields_in_both_versions(api: Api) -> None:
    made = await api.post(MODELS, {"name": "m"})
    assert made.status == 201
    body = made.body
    assert set(body) == {"id", "name", "state", "customProperties", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch"}
    assert (body["name"], body["state"], body["customProperties"]) == ("m", "LIVE", {})
    assert body["createTimeSinceEpoch"] == body["lastUpdateTimeSinceEpoch"]
    assert (await api.v1.get(f"{MODELS}/{made.id}")).body == body


async def test_02_the_same_name_again_is_a_conflict(api: Api) -> None:
    await api.made(MODELS, name="m")
    again = await api.post(MODELS, {"name": "m"})
    assert (again.status, again.body["code"]) == (409, "Conflict")
    assert "m" in again.message
    assert "already exists" in again.message


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": None}])
async def test_03_a_missing_name_is_422_with_the_code_of_400(api: Api, body: dict[str, Any]) -> None:
    answer = await api.post(MODELS, body)
    assert answer.status == 422
    assert answer.body == {"code": "Bad Request", "message": "required field 'name' is zero value."}


async def test_04_an_unknown_field_is_refused_and_nothing_stored(api: Api) -> None:
    answer = await api.post(MODELS, {"name": "m2", "ext_id": 1})
    assert (answer.status, answer.message) == (400, 'json: unknown field "ext_id"')
    assert (await api.get(MODELS)).names == []


@pytest.mark.parametrize(
    "raw",
    [b"{bad", b"", b"[]", b'{"name": 123}', b'{"name": "a", "name": "b"}', b'{"name": "m"} x', b'{"name": "\\ud800"}'],
)
async def test_05_what_is_not_a_body_is_400_and_the_server_goes_on(api: Api, raw: bytes) -> None:
    answer = await api.post(MODELS, raw=raw)
    assert (answer.status, answer.body["code"]) == (400, "Bad Request")
    assert answer.message
    assert (await api.get(MODELS)).status == 200


async def test_06_a_word_outside_the_enum_is_named(api: Api) -> None:
    answer = await api.post(MODELS, {"name": "m3", "state": "NOPE"})
    assert answer.status == 400
    assert "NOPE is not a valid RegisteredModelState" in answer.message


@pytest.mark.parametrize("raw", [b'{"name": "a\\u0000b"}', b'{"name": "a\x00b"}'])
async def test_07_null_bytes_are_refused(api: Api, raw: bytes) -> None:
    answer = await api.post(MODELS, raw=raw)
    assert (answer.status, answer.message) == (400, "Request body contains null bytes which are not allowed")


async def test_08_scalar_custom_properties_keep_their_types(api: Api) -> None:
    properties = {
        "s": text(""),
        "i": integer("-42"),
        "d": {"metadataType": "MetadataDoubleValue", "double_value": 1.5},
        "b": {"metadataType": "MetadataBoolValue", "bool_value": False},
        "owner": text("custom, not the field"),
        "": text("an empty name"),
    }
    made = await api.made(MODELS, name="m", owner="ann", customProperties=properties)
    found = (await api.get(f"{MODELS}/{made['id']}")).body
    assert found["customProperties"] == properties
    assert found["owner"] == "ann"
    assert found["customProperties"]["b"]["bool_value"] is False


@pytest.mark.parametrize(
    ("value", "status"), [("999999999", 201), ("1700000000", 400), ("abc", 400), (42, 400), ("01", 400), ("-0", 400)]
)
async def test_09_an_integer_is_a_string_that_every_client_can_read(api: Api, value: object, status: int) -> None:
    body = {"name": "m", "customProperties": {"n": {"metadataType": "MetadataIntValue", "int_value": value}}}
    answer = await api.post(MODELS, body)
    assert answer.status == (201 if value == "-0" else status)


async def test_10_a_structure_reads_back_as_it_was_and_survives_a_patch(api: Api) -> None:
    value = {"metadataType": "MetadataStructValue", "struct_value": base64.b64encode(b'{"a":1}').decode()}
    made = await api.made(MODELS, name="m", customProperties={"s": value})
    assert made["customProperties"] == {"s": value}
    patched = await api.patch(f"{MODELS}/{made['id']}", {"description": "x"})
    assert (patched.status, patched.body["customProperties"]) == (200, {"s": value})


@pytest.mark.parametrize(
    "value",
    [
        {"string_value": "x"},
        {"metadataType": "Nope", "string_value": "x"},
        None,
        {"metadataType": "MetadataStringValue"},
        {"metadataType": "MetadataDoubleValue", "double_value": "1"},
        {"metadataType": "MetadataBoolValue", "bool_value": "true"},
        {"metadataType": "MetadataStructValue", "struct_value": "not base64!"},
        {"metadataType": "MetadataStructValue", "struct_value": base64.b64encode(b"[1]").decode()},
    ],
)
async def test_11_a_bad_custom_property_names_its_key(api: Api, value: object) -> None:
    answer = await api.post(MODELS, {"name": "m", "customProperties": {"the key": value}})
    assert answer.status == 400
    assert "the key" in answer.message


async def test_12_names_have_a_longest_length(api: Api) -> None:
    assert (await api.post(MODELS, {"name": "ä" * 255})).status == 201
    assert (await api.post(MODELS, {"name": "x" * 256})).status == 400
    model = await api.made(MODELS, name="m")
    body = {"registeredModelId": model["id"]}
    assert (await api.post("/model_versions", {**body, "name": "ä" * 250})).status == 201
    assert (await api.post("/model_versions", {**body, "name": "x" * 255})).status == 400
    assert (await api.post(MODELS, {"name": "e", "externalId": "x" * 256})).status == 400
    assert (await api.post(MODELS, {"name": "k", "customProperties": {"x" * 256: text("")}})).status == 400


async def test_13_what_does_not_exist_says_so_in_json(api: Api) -> None:
    missing = await api.get(f"{MODELS}/999999")
    assert (missing.status, missing.body["code"]) == (404, "Not Found")
    assert missing.message == "no registered model found for id 999999: not found"
    assert (await api.get(f"{MODELS}/2000000000")).status == 404
    for odd in ("abc", "0", "-1", "01", "2147483648", "1.0"):
        assert (await api.get(f"{MODELS}/{odd}")).body["code"] == "Bad Request"
    assert (await api.get("/")).status == 404
    assert (await api.get(f"{MODELS}/")).status == 404
    for method in ("DELETE", "PUT", "OPTIONS"):
        refused = await api.send(method, MODELS)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, POST")
    assert (await api.send("GET", f"{MODELS}?name=%zz")).status == 400


async def test_14_find_by_name(api: Api) -> None:
    made = await api.made(MODELS, name="m", externalId="e")
    assert (await api.get("/registered_model", name="m")).body == made
    assert (await api.get("/registered_model", externalId="e")).body == made
    assert (await api.get("/registered_model", name="m", externalId="other")).status == 404
    assert (await api.get("/registered_model", name="nope")).body["code"] == "Not Found"
    for parameters in ({}, {"name": ""}):
        assert (await api.get("/registered_model", **parameters)).status == 400


async def test_15_find_by_name_knows_no_wild_cards(api: Api) -> None:
    for name in ("a_b", "axb"):
        await api.made(MODELS, name=name)
    assert (await api.get("/registered_model", name="a_b")).body["name"] == "a_b"
    assert (await api.get("/registered_model", name="a%")).status == 404
    await api.made(MODELS, name="a%")
    assert (await api.get("/registered_model", name="a%")).body["name"] == "a%"


async def test_16_names_are_compared_by_their_bytes(api: Api) -> None:
    for name in ("Case", "case", "case ", "cäse", "case\N{COMBINING ACUTE ACCENT}"):
        await api.made(MODELS, name=name)
    assert (await api.get("/registered_model", name="CASE")).status == 404
    assert (await api.get("/registered_model", name="case ")).body["name"] == "case "


async def test_17_an_external_id_is_unique_in_its_family(api: Api) -> None:
    model = await api.made(MODELS, name="m", externalId="e")
    version = {"name": "v", "registeredModelId": model["id"], "externalId": "e"}
    for path, body in (
        (MODELS, {"name": "n", "externalId": "e"}),
        ("/model_versions", version),
        ("/serving_environments", {"name": "s", "externalId": "e"}),
    ):
        answer = await api.post(path, body)
        assert (answer.status, "externalId e" in answer.message) == (409, True)
    assert (await api.post("/model_artifacts", {"externalId": "e"})).status == 201
    assert (await api.post("/model_artifacts", {"externalId": "e"})).status == 409
    for name in ("empty", "also empty"):
        assert "externalId" not in await api.made(MODELS, name=name, externalId="")


async def test_18_a_patch_keeps_the_state_and_moves_one_time(api: Api) -> None:
    made = await api.made(MODELS, name="m", state="ARCHIVED")
    patched = (await api.patch(f"{MODELS}/{made['id']}", {"description": "x"})).body
    assert (patched["state"], patched["description"]) == ("ARCHIVED", "x")
    assert patched["createTimeSinceEpoch"] == made["createTimeSinceEpoch"]
    assert int(patched["lastUpdateTimeSinceEpoch"]) > int(made["lastUpdateTimeSinceEpoch"])


async def test_19_absent_and_null_mean_unchanged_and_empty_means_empty(api: Api) -> None:
    made = await api.made(MODELS, name="m", description="d", language=["en"])
    path = f"{MODELS}/{made['id']}"
    for body, description, language in (
        ({}, "d", ["en"]),
        ({"description": None}, "d", ["en"]),
        ({"description": ""}, "", ["en"]),
        ({"language": []}, "", []),
    ):
        patched = await api.patch(path, body)
        assert (patched.status, patched.body["description"], patched.body["language"]) == (200, description, language)


async def test_20_given_custom_properties_replace_the_whole_map(api: Api) -> None:
    made = await api.made(MODELS, name="m", customProperties={"a": text("1"), "b": text("2")})
    path = f"{MODELS}/{made['id']}"
    replaced = (await api.patch(path, {"customProperties": {"n": text("3")}})).body
    assert replaced["customProperties"] == {"n": text("3")}
    assert await api.filtered(MODELS, "a = '1'") == []
    assert await api.filtered(MODELS, "n = '3'") == ["m"]
    assert (await api.patch(path, {"owner": "ann"})).body["customProperties"] == {"n": text("3")}
    assert (await api.patch(path, {"customProperties": {}})).body["customProperties"] == {}


async def test_21_names_and_ids_cannot_be_patched(api: Api) -> None:
    made = await api.made(MODELS, name="m")
    for field in ("name", "id", "createTimeSinceEpoch"):
        answer = await api.patch(f"{MODELS}/{made['id']}", {field: "7"})
        assert (answer.status, answer.message) == (400, f'json: unknown field "{field}"')
    assert (await api.patch(f"{MODELS}/999999", {})).status == 404


async def test_22_a_patch_to_a_taken_external_id_changes_nothing(api: Api) -> None:
    await api.made(MODELS, name="a", externalId="taken")
    made = await api.made(MODELS, name="b", customProperties={"k": text("v")})
    path = f"{MODELS}/{made['id']}"
    answer = await api.patch(path, {"externalId": "taken", "description": "x", "customProperties": {}})
    assert answer.status == 409
    assert (await api.get(path)).body == made
    assert await api.filtered(MODELS, "k = 'v'") == ["b"]
