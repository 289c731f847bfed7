"""A flood of connections that say nothing: it displaces itself, and nobody else."""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp
import pytest

from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.sockets import http
from modelyard.local.apiserver.sockets.arrivals import MOST_ARRIVING

TOKEN = "the-token"
ROOM = 40


@dataclass
class Flood:
    """Connections to one server, all kept open."""

    host: str
    port: int
    context: ssl.SSLContext
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def idle(self, count: int, *, tls: bool) -> list[asyncio.StreamReader]:
        readers = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection(
                self.host, self.port, ssl=self.context if tls else None, server_hostname="localhost" if tls else None
            )
            self.writers.append(writer)
            readers.append(reader)
        return readers

    async def end(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@pytest.fixture
async def flood(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Flood, aiohttp.ClientSession, str]]:
    monkeypatch.setattr(http, "_MOST_CONNECTIONS", ROOM)
    async with ApiServer() as server:
        server.admit_token(TOKEN)
        url = await server.listen()
        context = ssl.create_default_context(cadata=server.root_certificate())
        port = int(url.rpartition(":")[2])
        made = Flood("127.0.0.1", port, context)
        connector = aiohttp.TCPConnector(ssl=context)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            yield made, session, url
        await made.end()


async def closed(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(30):
        with suppress(ConnectionError):
            assert await reader.read() == b""


async def test_a_watch_outlives_a_flood_of_idle_connections(
    flood: tuple[Flood, aiohttp.ClientSession, str],
) -> None:
    made, session, url = flood
    async with session.get(f"{url}/api/v1/configmaps?watch=1&resourceVersion=0") as watch:
        readers = await made.idle(3 * ROOM, tls=True)
        await closed(readers[0])
        async with session.get(f"{url}/api/v1/namespaces/default") as answer:
            assert answer.status == 200
        named = {"metadata": {"name": "seen", "namespace": "default"}}
        async with session.post(f"{url}/api/v1/namespaces/default/configmaps", json=named) as created:
            assert created.status == 201
        async with asyncio.timeout(30):
            while b'"seen"' not in await watch.content.readline():
                pass


async def test_connections_that_never_speak_tls_are_bounded(flood: tuple[Flood, aiohttp.ClientSession, str]) -> None:
    made, session, url = flood
    readers = await made.idle(MOST_ARRIVING + 20, tls=False)
    await closed(readers[0])
    async with session.get(f"{url}/api/v1/namespaces/default") as answer:
        assert answer.status == 200


async def test_a_packed_body_is_not_unpacked(flood: tuple[Flood, aiohttp.ClientSession, str]) -> None:
    """As a real server: what is inside is never looked at."""
    _, session, url = flood
    packed = gzip.compress(b'{"metadata":{"name":"' + b"a" * 30_000_000 + b'"}}')

    async def pieces() -> AsyncIterator[bytes]:
        yield packed

    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    for body in (packed, pieces()):
        async with session.post(f"{url}/api/v1/namespaces/default/configmaps", data=body, headers=headers) as answer:
            assert answer.status == 400
            assert "unrecognized" in (await answer.json())["message"]


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\xff\xfe\x00 nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    ],
)
async def test_nonsense_leaves_no_traceback_in_the_log(
    flood: tuple[Flood, aiohttp.ClientSession, str], head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    made, _, _ = flood
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", made.port, ssl=made.context, server_hostname="localhost"
    )
    made.writers.append(writer)
    with caplog.at_level(logging.INFO):
        writer.write(head)
        async with asyncio.timeout(30):
            assert b"400" in await reader.readline()
    assert not [record for record in caplog.records if record.exc_info]
