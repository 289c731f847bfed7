"""Scenarios 37 to 52: pages, order and filters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from modelyard.programs.database import Session
from modelyard.programs.registry.kinds import CONTEXTS
from modelyard.programs.registry.process import Server
from tests.unit.programs.registry.conftest import Api

MODELS = "/registered_models"


def text(value: str) -> dict[str, Any]:
    return {"metadataType": "MetadataStringValue", "string_value": value}


def integer(value: int) -> dict[str, Any]:
    return {"metadataType": "MetadataIntValue", "int_value": str(value)}


def double(value: float) -> dict[str, Any]:
    return {"metadataType": "MetadataDoubleValue", "double_value": value}


def boolean(value: bool) -> dict[str, Any]:
    return {"metadataType": "MetadataBoolValue", "bool_value": value}


async def models(api: Api, **properties: dict[str, Any]) -> None:
    """A model for each name, with that custom property map."""
    for name, custom in properties.items():
        await api.made(MODELS, name=name, customProperties=custom)


async def test_37_pages_end_with_an_empty_token(api: Api) -> None:
    model = (await api.made(MODELS, name="m"))["id"]
    for number in range(5):
        await api.made("/model_versions", name=f"v{number}", registeredModelId=model)
    path = f"{MODELS}/{model}/versions"
    token, pages = "", []
    while True:
        page = (await api.get(path, pageSize=2, nextPageToken=token)).body
        assert (page["pageSize"], page["size"]) == (2, len(page["items"]))
        pages.append([item["name"] for item in page["items"]])
        token = page["nextPageToken"]
        if not token:
            break
    assert pages == [["v0", "v1"], ["v2", "v3"], ["v4"]]


@pytest.mark.parametrize("direction", ["ASC", "desc"])
async def test_38_rows_of_one_moment_appear_once_each(api: Api, server: Server, direction: str) -> None:
    await asyncio.gather(*(api.made(MODELS, name=f"m{number}") for number in range(300)))

    def same_time(session: Session) -> None:
        session.run(f"UPDATE {CONTEXTS.table} SET created = 1000")

    assert server.registry.database is not None
    await server.registry.database.write(same_time)
    token, seen = "", []
    while True:
        page = await api.get(MODELS, pageSize=7, orderBy="CREATE_TIME", sortOrder=direction, nextPageToken=token)
        seen += page.names
        token = page.body["nextPageToken"]
        if not token:
            break
    assert sorted(seen) == sorted(f"m{number}" for number in range(300))


async def test_39_page_sizes_and_orders_are_checked(api: Api) -> None:
    await models(api, a={}, b={})
    for size in ("abc", "-1", "99999999999"):
        assert (await api.get(MODELS, pageSize=size)).status == 400
    for parameters in ({"pageSize": "0"}, {}):
        page = (await api.get(MODELS, **parameters)).body
        assert (page["pageSize"], page["size"], page["nextPageToken"]) == (0, 2, "")
    assert "CREATE_TIME" in (await api.get(MODELS, orderBy="NAME")).message
    assert (await api.get(MODELS, sortOrder="UP")).status == 400


async def test_40_a_token_belongs_to_its_list(api: Api) -> None:
    await models(api, a={}, b={})
    token = (await api.get(MODELS, pageSize=1)).body["nextPageToken"]
    for parameters in (
        {"nextPageToken": token, "sortOrder": "DESC"},
        {"nextPageToken": token, "filterQuery": "name = 'a'"},
        {"nextPageToken": "random"},
        {"nextPageToken": "cmFuZG9t"},
    ):
        answer = await api.get(MODELS, pageSize=1, **parameters)
        assert (answer.status, "invalid nextPageToken" in answer.message) == (400, True)


async def test_41_and_binds_tighter_than_or(api: Api) -> None:
    for name, state in (("a", "LIVE"), ("b", "ARCHIVED"), ("c", "LIVE")):
        await api.made(MODELS, name=name, state=state)
    for query, names in (
        ("name = 'a' AND state = 'LIVE'", ["a"]),
        ("name = 'a' OR name = 'b' AND state = 'LIVE'", ["a"]),
        ("(name = 'a' OR name = 'b') AND state = 'LIVE'", ["a"]),
        ("name = 'b' AND state = 'LIVE' OR name = 'c'", ["c"]),
        ("name = 'b' AND (state = 'LIVE' OR name = 'b')", ["b"]),
        ("  ", ["a", "b", "c"]),
    ):
        assert await api.filtered(MODELS, query) == names, query


async def test_42_a_missing_property_never_matches(api: Api) -> None:
    await api.made(MODELS, name="a", owner="ann")
    await api.made(MODELS, name="b", owner="bob")
    await api.made(MODELS, name="c")
    assert await api.filtered(MODELS, "owner != 'ann'") == ["b"]


async def test_43_numbers_are_numbers(api: Api) -> None:
    await models(api, a={"n": integer(5)}, b={"n": double(5)}, c={"n": text("5")})
    for query, names in (
        ("n = 5", ["a", "b"]),
        ("n = 5.0", ["a", "b"]),
        ("n IN (5, 10)", ["a", "b"]),
        ("n >= 5", ["a", "b"]),
        ("n.double_value = 5", ["b"]),
        ("n.int_value = 5", ["a"]),
        ("n = '5'", ["c"]),
        ("n IN ('5', 5)", ["a", "b", "c"]),
        ("n IN ()", []),
        ("n > 1e300", []),
    ):
        assert await api.filtered(MODELS, query) == names, query


async def test_44_booleans_and_patterns(api: Api) -> None:
    await models(
        api,
        a={"b": boolean(True), "s": text("Hello")},
        b={"b": boolean(False), "s": text("100%")},
        c={"s": text("1000")},
    )
    for query, names in (
        ("b = true", ["a"]),
        ("b IN (true, FALSE)", ["a", "b"]),
        ("s ILIKE 'H%'", ["a"]),
        ("s ILIKE 'h_LLO'", ["a"]),
        ("s LIKE 'h%'", []),
        (r"s LIKE '100\%'", ["b"]),
        ("s LIKE '100_'", ["b", "c"]),
        ("s LIKE 'x\\", None),
    ):
        if names is None:
            assert (await api.get(MODELS, filterQuery=query)).status == 400
        else:
            assert await api.filtered(MODELS, query) == names, query


async def test_45_awkward_names_and_quotes_find_their_row(api: Api) -> None:
    await models(
        api,
        a={"my prop": text("x")},
        b={"a.b": text("x")},
        c={"q": text("it's")},
        d={"dq": text('say "hi"')},
        e={"back": text("a\\b")},
    )
    for query, name in (
        ("`my prop` = 'x'", "a"),
        ("`my prop`.string_value = 'x'", "a"),
        ("`a.b` = 'x'", "b"),
        (r"q = 'it\'s'", "c"),
        ('q = "it\'s"', "c"),
        ("dq = 'say \"hi\"'", "d"),
        (r"back = 'a\\b'", "e"),
        (r"back LIKE 'a\\b'", "e"),
    ):
        assert await api.filtered(MODELS, query) == [name], query


async def test_46_unequal_has_two_spellings_and_words_any_case(api: Api) -> None:
    await models(api, m={}, n={}, o={})
    assert await api.filtered(MODELS, "name <> 'm'") == ["n", "o"]
    assert await api.filtered(MODELS, "name like 'n' or name = 'o' and id > 0") == ["n", "o"]


@pytest.mark.parametrize(
    "query", ["name=alpha", "name='x' AND", "(name='x'", "name=='x'", "x; drop", "name", "name = 5."]
)
async def test_47_a_syntax_error_has_a_position(api: Api, query: str) -> None:
    answer = await api.get(MODELS, filterQuery=query)
    assert answer.status == 400
    assert "invalid filter query" in answer.message
    assert "1:" in answer.message


async def test_48_ids_are_compared_as_ids(api: Api) -> None:
    made = await api.made(MODELS, name="m")
    await api.made("/model_artifacts", name="a")
    for path in (MODELS, "/artifacts", "/model_artifacts"):
        answer = await api.get(path, filterQuery="id='abc'")
        assert (answer.status, "invalid filter query" in answer.message) == (400, True)
    assert await api.filtered(MODELS, f"id='{made['id']}'") == ["m"]
    assert await api.filtered(MODELS, f"id IN ('{made['id']}', 3)") == ["m"]
    for query in ("id=3000000000", "id=" + "9" * 30, "id=-1", "id=0.5"):
        assert await api.filtered(MODELS, query) == []
    assert (await api.get(MODELS, filterQuery="name = 5")).status == 400


async def test_49_a_field_and_a_custom_property_of_one_name(api: Api) -> None:
    await api.made(MODELS, name="m", owner="a", customProperties={"owner": text("b")})
    assert await api.filtered(MODELS, "owner != 'z'") == ["m"]
    assert await api.filtered(MODELS, "owner = 'b'") == []
    assert await api.filtered(MODELS, "customProperties.owner = 'b'") == ["m"]


async def test_50_version_filters_see_plain_names_and_ids(api: Api) -> None:
    model = (await api.made(MODELS, name="m"))["id"]
    for name in ("v1", "x:v1", "v2"):
        await api.made("/model_versions", name=name, registeredModelId=model, author="ann")
    for query, names in (
        ("name = 'v1'", ["v1"]),
        ("name IN ('v1')", ["v1"]),
        ("name != 'v1'", ["x:v1", "v2"]),
        ("name LIKE 'x:v%'", ["x:v1"]),
        ("name ILIKE 'V%'", ["v1", "v2"]),
        (f"registeredModelId IN ('{model}')", ["v1", "x:v1", "v2"]),
        (f"registeredModelId = {model} AND name > 'v1'", ["x:v1", "v2"]),
        ("registeredModelId = 999", []),
    ):
        for path in ("/model_versions", f"{MODELS}/{model}/versions"):
            assert await api.filtered(path, query) == names, query


async def test_51_every_list_takes_a_filter(api: Api) -> None:
    model = (await api.made(MODELS, name="m"))["id"]
    version = (await api.made("/model_versions", name="v", registeredModelId=model))["id"]
    environment = (await api.made("/serving_environments", name="prod", description="d"))["id"]
    await api.made("/serving_environments", name="other")
    services = f"/serving_environments/{environment}/inference_services"
    service = (await api.made(services, name="one", registeredModelId=model, runtime="r"))["id"]
    await api.made(services, name="two", registeredModelId=model)
    serves = f"/inference_services/{service}/serves"
    await api.made(serves, name="s1", modelVersionId=version, lastKnownState="RUNNING")
    await api.made(serves, name="s2", modelVersionId=version)
    await api.made("/model_artifacts", name="a", storageKey="k")
    await api.made("/model_artifacts", name="b")
    for path, query, names in (
        ("/model_artifacts", "storageKey = 'k'", ["a"]),
        ("/serving_environments", "description LIKE '%d%'", ["prod"]),
        ("/inference_services", "runtime = 'r'", ["one"]),
        ("/inference_services", f"servingEnvironmentId = {environment} AND name = 'two'", ["two"]),
        (services, "desiredState = 'DEPLOYED'", ["one", "two"]),
        (serves, "lastKnownState='RUNNING'", ["s1"]),
        (serves, f"inferenceServiceId = '{service}' AND modelVersionId = {version}", ["s1", "s2"]),
    ):
        assert await api.filtered(path, query) == names, query
    assert (await api.get(serves, filterQuery="bogus ((")).status == 400


async def test_52_artifact_filters_know_the_fields_of_every_type(api: Api) -> None:
    artifacts: dict[str, dict[str, Any]] = {
        "live": {"artifactType": "model-artifact", "state": "LIVE"},
        "gone": {"artifactType": "doc-artifact", "state": "DELETED"},
        "acc": {"artifactType": "metric", "value": 0.5, "step": 3, "timestamp": "99"},
        "rate": {"artifactType": "parameter", "value": "0.5", "parameterType": "number"},
        "data": {"artifactType": "dataset-artifact", "digest": "d"},
    }
    for name, body in artifacts.items():
        await api.made("/artifacts", name=name, **body)
    for query, names in (
        ("state='LIVE'", ["live"]),
        ("state IN ('LIVE','DELETED')", ["live", "gone"]),
        ("value > 0.1", ["acc"]),
        ("step = 3", ["acc"]),
        ("timestamp = 99", ["acc"]),
        ("value = '0.5'", ["rate"]),
        ("digest = 'd'", ["data"]),
        ("parameterType = 'number'", ["rate"]),
    ):
        assert await api.filtered("/artifacts", query) == names, query
    assert await api.filtered("/artifacts", "value = '0.5'", artifactType="parameter") == ["rate"]
    assert (await api.get("/artifacts", filterQuery="state = 3")).status == 400


async def test_long_filters_are_answered_or_refused_with_a_sentence(api: Api) -> None:
    await models(api, m={"k": text("v")})
    nested = "k = 'v'"
    for _ in range(10):
        nested = f"(({nested} OR name = 'x') AND id > 0)"
    for query in ("(" * 200 + "name = 'm'" + ")" * 200, " OR ".join(["name = 'm'"] * 500), nested):
        assert await api.filtered(MODELS, query) == ["m"]
    for query in (" OR ".join(["a = 1"] * 1001), f"({nested} OR id = 1)", "name = '" + "x" * 16384 + "'"):
        assert "invalid filter query" in (await api.get(MODELS, filterQuery=query)).message


async def test_a_list_longer_than_a_chunk_comes_whole(api: Api) -> None:
    await asyncio.gather(*(api.made(MODELS, name=f"m{number:04}") for number in range(1203)))
    everything = (await api.get(MODELS)).body
    assert (len({item["id"] for item in everything["items"]}), everything["size"]) == (1203, 1203)
    page = (await api.get(MODELS, pageSize=1100, sortOrder="DESC")).body
    rest = (await api.get(MODELS, pageSize=1100, sortOrder="DESC", nextPageToken=page["nextPageToken"])).body
    assert (page["size"], rest["size"], rest["nextPageToken"]) == (1100, 103, "")
    assert len({item["id"] for item in page["items"] + rest["items"]}) == 1203
