"""Clumsy and hostile clients: each gets a sentence, and the server goes on for everybody else."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import signal
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import pytest
from aiohttp import web

from modelyard.programs.database import Source
from modelyard.programs.filter_query import pattern_regex
from modelyard.programs.paging import Token
from modelyard.programs.registry.process import Config, Server
from modelyard.programs.web import Cors, JsonServer, answering, read_body
from tests.unit.programs.databases import DatabaseServer
from tests.unit.programs.registry.conftest import Api
from tests.unit.programs.registry.test_process import started

MODELS = "/registered_models"
ASTRAL = "\N{GRINNING FACE}"


async def raw(api: Api, *parts: bytes) -> bytes:
    """What the server answers to these very bytes."""
    url = urlsplit(api.address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def text(value: str) -> dict[str, Any]:
    return {"metadataType": "MetadataStringValue", "string_value": value}


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"name":"m","customProperties":' + b'{"a":' * 100_000,
        b'{"name":"m","x":' + b"9" * 5000 + b"}",
        b'{"name":"m","customProperties":{"s":{"metadataType":"MetadataStructValue","struct_value":"'
        + base64.b64encode(b'{"a":' * 50_000)
        + b'"}}}',
        b"\xef\xbb\xbf{}",
        '{"name": "m"}'.encode("utf-16"),
        b'{"name": "\xff"}',
        b'{"Name": "m"}',
        b"null",
        b'"m"',
        b"0",
    ],
)
async def test_bodies_that_are_no_bodies(api: Api, body: bytes) -> None:
    answer = await api.post(MODELS, raw=body)
    assert (answer.status, answer.body["code"]) == (400, "Bad Request")
    assert len(answer.message) < 500
    assert (await api.post(MODELS, {"name": "m"})).status == 201


async def test_a_long_description_is_kept_whole(api: Api) -> None:
    """One that just fits: databases have limits of their own for a statement."""
    long = ASTRAL * (3 * 2**20)
    made = await api.made(MODELS, name="m", description=long, customProperties={"k": text("x" * 2**20)})
    assert made["description"] == long
    path = f"{MODELS}/{made['id']}"
    assert (await api.patch(path, {"owner": "ann"})).body["description"] == long
    assert await api.filtered(MODELS, f"description LIKE '{ASTRAL}%' AND k LIKE 'xx%'") == ["m"]
    assert (await api.get(MODELS)).body["items"][0]["description"] == long


async def test_what_mysql_takes_in_no_statement_is_too_large(mysql_server: DatabaseServer) -> None:
    """It hangs up on such a statement, which must not look like an outage."""
    server = Server(Config("127.0.0.1", 0, Source("mysql", mysql_server.dsn), Cors()))
    await server.start()
    await server.connect()
    try:
        async with aiohttp.ClientSession() as client:
            api = Api(server.address, client, "mysql")
            answer = await api.post(MODELS, {"name": "m", "description": "\\" * (7 * 2**20)})
            assert (answer.status, "max_allowed_packet" in answer.message) == (413, True)
            assert (await api.get(MODELS)).status == 200
    finally:
        await server.stop()


async def test_a_client_that_stops_sending_its_body_is_not_waited_for() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(await read_body(request, pause=0.05))

    runner = web.ServerRunner(JsonServer(answering(handler), lingering_time=0.1))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        writer.write(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"name"')
        async with asyncio.timeout(30):
            assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()
    finally:
        await runner.cleanup()


async def test_many_custom_properties_are_kept(api: Api) -> None:
    custom = {f"k{number}": text(str(number)) for number in range(20_000)}
    made = await api.made(MODELS, name="m", customProperties=custom)
    assert made["customProperties"] == custom
    assert await api.filtered(MODELS, "k19999 = '19999' AND k0 != 'x'") == ["m"]


async def test_longest_names_of_the_longest_characters(api: Api) -> None:
    name = ASTRAL * 255
    made = await api.made(MODELS, name=name, externalId=name, customProperties={name: text(ASTRAL * 1000)})
    assert (await api.get("/registered_model", name=name)).body == made
    assert (await api.get("/registered_model", externalId=name)).body == made
    assert await api.filtered(MODELS, f"`{name}` = '{ASTRAL * 1000}' AND name = '{name}'") == [name]
    assert await api.filtered(MODELS, f"`{name}` = '{ASTRAL * 999}x'") == []


@pytest.mark.parametrize(
    "name", ["a\nb", "\u0085", "\u2028", "\u202e", "a\tb", " ", "'; DROP TABLE x; --", "%", "?", "%s", "{}", "\\"]
)
async def test_odd_names_are_names(api: Api, name: str) -> None:
    made = await api.made(MODELS, name=name, customProperties={name: text(name)})
    assert (await api.get("/registered_model", name=name)).body == made
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    if "`" not in name:
        assert await api.filtered(MODELS, f"name = '{quoted}' AND `{quoted}` = '{quoted}'") == [name]


@pytest.mark.parametrize(
    "value", [1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -0.0, 0.1, 1e16, 10**300, 2**63, -(2**64) - 1]
)
async def test_numbers_at_their_limits_come_back(api: Api, value: float) -> None:
    version = await a_version(api)
    path = f"/model_versions/{version}/artifacts"
    answer = await api.post(path, {"artifactType": "metric", "name": "n", "value": value})
    assert answer.status == 201, answer.body
    assert answer.body["value"] == value
    double = {"d": {"metadataType": "MetadataDoubleValue", "double_value": value}}
    assert (await api.made(MODELS, name="d", customProperties=double))["customProperties"] == double
    assert (await api.get(path)).body["items"][0]["value"] == value
    assert await api.filtered(MODELS, f"d = {value!r}") == ["d"]
    assert await api.filtered(path, f"value >= {value!r} AND value <= {value!r}") == ["n"]


async def a_version(api: Api) -> str:
    model = await api.made(MODELS, name="of a version")
    return str((await api.made("/model_versions", name="v", registeredModelId=model["id"]))["id"])


async def test_invented_tokens_are_refused(api: Api) -> None:
    for name in ("a", "b"):
        await api.made(MODELS, name=name)
    token = (await api.get(MODELS, pageSize=1)).body["nextPageToken"]
    digest = json.loads(base64.urlsafe_b64decode(token))[0]
    for after in ([2**70, 2**70], [-(2**80), 1], [1], ["1", "2"], [None, None], [1.5, 2], [True, True], [[1], 1]):
        made = base64.urlsafe_b64encode(json.dumps([digest, after]).encode()).decode()
        answer = await api.get(MODELS, pageSize=1, nextPageToken=made)
        assert (answer.status, "invalid nextPageToken" in answer.message) == (400, True), after
    assert Token(digest, (1, 2)).digest == digest


@pytest.mark.parametrize(
    "steps", [",".join(["123456789012345678"] * 2000), "1,,2", "999999999999999999999", "1 2", "+1", "1.5", "١"]
)
async def test_odd_steps(api: Api, steps: str) -> None:
    answer = await api.get("/experiment_runs/metric_history", stepIds=steps)
    assert answer.status in (200, 400), answer


async def test_words_are_compared_without_case_in_every_script(api: Api) -> None:
    for name in ("ÄPFEL", "Čaj", "ΣΟΦΙΑ", "straße"):
        await api.made(MODELS, name=name)
    assert await api.filtered(MODELS, "name ILIKE 'äp%'") == ["ÄPFEL"]
    assert await api.filtered(MODELS, "name ILIKE '%ČAJ'") == ["Čaj"]
    assert await api.filtered(MODELS, "name ILIKE 'apfel'") == []


async def test_a_pattern_of_many_wild_cards_is_answered(api: Api) -> None:
    """A careless matcher needs longer than the age of the universe, and keeps every other request waiting."""
    await api.made(MODELS, name="m", description="ä" + "a" * 5000)
    for operator in ("LIKE", "ILIKE"):
        assert await api.filtered(MODELS, f"description {operator} 'ä{'%a' * 60}%b'") == []
        assert await api.filtered(MODELS, f"description {operator} 'ä{'%a' * 60}%'") == ["m"]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a%b%c", "aXbXbc", "aXcXb"),
        ("%ab_%", "xabc", "xab"),
        ("%", "", None),
        ("a", "a", "ab"),
        ("%a", "aa", "ab"),
        ("a%a", "aa", "a"),
    ],
)
def test_patterns_match_as_in_databases(pattern: str, yes: str, no: str | None) -> None:
    regex = pattern_regex(pattern, ignore_case=False)
    assert regex.fullmatch(yes)
    assert no is None or not regex.fullmatch(no)


PATH = "/api/model_registry/v1alpha3/registered_models"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /a b c HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET {PATH}?name=ä HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        post(PATH, b"", "Transfer-Encoding: chunked"),
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        post(PATH, b"not gzip", "Content-Encoding: gzip"),
        post(PATH, gzip.compress(b'{"name":"m"}')[:12], "Content-Encoding: gzip"),
        f"BREW {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
        f"HEAD {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
    ],
)
async def test_what_is_hardly_http_gets_a_client_error(
    api: Api, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await raw(api, request_bytes)
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer
    _, _, body = answer.partition(b"\r\n\r\n")
    if b"HEAD" in request_bytes[:4]:
        assert not body
    else:
        assert set(json.loads(body)) == {"code", "message"}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert (await api.get(MODELS)).status == 200


async def test_a_compressed_bomb_is_too_large(api: Api) -> None:
    bomb = gzip.compress(b" " * (64 * 2**20))
    answer = await raw(api, post(PATH, bomb, "Content-Encoding: gzip"))
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_failure(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    url = urlsplit(api.address)
    for head in ("Content-Length: 100", "Transfer-Encoding: chunked"):
        _, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + b'8\r\n{"name":')
        await writer.drain()
        writer.close()
    assert (await api.get(MODELS)).body["items"] == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(api: Api) -> None:
    """curl does so for every larger body, and waits a second for the answer."""
    url = urlsplit(api.address)
    body = b'{"name": "m"}'
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    lines = [f"POST {PATH} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", "Expect: 100-continue", "", ""]
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(10):
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert await reader.readline() == b"\r\n"
        writer.write(body)
        assert await reader.readline() == b"HTTP/1.1 201 Created\r\n"
    writer.close()


async def test_many_open_connections_keep_nobody_out(api: Api) -> None:
    url = urlsplit(api.address)
    opened = [await asyncio.open_connection(url.hostname, url.port) for _ in range(200)]
    try:
        for number, (_, writer) in enumerate(opened):
            writer.write(
                f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n{'' if number % 2 else chr(13) + chr(10)}".encode()
            )
        for number in range(20):
            assert (await api.post(MODELS, {"name": f"m{number}"})).status == 201
    finally:
        for _, writer in opened:
            writer.close()


async def test_a_page_of_another_site_cannot_write(api: Api) -> None:
    """A browser sends a form of any page to localhost, and the content type is not looked at."""
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site, "Origin": "https://evil.example"}
        async with api.client.post(api.address + PATH, data=b'{"name": "m"}', headers=headers) as answer:
            assert answer.status == 403
            assert "--cors-allowed-origins" in (await answer.json())["message"]
    assert (await api.get(MODELS)).names == []
    async with api.client.post(
        api.address + PATH, data=b'{"name": "m"}', headers={"Sec-Fetch-Site": "same-origin"}
    ) as answer:
        assert answer.status == 201


async def listens(address: str) -> bool:
    url = urlsplit(address)
    try:
        _, writer = await asyncio.open_connection(url.hostname, url.port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


async def test_a_term_signal_lets_a_request_finish(tmp_path: Path) -> None:
    async with started(Source("sqlite", str(tmp_path / "r.db"))) as (api, process):
        url = urlsplit(api.address)
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        body = b'{"name": "m"}'
        writer.write(
            f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        async with asyncio.timeout(30):
            assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
            await reader.readline()
            process.send_signal(signal.SIGTERM)
            while await listens(api.address):
                await asyncio.sleep(0.01)
            writer.write(body)
            assert await reader.readline() == b"HTTP/1.1 201 Created\r\n"
        writer.close()
        assert await asyncio.to_thread(process.wait, 30) == 0


async def test_a_path_with_a_line_break_writes_no_line_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The operator reads the server's last line, and shows it to people."""
    async with started(Source("sqlite", str(tmp_path / "r.db")), "--v=2") as (api, _):
        assert (await api.get("/x%0A{{ALERT}}%20send%20money")).status == 404
    assert not [line for line in capfd.readouterr().err.splitlines() if line.startswith("{{ALERT}}")]


async def test_paths_that_are_not_ours(api: Api) -> None:
    for path in (
        "//registered_models",
        "/registered_models//",
        "/registered_models/../x",
        "/registered_models/1/versions/2",
        "/" + quote(ASTRAL),
    ):
        assert (await api.get(path)).status in (400, 404), path
