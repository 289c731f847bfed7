"""The catalog's pure rooms: `sources.yaml`, entries of YAML catalogs, filters and facets over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelyard.programs.catalog import documents
from modelyard.programs.catalog.config import Asset, Config, read_file
from modelyard.programs.catalog.documents import BadDocument
from modelyard.programs.catalog.items import BadEntry, Item, UnknownKey, mcp_server, model
from modelyard.programs.catalog.library import Library
from modelyard.programs.catalog.search import filter_options, matches, named_filter
from modelyard.programs.filter_query import parse


def text(value: str) -> dict[str, str]:
    return {"metadataType": "MetadataStringValue", "string_value": value}


def double(value: float) -> dict[str, object]:
    return {"metadataType": "MetadataDoubleValue", "double_value": value}


def read_config(paths: list[Path]) -> Config:
    library = Library(paths)
    library.open()
    return library.snapshot.config


def found(items: list[Item], query: str) -> list[str]:
    tree = parse(query)
    assert tree is not None
    return [item.name for item in items if matches(item, tree)]


def test_a_later_file_overrides_field_by_field(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    first, second = tmp_path / "one" / "a.yaml", tmp_path / "b.yaml"
    first.write_text(
        "model_catalogs: [{id: b, name: B, type: yaml, enabled: false, properties: {yamlCatalogPath: m.yaml}}]"
    )
    second.write_text("model_catalogs: [{id: b, enabled: true, name: B2}]")
    (source,) = read_config([first, second]).sources
    assert (source.name, source.type, source.is_enabled) == ("B2", "yaml", True)
    assert source.directory == first.parent


def test_patterns_know_only_the_star_and_no_case() -> None:
    content = {"model_catalogs": [{"id": "a", "includedModels": ["x/*", "Y*"], "excludedModels": ["x/bad*"]}]}
    (source,) = read_file(content, Path("s.yaml")).sources
    names = ["x/one", "X/Two", "yes", "x/bad1", "zed"]
    assert [name for name in names if source.admits(name)] == ["x/one", "X/Two", "yes"]


@pytest.mark.parametrize(
    "content",
    [
        "model_catalogs: [{id: a}]\nmcp_catalogs: [{id: a}]",
        "model_catalogs: [{id: a}, {id: a}]",
        "model_catalogs: [{name: a}]",
        "model_catalogs: [{id: a, nonsense: 1}]",
        "model_catalogs: [{id: a, name: yes}]",
        "model_catalogs: [{id: a, includedModels: ['']}]",
        "labels: [{displayName: x}]",
        "labels: [{name: x}, {name: x}]",
        "namedQueries: {q: {name: {operator: '~', value: 1}}}",
        "namedQueries: {q: {name: {operator: IN, value: 1}}}",
        "nonsense: 1",
        "labels: []\nlabels: []",
    ],
)
def test_an_invalid_file_is_refused_whole(tmp_path: Path, content: str) -> None:
    path = tmp_path / "sources.yaml"
    path.write_text(content)
    with pytest.raises(BadDocument, match=r"sources\.yaml"):
        read_config([path])


def test_a_label_in_two_files_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        path.write_text("labels: [{name: x}, {name: null}]")
    with pytest.raises(BadDocument, match="two files"):
        read_config(paths)


@pytest.mark.parametrize("raw", [b"a: &x [1]\nb: *x", b"[" * 100 + b"]" * 100, b"a: {<<: {b: 1}}", b"\xff", b"a: ["])
def test_documents_stay_within_bounds(raw: bytes) -> None:
    with pytest.raises(BadDocument):
        documents.parse(raw)


def test_an_unknown_key_names_itself_and_a_bad_address_its_scheme() -> None:
    with pytest.raises(UnknownKey, match="nonsense"):
        model({"name": "m", "nonsense": 1}, "s")
    with pytest.raises(BadEntry, match=r"'m'.*'ftp'"):
        model({"name": "m", "artifacts": [{"uri": "ftp://x"}]}, "s")


def test_license_ids_become_names() -> None:
    assert model({"name": "m", "license": "apache-2.0"}, "s").doc["license"] == "Apache 2.0"
    assert model({"name": "m", "license": "weird-license"}, "s").doc["license"] == "weird-license"


def test_ids_are_the_same_on_every_start() -> None:
    assert model({"name": "m"}, "s").id == model({"name": "m", "description": "other"}, "s").id
    assert model({"name": "m"}, "s").id != model({"name": "m"}, "t").id


def test_array_fields_contain_in_every_place_of_a_filter() -> None:
    items = [model({"name": "a", "tasks": ["t1", "t2"]}, "s"), model({"name": "x", "tasks": ["t3"]}, "s")]
    assert found(items, "tasks = 't1'") == ["a"]
    assert found(items, "tasks = 't1' OR name = 'x'") == ["a", "x"]
    assert found(items, "tasks IN ('t2', 't3')") == ["a", "x"]
    assert found(items, "tasks != 't1'") == ["x"]


def test_names_compare_without_their_source() -> None:
    items = [model({"name": "org/m1", "externalId": "e"}, "s"), model({"name": "other"}, "s")]
    for query in ("name LIKE 'org/%'", "name IN ('org/m1')", "name != 'other'", "externalId = 'e'"):
        assert found(items, query) == ["org/m1"], query


def test_terms_about_artifacts_need_one_artifact_with_all() -> None:
    def metrics(accuracy: float, framework: str) -> dict[str, object]:
        given = {"accuracy": double(accuracy), "framework_type": text(framework)}
        return {"artifactType": "metrics-artifact", "metricsType": "accuracy-metrics", "customProperties": given}

    both = model({"name": "both", "artifacts": [metrics(0.9, "onnx")]}, "s")
    apart = model({"name": "apart", "artifacts": [metrics(0.9, "torch"), metrics(0.1, "onnx")]}, "s")
    assert found([both, apart], "artifacts.accuracy > 0.89 AND artifacts.framework_type = 'onnx'") == ["both"]


def test_every_offered_option_works_in_a_filter() -> None:
    artifact = {
        "uri": "oci://x/y",
        "customProperties": {"architecture": text('["amd64", "arm64"]'), "size gb": double(2.5)},
    }
    items = [model({"name": "m", "provider": "p", "logo": "l", "artifacts": [artifact]}, "s")]
    filters = filter_options(items, Asset.MODELS, {})["filters"]
    assert "logo" not in filters
    assert filters["artifacts.architecture.array_value"]["values"] == ["amd64", "arm64"]
    for name, option in filters.items():
        value = f"'{option['values'][0]}'" if "values" in option else option["range"]["max"]
        assert found(items, f"{name} = {value}") == ["m"], name


def test_a_named_query_returns_each_server_once() -> None:
    flags = {"verifiedSource": True, "sast": True, "readOnlyTools": True}
    good = mcp_server({"name": "good", "securityIndicators": flags, "tools": [{"name": "t"}]}, "s")
    bad = mcp_server({"name": "bad", "securityIndicators": flags | {"sast": False}}, "s")
    query = {name: {"operator": "=", "value": True} for name in flags}
    passes = named_filter(query, filter_options([good, bad], Asset.MCP_SERVERS, {})["filters"])
    assert [item.name for item in (good, bad) if passes(item)] == ["good"]
    assert good.doc["toolCount"] == 1
