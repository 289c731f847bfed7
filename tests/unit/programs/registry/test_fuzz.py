"""Random bodies and filters: no answer is a 5xx, and SQL finds what the plain evaluator finds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelyard.programs.database import Source
from modelyard.programs.filter_query import FilterError, Property, Stored, evaluate, parse
from modelyard.programs.registry.kinds import BY_PATH
from modelyard.programs.registry.process import Config, Server
from modelyard.programs.web import Cors
from tests.unit.programs.registry.conftest import Api

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted(
    {field.name for kind in BY_PATH.values() for field in kind.fields} | {"name", "id", "externalId", "artifactType"}
)
BODIES = st.dictionaries(st.sampled_from([*FIELDS, "customProperties", "description"]), JSON, max_size=5)
PATHS = st.sampled_from([*BY_PATH, "artifacts", "model_versions/1/artifacts", "registered_models/1/versions"])
VALUES = st.sampled_from(["1", "2.5", "'a'", "'b%'", "'A_'", "true", "-1", "''", "(1, 'a')", "()", "'\\\\'"])
OPERATORS = st.sampled_from(["=", "!=", "<>", ">", "<=", "LIKE", "ILIKE", "IN", "like"])
NAMES = st.sampled_from(["name", "id", "n", "s", "b", "owner", "n.int_value", "`s`.string_value", "customProperties.b"])
TERMS = st.tuples(NAMES, OPERATORS, VALUES).map(" ".join)
QUERIES = st.recursive(
    TERMS,
    lambda inner: st.tuples(inner, st.sampled_from([" AND ", " or "]), inner).map(lambda three: f"({''.join(three)})"),
    max_leaves=5,
)
OBJECTS: dict[str, dict[str, Any]] = {
    "a": {"n": 1, "s": "a", "b": True},
    "b": {"n": 2.5, "s": "Ab"},
    "ab%": {"s": "", "b": False, "n": "a"},
    "B": {"b": "b%", "s": "\\"},
}


def metadata(value: Any) -> dict[str, Any]:
    names = {bool: ("Bool", "bool"), int: ("Int", "int"), float: ("Double", "double"), str: ("String", "string")}
    word, member = names[type(value)]
    return {"metadataType": f"Metadata{word}Value", f"{member}_value": str(value) if type(value) is int else value}


@pytest.fixture
async def started(tmp_path: Path) -> Any:
    server = Server(Config("127.0.0.1", 0, Source("sqlite", str(tmp_path / "r.db")), Cors()))
    await server.start()
    await server.connect()
    async with aiohttp.ClientSession() as client:
        yield Api(server.address, client, "sqlite")
    await server.stop()


async def test_no_body_and_no_filter_is_a_server_error(started: Api) -> None:
    sent: list[tuple[str, str, Any]] = []

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(PATHS, BODIES | JSON, st.text(max_size=20) | QUERIES)
    def collect(path: str, body: Any, query: str) -> None:
        sent.append((path, query, body))

    collect()
    for path, query, body in sent:
        for answer in (
            await started.post(f"/{path}", body if body is not None else 0),
            await started.patch(f"/{path.partition('/')[0]}/1", body if body is not None else 0),
            await started.get(f"/{path}", filterQuery=query),
        ):
            assert answer.status < 500, (path, query, body, answer)
            if answer.status >= 400:
                assert set(answer.body) == {"code", "message"}


async def test_sql_and_the_evaluator_agree(started: Api) -> None:
    ids = {}
    for name, custom in OBJECTS.items():
        made = await started.made(
            "/registered_models",
            name=name,
            owner=f"o{name}",
            customProperties={k: metadata(v) for k, v in custom.items()},
        )
        ids[name] = int(made["id"])
    queries: list[str] = []

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(QUERIES)
    def collect(query: str) -> None:
        queries.append(query)

    collect()
    compared = 0
    for query in queries:
        answer = await started.get("/registered_models", filterQuery=query)
        try:
            tree = parse(query)
        except FilterError:
            assert answer.status == 400
            continue
        assert tree is not None
        if answer.status == 400:
            continue

        def of(name: str, subject: Property) -> list[Stored]:
            fields: dict[str, Stored] = {"name": name, "owner": f"o{name}", "id": ids[name]}
            if len(subject.parts) == 1 and subject.name in fields:
                return [fields[subject.name]]
            key = subject.parts[-1]
            return [OBJECTS[name][key]] if key in OBJECTS[name] else []

        expected = [name for name in OBJECTS if evaluate(tree, partial(of, name))]
        assert answer.names == expected, query
        compared += 1
    assert compared > 50
