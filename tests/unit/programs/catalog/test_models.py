"""Scenarios C11 to C26 of the catalog: models, their search, their artifacts and what was measured of them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.unit.programs.catalog.conftest import MODELS, Api, Json, Place, double, metrics, settled, text


async def test_c11_a_model_is_found_by_its_name_raw_or_escaped(place: Place) -> None:
    place.models({"name": "org/m1", "artifacts": [{"uri": "oci://x/y", "name": "weights"}, metrics("accuracy")]})
    api = await place.start()
    for name in ("org/m1", "org%2Fm1"):
        found = await api.get(f"/sources/a/models/{name}")
        assert found.status == 200
        assert found.body["artifactCounts"] == {"accuracy-metrics": 1, "model-artifact": 1}
    assert await api.names("/sources/a/models/org%2Fm1/artifacts", artifactType="model-artifact") == ["weights"]
    missing = await api.get("/sources/a/models/org/none")
    assert (missing.status, missing.message) == (404, "No model found 'org/none' in source 'a'")


async def test_c12_models_come_by_name_in_pages_that_repeat_nothing(place: Place) -> None:
    names = sorted(f"m{number:02}" for number in range(25))
    place.models(*({"name": name} for name in reversed(names)))
    api = await place.start()
    first = await api.get("/models")
    assert (first.names, first.body["pageSize"], first.body["size"]) == (names[:10], 10, 10)
    assert (await api.get("/models", pageSize=0)).status == 400
    assert (await api.get("/models", pageSize="x")).status == 400
    assert [name for page in await api.pages("/models", 7) for name in page] == names
    assert [name for page in await api.pages("/models", 7, sortOrder="DESC") for name in page] == names[::-1]
    token = first.body["nextPageToken"]
    assert (await api.get("/models", sortOrder="DESC", nextPageToken=token)).status == 400
    assert (await api.get("/models", nextPageToken="nonsense")).status == 400


async def test_c13_models_by_source_and_by_label(place: Place) -> None:
    def source(identity: str, *labels: str) -> Json:
        given = {"id": identity, "type": "yaml", "properties": {"yamlCatalogPath": f"{identity}.yaml"}}
        return given | ({"labels": list(labels)} if labels else {})

    place.sources({"model_catalogs": [source("a", "Red"), source("b", "Blue"), source("c")]})
    for identity in "abc":
        place.write(f"{identity}.yaml", {"models": [{"name": f"of-{identity}"}]})
    api = await place.start()
    assert await api.names(source="a,b") == ["of-a", "of-b"]
    twice = await api.get("/models?source=a&source=b")
    assert twice.names == ["of-a", "of-b"]
    assert await api.names(sourceLabel="red") == ["of-a"]
    assert await api.names(sourceLabel="RED,Blue") == ["of-a", "of-b"]
    assert await api.names(sourceLabel="null") == ["of-c"]
    assert await api.names(sourceLabel="green") == []
    assert (await api.get("/models", source="a", sourceLabel="red")).status == 400


@pytest.mark.parametrize(
    ("searched", "found"),
    [
        ("USEFUL", ["described"]),
        ("acme", ["provided"]),
        ("text-gen", ["tasked", "validated"]),
        ("Torch", ["library"]),
        ("catalog-a", []),
        ("_", ["under_score"]),
        ("100%", ["percent"]),
    ],
)
async def test_c14_search_looks_at_texts_as_they_are(place: Place, searched: str, found: list[str]) -> None:
    place.sources(
        {"model_catalogs": [{"id": "catalog-a", "type": "yaml", "properties": {"yamlCatalogPath": "m.yaml"}}]}
    )
    entries: list[Json] = [
        {"name": "described", "description": "A useful thing"},
        {"name": "provided", "provider": "Acme"},
        {"name": "tasked", "tasks": ["text-generation"]},
        {"name": "validated", "validatedTasks": ["text-generation"]},
        {"name": "library", "libraryName": "torch"},
        {"name": "under_score"},
        {"name": "percent", "description": "100% open"},
    ]
    place.write("m.yaml", {"models": entries})
    api = await place.start()
    assert await api.names(q=searched) == found


async def filtered(api: Api, query: str) -> list[str]:
    return await api.names(filterQuery=query)


async def test_c15_arrays_contain_also_within_or(place: Place) -> None:
    place.models({"name": "a", "tasks": ["t1", "t2"]}, {"name": "x", "tasks": ["t3"]}, {"name": "bare"})
    api = await place.start()
    assert await filtered(api, "tasks='t1'") == ["a"]
    assert await filtered(api, "tasks='t1' OR name='x'") == ["a", "x"]
    assert await filtered(api, "tasks IN ('t2','t3')") == ["a", "x"]
    assert await filtered(api, "tasks != 't1'") == ["x"]


async def test_c16_names_compare_as_they_are_shown(place: Place) -> None:
    place.models({"name": "org/m1", "externalId": "e"}, {"name": "other"})
    api = await place.start()
    for query in ("name LIKE 'org/%'", "name IN ('org/m1')", "name != 'other'", "externalId='e'"):
        assert await filtered(api, query) == ["org/m1"], query


async def test_c17_artifact_terms_need_one_artifact_with_both(place: Place) -> None:
    place.models(
        {"name": "both", "artifacts": [metrics("accuracy", accuracy=double(0.9), framework_type=text("onnx"))]},
        {
            "name": "apart",
            "artifacts": [metrics("accuracy", accuracy=double(0.9)), metrics("accuracy", framework_type=text("onnx"))],
        },
    )
    api = await place.start()
    assert await filtered(api, "artifacts.accuracy > 0.89 AND artifacts.framework_type='onnx'") == ["both"]


async def test_c18_the_most_accurate_comes_first_and_models_without_figures_last(place: Place) -> None:
    def scored(name: str, *scores: float) -> Json:
        return {"name": name, "artifacts": [metrics("accuracy", overall_average=double(score)) for score in scores]}

    place.models(scored("low", 0.1, 0.2), scored("none"), scored("high", 0.9, 0.05))
    api = await place.start()
    assert await api.names(orderBy="ACCURACY", sortOrder="DESC") == ["high", "low", "none"]
    assert await api.names(orderBy="ACCURACY") == ["low", "high", "none"]
    assert await api.names(orderBy="artifacts.overall_average.double_value") == ["low", "high", "none"]
    assert (await api.pages("/models", 1, orderBy="ACCURACY", sortOrder="DESC")) == [["high"], ["low"], ["none"]]
    wrong = await api.get("/models", orderBy="COLOR")
    assert wrong.status == 400
    assert "'COLOR'" in wrong.message


@pytest.mark.parametrize("query", ["name=alpha", "name='x' AND", "(name='x'", "id='abc'", "name > 1"])
async def test_c19_a_bad_filter_is_told(place: Place, query: str) -> None:
    place.models({"name": "m"})
    api = await place.start()
    answer = await api.get("/models", filterQuery=query)
    assert answer.status == 400
    assert "invalid filter query" in answer.message


async def test_c20_every_option_that_is_offered_works(place: Place) -> None:
    place.models(
        {
            "name": "m",
            "provider": "p",
            "logo": "l",
            "tasks": ["t1", "t2"],
            "customProperties": {"odd name": text("v")},
            "artifacts": [
                {"uri": "oci://x/y", "customProperties": {"architecture": text('["amd64", "arm64"]')}},
                metrics("performance", ttft_p90=double(80), model_id=text("m")),
                metrics("performance", ttft_p90=double(120.5)),
            ],
        },
        {"name": "n", "description": "x" * 101},
    )
    content = {"namedQueries": {"fast": {"artifacts.ttft_p90.double_value": {"operator": "<=", "value": "max"}}}}
    place.sources(content, "queries.yaml")
    api = await place.start()
    options = (await api.get("/models/filter_options")).body
    filters = options["filters"]
    assert filters["tasks"] == {"type": "string", "values": ["t1", "t2"]}
    assert filters["artifacts.ttft_p90.double_value"] == {"type": "number", "range": {"min": 80, "max": 120.5}}
    assert filters["artifacts.architecture.array_value"]["values"] == ["amd64", "arm64"]
    hidden = ("logo", "source_id", "description", "model_id", "artifacts.model_id.string_value")
    assert not set(hidden) & set(filters)
    assert options["namedQueries"]["fast"]["artifacts.ttft_p90.double_value"] == {"operator": "<=", "value": 120.5}
    for name, option in filters.items():
        for value in option.get("values") or option["range"].values():
            shown = f"'{value}'" if isinstance(value, str) else value
            assert await filtered(api, f"{name} = {shown}"), name
    assert await filtered(api, "artifacts.architecture.array_value='amd64'") == ["m"]


async def test_c21_known_licenses_have_names(place: Place) -> None:
    place.models({"name": "a", "license": "apache-2.0"}, {"name": "b", "license": "weird-license"})
    api = await place.start()
    shown = {item["name"]: item["license"] for item in (await api.get("/models")).body["items"]}
    assert shown == {"a": "Apache 2.0", "b": "weird-license"}


async def test_c22_artifacts_of_a_model_by_kind_filter_and_order(place: Place) -> None:
    place.models(
        {
            "name": "m",
            "artifacts": [
                {"uri": "oci://x/y", "name": "weights", "externalId": "e"},
                metrics("accuracy", accuracy=double(0.3)) | {"name": "worse"},
                metrics("accuracy", accuracy=double(0.9)) | {"name": "better"},
            ],
        }
    )
    api = await place.start()
    path = "/sources/a/models/m/artifacts"
    assert (await api.get("/sources/a/models/none/artifacts")).status == 404
    assert (await api.get(path, artifactType="zz")).status == 400
    assert await api.names(path) == ["weights", "worse", "better"]
    assert await api.names(path, artifact_type="metrics-artifact") == ["worse", "better"]
    assert await api.names(path, artifactType="model-artifact,metrics-artifact", filterQuery="accuracy > 0.5") == [
        "better"
    ]
    assert await api.names(path, orderBy="accuracy.double_value", sortOrder="DESC") == ["better", "worse", "weights"]
    assert await api.names(path, orderBy="accuracy") == ["worse", "better", "weights"]
    assert await api.pages(path, 2) == [["weights", "worse"], ["better"]]
    assert (await api.get(path, orderBy="zz.bad_value")).status == 400


def measured(place: Place, name: str, *lines: Json, **metadata: Any) -> None:
    """A directory of measurements."""
    directory = f"performance/{name.replace('/', '-')}"
    place.write(f"{directory}/performance.ndjson", "".join(json.dumps(line) + "\n" for line in lines))
    place.write(f"{directory}/metadata.json", json.dumps({"id": name, **metadata}))


def line(identity: str, hardware: str, latency: float, rps: float | None, count: int) -> Json:
    made = {"id": identity, "hardware_type": hardware, "ttft_p90": latency, "hardware_count": count}
    return made | ({} if rps is None else {"requests_per_second": rps})


PERFORMANCE = f"{MODELS}/sources/a/models/org/m/artifacts/performance"


def number(artifact: Json, name: str) -> float:
    value = artifact["customProperties"][name]
    return float(value.get("int_value", value.get("double_value")))


async def test_c23_a_load_needs_so_many_replicas(place: Place) -> None:
    place.models({"name": "org/m"})
    measured(place, "ORG/M", line("one", "H100", 100.5, 4, 2), line("unknown", "H100", 90.5, None, 2), size="2B")
    api = await place.start()
    found = {item["externalId"]: item for item in (await api.get(PERFORMANCE, targetRPS=10)).body["items"]}
    assert number(found["one"], "replicas") == 3
    assert number(found["one"], "total_requests_per_second") == 12
    assert number(found["unknown"], "replicas") == 10
    plain = (await api.get(PERFORMANCE)).body["items"]
    assert not any("replicas" in item["customProperties"] for item in plain)
    model = (await api.get("/sources/a/models/org/m")).body
    assert model["customProperties"]["size"] == text("2B")
    assert model["artifactCounts"] == {"performance-metrics": 2}


async def test_c24_recommended_is_what_is_worth_its_price(place: Place) -> None:
    place.models({"name": "org/m"})
    measured(
        place, "org/m", line("1", "H100", 102.5, 4, 2), line("2", "H100", 285.3, 1, 2), line("3", "H200", 94.2, 5, 1)
    )
    api = await place.start()
    wanted = {"targetRPS": 10, "recommendations": "true"}
    first = await api.get(PERFORMANCE, pageSize=1, **wanted)
    second = await api.get(PERFORMANCE, pageSize=1, nextPageToken=first.body["nextPageToken"], **wanted)
    assert [answer.body["items"][0]["externalId"] for answer in (first, second)] == ["1", "3"]
    assert second.body["nextPageToken"] == ""


async def test_c25_a_property_that_nothing_has_is_told_and_no_data_is_an_empty_list(place: Place) -> None:
    place.models({"name": "org/m"}, {"name": "bare"})
    measured(place, "org/m", line("1", "H100", 102.5, 4, 2))
    api = await place.start()
    wrong = await api.get(PERFORMANCE, rpsProperty="zzz")
    assert wrong.status == 400
    assert "zzz" in wrong.message
    bare = await api.get("/sources/a/models/bare/artifacts/performance", rpsProperty="zzz", recommendations="true")
    assert (bare.status, bare.body["items"]) == (200, [])


async def test_c26_models_by_their_best_latency(place: Place) -> None:
    place.models({"name": "bare"}, {"name": "fast"}, {"name": "slow"})
    measured(place, "slow", line("1", "H100", 300.5, 4, 2))
    measured(place, "fast", line("1", "H100", 100.5, 4, 2), line("2", "L4", 500.5, 4, 1))
    api = await place.start()
    assert await api.names(recommendations="true") == ["fast", "slow", "bare"]
    assert await api.names(orderBy="RECOMMENDED", sortOrder="DESC") == ["slow", "fast", "bare"]
    assert await api.names(recommendations="true", filterQuery="artifacts.hardware_type='L4'") == ["fast"]
    first = await api.get("/models", recommendations="true", pageSize=2)
    assert first.body["nextPageToken"] == "2"
    assert (await api.get("/models", recommendations="true", pageSize=2, nextPageToken="2")).names == ["bare"]
    token = base64.b64encode(b"2:x").decode()
    assert (await api.get("/models", recommendations="true", nextPageToken=token)).status == 400


async def test_measurements_are_followed_and_bad_lines_left_out(place: Place) -> None:
    place.models({"name": "org/m"})
    api = await place.start()
    assert (await api.get(PERFORMANCE)).body["items"] == []
    directory = "performance/m"
    place.write(f"{directory}/evaluations.ndjson", '{"benchmark": "b1", "score": 0.5}\nnonsense\n')
    place.write(f"{directory}/security-evaluations.ndjson", '{"id": "s", "passed": true}\n')
    place.write(
        f"{directory}/performance.ndjson",
        '{"id": "1", "n": NaN}\n{"id": "2", "n": 5, "created_at": "2026-01-01T00:00:00Z"}\n',
    )
    place.write(f"{directory}/metadata.json", '{"id": "org/m", "overall_accuracy": 0.5}')

    async def counted() -> bool:
        counts = (await api.get("/sources/a/models/org/m")).body["artifactCounts"]
        return bool(counts == {"accuracy-metrics": 1, "performance-metrics": 1, "security-metrics": 1})

    await settled(counted, "the measurements are there")
    (shown,) = (await api.get(PERFORMANCE)).body["items"]
    assert shown["createTimeSinceEpoch"] == "1767225600000"
    assert shown["customProperties"]["n"] == {"metadataType": "MetadataIntValue", "int_value": "5"}
    assert await api.names(orderBy="ACCURACY", filterQuery="artifacts.overall_average = 0.5") == ["org/m"]
