"""A registry server in this process, on each database, with a client that speaks to it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import psycopg
import pymysql
import pytest
from yarl import URL

from modelyard.programs.database import Session, Source
from modelyard.programs.database.source import DatabaseType
from modelyard.programs.registry.kinds import FAMILIES, LINKS
from modelyard.programs.registry.process import Config, Server
from modelyard.programs.web import Cors
from tests.unit.programs.databases import DatabaseServer

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def id(self) -> str:
        return str(self.body["id"])

    @property
    def names(self) -> list[str]:
        return [item["name"] for item in self.body["items"]]


@dataclass
class Api:
    """The API as a client sees it; paths start after the prefix of v1alpha3 unless they are whole."""

    address: str
    client: aiohttp.ClientSession
    database: str
    prefix: str = "/api/model_registry/v1alpha3"

    @property
    def v1(self) -> Api:
        return Api(self.address, self.client, self.database, "/api/model_registry/v1")

    async def send(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None) -> Answer:
        data = raw if raw is not None else None if body is None else msgspec.json.encode(body)
        whole = path if path == "/" or path.startswith(("/readyz", "/api", "/openapi")) else self.prefix + path
        target = URL(self.address + whole, encoded=True)
        async with self.client.request(method, target, data=data) as answer:
            text = await answer.read()
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return Answer(answer.status, msgspec.json.decode(text) if is_json else text.decode(), dict(answer.headers))

    async def get(self, path: str, **parameters: object) -> Answer:
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())
        return await self.send("GET", f"{path}?{query}" if query else path)

    async def post(self, path: str, body: Any = None, *, raw: bytes | None = None) -> Answer:
        return await self.send("POST", path, body, raw=raw)

    async def patch(self, path: str, body: Any) -> Answer:
        return await self.send("PATCH", path, body)

    async def made(self, path: str, **body: Any) -> Json:
        """What a create answers; it must succeed."""
        answer = await self.post(path, body)
        assert answer.status in (200, 201), answer.body
        assert isinstance(answer.body, dict)
        return answer.body

    async def filtered(self, path: str, query: str, **parameters: object) -> list[str]:
        """The names that a filter finds, in the list's order."""
        answer = await self.get(path, filterQuery=query, **parameters)
        assert answer.status == 200, answer.body
        return answer.names


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def empty_source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    """A database of its own, without tables."""
    name = "own"
    if request.param == "sqlite":
        yield Source("sqlite", str(tmp_path / "own.db"))
    elif request.param == "postgres":
        dsn: str = request.getfixturevalue("postgres_server").dsn
        with psycopg.connect(dsn, autocommit=True) as maintenance:
            maintenance.execute(f"CREATE DATABASE {name}")
            yield Source("postgres", dsn.replace("/postgres?", f"/{name}?"))
            maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")
    else:
        server: DatabaseServer = request.getfixturevalue("mysql_server")
        with (
            pymysql.connect(host="127.0.0.1", port=server.port, user="root") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"CREATE DATABASE {name}")
            yield Source("mysql", server.dsn.replace("/registry?", f"/{name}?"))
            cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    if request.param == "sqlite":
        return Source("sqlite", str(tmp_path / "registry.db"))
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    kind: DatabaseType = "postgres" if request.param == "postgres" else "mysql"
    return Source(kind, server.dsn)


def _empty(session: Session) -> None:
    tables = [table for family in FAMILIES for table in (family.table, family.properties)]
    for table in (*tables, LINKS):
        session.run(f"DELETE FROM {table}")


@pytest.fixture
async def server(source: Source) -> AsyncIterator[Server]:
    made = Server(Config("127.0.0.1", 0, source, Cors()))
    await made.start()
    await made.connect()
    if source.type != "sqlite":
        assert made.registry.database is not None
        await made.registry.database.write(_empty)
    yield made
    await made.stop()


@pytest.fixture
async def api(server: Server, source: Source) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100)) as client:
        yield Api(server.address, client, source.type)
