"""A catalog server in this process, on each store, with its files and a client that speaks to it over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import pytest
import yaml
from yarl import URL

from modelyard.programs.catalog.process import Config, Server
from modelyard.programs.database import DatabaseDown, Source, open_database
from tests.unit.programs.registry.conftest import Answer

Json = dict[str, Any]
MODELS = "/api/model_catalog/v1alpha1"
MCP = "/api/mcp_catalog/v1alpha1"
AGENTS = "/api/agent_catalog/v1alpha1"
TICK = 0.02


def text(value: str) -> Json:
    return {"metadataType": "MetadataStringValue", "string_value": value}


def double(value: float) -> Json:
    return {"metadataType": "MetadataDoubleValue", "double_value": value}


def metrics(kind: str, **values: Json) -> Json:
    return {"artifactType": "metrics-artifact", "metricsType": f"{kind}-metrics", "customProperties": values}


@dataclass
class Api:
    """The API as a client sees it; paths without a prefix are the model catalog's."""

    address: str
    client: aiohttp.ClientSession

    async def send(self, method: str, path: str, data: Any = None) -> Answer:
        whole = path if path.startswith(("/api", "/healthz", "/readyz")) else MODELS + path
        async with self.client.request(method, URL(self.address + whole, encoded=True), data=data) as answer:
            raw = await answer.read()
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return Answer(answer.status, msgspec.json.decode(raw) if is_json else raw.decode(), dict(answer.headers))

    async def get(self, path: str, **parameters: object) -> Answer:
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())
        return await self.send("GET", f"{path}?{query}" if query else path)

    async def names(self, path: str = "/models", **parameters: object) -> list[str]:
        """The names of a list, which must succeed."""
        answer = await self.get(path, **{"pageSize": 100, **parameters})
        assert answer.status == 200, answer.body
        return answer.names

    async def source(self, identity: str) -> Json:
        found = (await self.get("/sources", pageSize=100)).body["items"]
        return next((item for item in found if item["id"] == identity), {})

    async def pages(self, path: str, size: int, **parameters: object) -> list[list[str]]:
        """The names on each page, to the last."""
        found: list[list[str]] = []
        token = ""
        while True:
            answer = await self.get(path, pageSize=size, **parameters, **({"nextPageToken": token} if token else {}))
            assert answer.status == 200, answer.body
            assert answer.body["size"] == len(answer.body["items"])
            found.append(answer.names)
            token = answer.body["nextPageToken"]
            if not token:
                return found


@dataclass
class Place:
    """The catalog's files, and the server that follows them."""

    directory: Path
    store: Source
    environ: dict[str, str] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    client: aiohttp.ClientSession | None = None

    def write(self, name: str, content: Any) -> Path:
        """Content that is not text becomes YAML. As a ConfigMap volume does it, the file is swapped, not overwritten."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        os.replace(fresh, path)
        return path

    def sources(self, content: Any, name: str = "sources.yaml") -> Path:
        path = self.write(name, content)
        if path not in self.paths:
            self.paths.append(path)
        return path

    def models(self, *entries: Json, name: str = "m.yaml") -> None:
        """One source `a` that lists these."""
        self.sources(
            {"model_catalogs": [{"id": "a", "name": "A", "type": "yaml", "properties": {"yamlCatalogPath": name}}]}
        )
        self.write(name, {"models": list(entries)})

    async def start(self) -> Api:
        server = Server(
            Config("127.0.0.1", 0, self.paths, self.store, [self.directory / "performance"]), self.environ, tick=TICK
        )
        await server.start()
        self.servers.append(server)
        assert self.client is not None
        return Api(server.address, self.client)

    async def stop(self) -> None:
        while self.servers:
            await self.servers.pop().stop()


async def settled(condition: Callable[[], Awaitable[object]], what: str) -> None:
    """Waits until the server shows it."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(TICK)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    if request.param == "sqlite":
        return Source("sqlite", str(tmp_path / "catalog.db"))
    source = Source("postgres", request.getfixturevalue("postgres_server").dsn, threads=1)
    database = open_database(source)

    async def emptied() -> bool:
        # The port of a server is open a little before it lets anyone in.
        with contextlib.suppress(DatabaseDown):
            await database.write(lambda session: session.run("DROP TABLE IF EXISTS modelyard_catalog_source"))
            return True
        return False

    await settled(emptied, "the database is empty")
    database.close()
    return source


@pytest.fixture
async def place(store: Source, tmp_path: Path) -> AsyncIterator[Place]:
    (tmp_path / "performance").mkdir()
    async with aiohttp.ClientSession() as client:
        made = Place(tmp_path, store, client=client)
        yield made
        await made.stop()
