"""Requests as bytes on a connection: in pieces, several at once, plain and unusual ones, slow and broken ones."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.times import utc_now
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.messages import Reply, Request, Upgrade, WebSocket
from modelyard.local.apiserver.sockets.connections import BODY_SECONDS, REQUEST_SECONDS, Connection
from modelyard.local.apiserver.sockets.heads import Heads
from modelyard.local.apiserver.sockets.http import Door
from modelyard.local.apiserver.sockets.tls import Identity

TOKEN = "the-token"
PATH = "/api/v1/namespaces/default/configmaps"


class Wire:
    """One TLS connection that sends bytes as they are."""

    def __init__(self, url: str, server: ApiServer) -> None:
        self.server = server
        self.host, _, port = url.removeprefix("https://").partition(":")
        self.port = int(port)
        self.context = ssl.create_default_context(cadata=server.root_certificate())
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port, ssl=self.context)

    def send(self, text: str, body: bytes = b"") -> None:
        self.writer.write(text.replace("\n", "\r\n").encode("latin-1") + body)

    def request(self, line: str, body: bytes = b"", more: str = "") -> None:
        length = f"Content-Length: {len(body)}\n" if body else ""
        self.send(f"{line} HTTP/1.1\nHost: localhost\nAuthorization: Bearer {TOKEN}\n{length}{more}\n", body)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(10):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split()[1]), headers, body

    async def closed(self) -> bool:
        async with asyncio.timeout(10):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with ApiServer() as server:
        server.admit_token(TOKEN)
        found = Wire(await server.listen(), server)
        await found.open()
        yield found
        found.writer.close()


def config_map(name: str) -> bytes:
    return json.dumps({"metadata": {"name": name}, "data": {"a": "b" * 1000}}).encode()


async def test_requests_follow_each_other_on_one_connection(wire: Wire) -> None:
    for name in ("a", "b"):
        wire.request(f"POST {PATH}", config_map(name))
        status, headers, body = await wire.answer()
        assert (status, headers["content-type"], json.loads(body)["metadata"]["name"]) == (
            201,
            "application/json",
            name,
        )
        assert headers["cache-control"] == "no-cache, private"


async def test_requests_sent_at_once_are_answered_in_order(wire: Wire) -> None:
    for index in range(20):
        wire.request(f"POST {PATH}", config_map(f"c{index}"))
    names = [json.loads((await wire.answer())[2])["metadata"]["name"] for _ in range(20)]
    assert names == [f"c{index}" for index in range(20)]


async def test_request_in_pieces_is_one_request(wire: Wire) -> None:
    body = config_map("pieces")
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    whole = head.encode() + body
    for start in range(0, len(whole), 37):
        wire.writer.write(whole[start : start + 37])
        await wire.writer.drain()
        await asyncio.sleep(0)
    assert (await wire.answer())[0] == 201


async def test_large_answers_come_whole(wire: Wire) -> None:
    client = wire.server.client()
    for index in range(8):
        data = {"metadata": {"name": f"large-{index}", "namespace": "default"}, "data": {"a": "x" * 200_000}}
        await client.create(ConfigMap, data)
    wire.request(f"GET {PATH}")
    status, _, body = await wire.answer()
    assert (status, len(json.loads(body)["items"])) == (200, 9)


async def test_head_has_no_body_and_the_connection_goes_on(wire: Wire) -> None:
    wire.request("HEAD /livez")
    async with asyncio.timeout(10):
        head = await wire.reader.readuntil(b"\r\n\r\n")
    assert b"200 OK" in head
    assert b"Content-Length: " in head
    wire.request("GET /api/v1/namespaces/default")
    assert (await wire.answer())[0] == 200


async def test_connection_close_is_obeyed(wire: Wire) -> None:
    wire.request("GET /livez", more="Connection: close\n")
    assert (await wire.answer())[1]["connection"] == "close"
    assert await wire.closed()


@pytest.mark.parametrize(
    "line",
    [
        "GET /api/v1/namespaces/default",
        "GET /api/v1/namespaces/%64efault",
        "GET /api/v1/namespaces/default?pretty=false&x",
    ],
)
async def test_path_and_query_are_read(wire: Wire, line: str) -> None:
    wire.request(line)
    assert json.loads((await wire.answer())[2])["metadata"]["name"] == "default"


async def test_chunked_body_and_what_follows_it_are_served(wire: Wire) -> None:
    body = config_map("chunked")
    wire.request(f"POST {PATH}", more="Transfer-Encoding: chunked\n")
    wire.writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    assert (await wire.answer())[0] == 201
    wire.request(f"GET {PATH}/chunked")
    assert (await wire.answer())[0] == 200


async def test_client_that_waits_to_be_asked_for_its_body_is_asked(wire: Wire) -> None:
    body = config_map("expected")
    wire.request(f"POST {PATH}", more=f"Expect: 100-continue\nContent-Length: {len(body)}\n")
    async with asyncio.timeout(10):
        assert b"100 Continue" in await wire.reader.readuntil(b"\r\n\r\n")
    wire.writer.write(body)
    assert (await wire.answer())[0] == 201


@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n folded: x",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\ncontent-length: 1",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: \xb2",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n folded",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 2",
        b"GET /livez HTTP/1.1\r\nHost: localhost\nX: y",
        b"GET /livez HTTP/1.1\r\nHo st: localhost",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: \x01",
        b"GET http://other/livez HTTP/1.1\r\nHost: localhost",
        b"GET //other/livez HTTP/1.1\r\nHost: localhost",
        b"GET /livez#x HTTP/1.1\r\nHost: localhost",
        b"GET /livez HTTP/1.0\r\nHost: localhost",
        b"GET  /livez HTTP/1.1\r\nHost: localhost",
        b"BREW /livez HTTP/1.1\r\nHost: localhost",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: \xff",
    ],
)
def test_unusual_heads_are_not_for_the_short_way(head: bytes) -> None:
    heads = Heads()
    assert heads.read(head) is None
    assert heads.read(b"GET /livez HTTP/1.1\r\nHost: localhost") is not None
    assert heads.read(head) is None


def test_plain_head_is_read() -> None:
    lines = b"POST /a/b?c=d HTTP/1.1\r\nHost:x \r\nAccept: a\r\nACCEPT:\tb\r\n%b\r\nX-Empty:"
    heads = Heads()
    for given, length in ((b"Content-Length: 12", 12), (b"Content-Length: 7", 7), (b"content-length:9", 9)):
        head = heads.read(lines % given)
        assert head is not None
        assert (head.method, head.path, head.query, head.length, head.closes) == ("POST", "/a/b", "c=d", length, False)
        assert head.headers == {"host": "x", "accept": "a\nb", "content-length": str(length), "x-empty": ""}


def test_headers_of_one_request_are_not_those_of_the_next() -> None:
    heads = Heads()
    first = heads.read(b"GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3")
    assert first is not None
    first.headers["x"] = "changed"
    second = heads.read(b"GET /b HTTP/1.1\r\nHost: x")
    third = heads.read(b"GET /b HTTP/1.1\r\nHost: x\r\nConnection: close")
    assert second is not None
    assert third is not None
    assert (second.path, second.length, second.headers) == ("/b", 0, {"host": "x"})
    assert (second.closes, third.closes) == (False, True)


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01" * 100 + b"\r\n\r\n", b"A" * 70_000, b"\r\n\r\n\r\n\r\n", b"\0" * 9 + b"\r\n\r\n"]
)
async def test_junk_ends_its_connection_only(wire: Wire, junk: bytes) -> None:
    wire.writer.write(junk)
    wire.writer.write_eof() if wire.writer.can_write_eof() else wire.writer.close()
    await wire.open()
    wire.request("GET /livez")
    assert (await wire.answer())[::2] == (200, b"ok")


async def test_watch_ends_when_its_client_goes_and_when_it_is_over(wire: Wire) -> None:
    wire.request("GET /api/v1/namespaces?watch=true&timeoutSeconds=1")
    async with asyncio.timeout(10):
        assert b"chunked" in await wire.reader.readuntil(b"\r\n\r\n")
        await wire.reader.readuntil(b"ADDED")
        await wire.reader.readuntil(b"0\r\n\r\n")
    wire.request("GET /api/v1/namespaces?watch=true")
    await wire.reader.readuntil(b"ADDED")
    wire.writer.transport.abort()
    async with asyncio.timeout(10):
        while len(wire.server.watches):
            await asyncio.sleep(0.005)


async def test_body_that_never_comes_ends_the_connection(wire: Wire) -> None:
    wire.request(f"POST {PATH}", more="Content-Length: 100\n")
    connection = await _connection(wire)
    connection.check_time(asyncio.get_running_loop().time() + BODY_SECONDS + 1)
    assert await wire.closed()


async def test_request_that_takes_too_long_is_told_so(wire: Wire) -> None:
    wire.server.faults.add(delay=3600.0)
    wire.request("GET /api/v1/namespaces/default")
    connection = await _connection(wire)
    async with asyncio.timeout(10):
        while not wire.server.journal.under_way:
            await asyncio.sleep(0.005)
    connection.check_time(asyncio.get_running_loop().time() + REQUEST_SECONDS + 1)
    status, _, body = await wire.answer()
    assert (status, json.loads(body)["reason"]) == (504, "Timeout")
    wire.server.faults.clear()
    wire.request("GET /api/v1/namespaces/default")
    assert (await wire.answer())[0] == 200


async def test_web_socket_is_opened_and_echoes() -> None:
    async def run(socket: WebSocket) -> None:
        async for message in socket.messages():
            await socket.send(message)

    async def handle(_: Request) -> Reply:
        return Reply(101, upgrade=Upgrade(("v5.channel.k8s.io",), run))

    identity = Identity(None, utc_now)
    door = Door(handle, identity, "127.0.0.1", 0, ())
    url = await door.open()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=identity.certificate))
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.ws_connect(url, protocols=["v5.channel.k8s.io"]) as socket:
                await socket.send_bytes(b"hello")
                assert (await socket.receive_bytes(timeout=10), socket.protocol) == (b"hello", "v5.channel.k8s.io")
            async with session.get(url) as response:
                assert (response.status, (await response.json())["message"]) == (400, "Upgrade request required")
    finally:
        await door.close()


async def _connection(wire: Wire) -> Connection:
    """The server's side of the connection, once it got something."""
    door = wire.server._door
    assert door is not None
    async with asyncio.timeout(10):
        while not door._connections:
            await asyncio.sleep(0.005)
        connection = next(iter(door._connections))
        while connection._begun is None and connection._task is None:
            await asyncio.sleep(0.005)
    return connection
