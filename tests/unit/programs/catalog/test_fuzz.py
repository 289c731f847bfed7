"""Random requests and random files: no answer is a 5xx, and no file stops the server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelyard.programs.catalog import documents
from modelyard.programs.catalog.config import Asset, Source, read_file
from modelyard.programs.catalog.documents import BadDocument
from modelyard.programs.catalog.entries import Entries, read_entries
from modelyard.programs.catalog.hub_models import hub_model
from modelyard.programs.database import Source as Store
from tests.unit.programs.catalog.conftest import AGENTS, MCP, MODELS, Api, Place, double, metrics, text

WHOLE = partial(settings, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
PATHS = st.sampled_from(
    [
        f"{MODELS}/models", f"{MODELS}/models/filter_options", f"{MODELS}/sources", f"{MODELS}/labels",
        f"{MODELS}/sources/a/models/org/m", f"{MODELS}/sources/a/models/org/m/artifacts",
        f"{MODELS}/sources/a/models/org/m/artifacts/performance", f"{MCP}/mcp_servers", f"{AGENTS}/agents",
        f"{MCP}/mcp_servers/1/tools", "/api/skill_catalog/v1alpha1/skills",
    ]
)  # fmt: skip
NAMES = st.sampled_from(
    [
        "q", "name", "source", "sourceLabel", "filterQuery", "orderBy", "sortOrder", "pageSize", "nextPageToken", "assetType",
        "artifactType", "artifact_type", "recommendations", "targetRPS", "latencyProperty", "rpsProperty", "namedQuery",
        "hardwareCountProperty", "hardwareTypeProperty", "includeTools", "toolLimit",
    ]
)  # fmt: skip
TERMS = st.tuples(
    st.sampled_from(
        ["name", "tasks", "id", "n", "artifacts.ttft_p90", "artifacts.x.array_value", "`o d`.string_value", "sast"]
    ),
    st.sampled_from(["=", "!=", ">", "<=", "LIKE", "ILIKE", "IN"]),
    st.sampled_from(["'a'", "1", "2.5", "true", "('a', 1)", "()", "'%_'", "'\\\\'", "99999999999999999999"]),
).map(" ".join)
QUERIES = st.recursive(
    TERMS,
    lambda inner: st.tuples(inner, st.sampled_from([" AND ", " or "]), inner).map(lambda three: f"({''.join(three)})"),
    max_leaves=5,
)
WORDS = st.sampled_from(
    [
        "NAME", "ID", "ACCURACY", "RECOMMENDED", "CREATE_TIME", "artifacts.ttft_p90.double_value", "n.int_value", "n.x_value",
        "true", "DESC", "asc", "10", "-1", "0", "99999999999", "ttft_p90", "model-artifact", "models", "null", "a", "displayName",
    ]
)  # fmt: skip
VALUES = WORDS | QUERIES | st.text(max_size=12) | st.integers(-5, 200).map(str)
REQUESTS = st.tuples(PATHS, st.lists(st.tuples(NAMES, VALUES), max_size=4))
PREVIEWS = st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode(errors="replace"))
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(["a", "1", "*"])
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def entries_of(make: Any) -> Any:
    """Entries that are nearly right."""
    keys = [
        "name", "externalId", "license", "tasks", "language", "servingConfig", "customProperties", "artifacts", "description",
        "tags", "endpoints", "securityIndicators", "tools", "templates", "createTimeSinceEpoch", "version", "env",
    ]  # fmt: skip
    return st.lists(st.dictionaries(st.sampled_from(keys), ANYTHING | make, max_size=6), max_size=3)


@pytest.fixture
async def api(tmp_path: Any) -> Any:
    (tmp_path / "performance").mkdir()
    async with aiohttp.ClientSession() as client:
        place = Place(tmp_path, Store("sqlite", str(tmp_path / "c.db")), client=client)
        artifact = metrics("performance", ttft_p90=double(3), requests_per_second=double(0.5))
        properties = {
            "o d": text("a"),
            "n": {"metadataType": "MetadataIntValue", "int_value": "7"},
            "x": text('["a", 1]'),
        }
        place.models(
            {
                "name": "org/m",
                "tasks": ["a"],
                "customProperties": properties,
                "artifacts": [{"uri": "oci://x"}, artifact],
            },
            {"name": "N", "artifacts": [metrics("accuracy", overall_average=double(1))], "createTimeSinceEpoch": "5"},
        )
        place.sources(
            {"mcp_catalogs": [{"id": "s", "type": "yaml", "properties": {"yamlCatalogPath": "s.yaml"}}]}, "mcp.yaml"
        )
        place.write(
            "s.yaml", {"mcp_servers": [{"name": "a", "tools": [{"name": "t"}], "securityIndicators": {"sast": True}}]}
        )
        yield await place.start()
        await place.stop()


async def test_no_request_is_a_server_error(api: Api) -> None:
    sent: list[tuple[str, list[tuple[str, str]]]] = []

    @WHOLE(max_examples=600)
    @given(REQUESTS)
    def collect(request: tuple[str, list[tuple[str, str]]]) -> None:
        sent.append(request)

    collect()
    for path, parameters in sent:
        query = "&".join(f"{name}={quote(value.encode(errors='replace'), safe='')}" for name, value in parameters)
        answer = await api.send("GET", f"{path}?{query}")
        assert answer.status < 500, (path, parameters, answer)
        if answer.status >= 400:
            assert set(answer.body) == {"code", "message"}
        elif "items" in answer.body:
            assert answer.body["size"] == len(answer.body["items"])


@pytest.mark.filterwarnings("ignore::aiohttp.multipart.BadContentDispositionHeader")
async def test_no_preview_is_a_server_error(api: Api) -> None:
    sent: list[tuple[bytes, bytes, bytes]] = []

    @WHOLE(max_examples=150)
    @given(PREVIEWS, PREVIEWS, PREVIEWS)
    def collect(config: bytes, data: bytes, raw: bytes) -> None:
        sent.append((config, data, raw))

    collect()
    for config, data, raw in sent:
        form = aiohttp.FormData()
        form.add_field("config", config, filename="c")
        form.add_field("catalogData", data, filename="d")
        assert (await api.send("POST", "/sources/preview", form)).status < 500, (config, data)
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        for body in (
            raw,
            b"--x\r\n" + raw + b"\r\n\r\n" + data + b"\r\n--x--\r\n",
            b"--x\r\nContent-Disposition: " + raw,
        ):
            target = f"{api.address}{MODELS}/sources/preview"
            async with api.client.post(target, data=body, headers=headers) as answer:
                assert answer.status < 500, (raw, await answer.text())


def read_or_refused(read: Callable[[], object]) -> object:
    """What is read, or the sentence that refuses it."""
    try:
        return read()
    except BadDocument as error:
        return str(error)


@WHOLE(max_examples=400)
@given(st.sampled_from([Asset.MODELS, Asset.MCP_SERVERS, Asset.AGENTS]), entries_of(st.just("x")) | ANYTHING)
def test_every_document_is_read_or_refused_with_a_sentence(asset: Asset, entries: Any) -> None:
    key = {Asset.MODELS: "models", Asset.MCP_SERVERS: "mcp_servers", Asset.AGENTS: "agents"}[asset]
    found = read_or_refused(lambda: read_entries({key: entries}, Source("s", asset)))
    if isinstance(found, Entries):
        assert len(found.items) + len(found.problems) <= len(entries or ())


@WHOLE(max_examples=300)
@given(
    ANYTHING | st.dictionaries(st.sampled_from(["model_catalogs", "mcp_catalogs", "labels", "namedQueries"]), ANYTHING)
)
def test_every_configuration_is_read_or_refused_with_a_sentence(content: Any) -> None:
    assert read_or_refused(lambda: read_file(content, Path("sources.yaml")))


@WHOLE(max_examples=300)
@given(st.binary(max_size=60) | st.text("[]{}:&*!-\n 'a\"|>%@", max_size=40).map(str.encode))
def test_every_text_is_yaml_or_refused_with_a_sentence(raw: bytes) -> None:
    assert read_or_refused(lambda: [documents.parse(raw)])


@WHOLE(max_examples=300)
@given(
    ANYTHING
    | st.dictionaries(
        st.sampled_from(["id", "tags", "cardData", "config", "gated", "createdAt"]), ANYTHING | st.just("o/n")
    )
)
def test_whatever_the_hub_answers_is_a_model_or_nothing(raw: Any) -> None:
    found = hub_model(raw, 0)
    if found is not None:
        assert read_entries({"models": [found]}, Source("s", Asset.MODELS)).problems == () or len(found["name"]) > 0
