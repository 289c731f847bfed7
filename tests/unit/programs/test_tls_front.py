"""TLS in front of a server: uploads of unknown length get one, PostgreSQL's clients ask first, a renewed certificate is used at once."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from modelyard.kube.times import utc_now
from modelyard.programs import tls_front
from modelyard.runtime.tls.certificates import issue, make_ca
from modelyard.runtime.tls.pairs import Pair

HOST = "127.0.0.1"
CA = make_ca(utc_now())
TRUST = ssl.create_default_context(cadata=CA.certificate.decode())


def write(directory: Path, pair: Pair) -> tuple[str, str]:
    (directory / "public.crt").write_bytes(pair.certificate)
    (directory / "private.key").write_bytes(pair.key)
    return str(directory / "public.crt"), str(directory / "private.key")


@asynccontextmanager
async def front(
    directory: Path, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A front with a server behind it that notes what it was asked."""
    asked: list[bytes] = []

    async def behind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        asked.append(head + await reader.readexactly(length))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(behind, directory / "s3")
    files = write(directory, issue(CA, [HOST], utc_now()))
    async with (
        server,
        tls_front.serving(
            "http", HOST, 0, *files, lambda: asyncio.open_unix_connection(directory / "s3"), 0.01
        ) as port,
    ):
        yield port, asked


async def ask(port: int, *pieces: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=TRUST, server_hostname=HOST)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


async def test_an_upload_that_does_not_say_its_length_gets_one(tmp_path: Path) -> None:
    head = (
        b"PUT /b/k HTTP/1.1\r\nHost: s3\r\nTransfer-Encoding: chunked\r\nX-Amz-Trailer: x-amz-checksum-crc32\r\n"
        b"Expect: 100-continue\r\n\r\n"
    )
    body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"
    async with front(tmp_path) as (port, asked):
        answer = await ask(
            port, head, b"%x\r\n%s\r\n" % (10, body[:10]), b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - 10, body[10:])
        )
    assert answer == b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    (seen,) = asked
    lines, _, sent = seen.partition(b"\r\n\r\n")
    assert sent == body, "what the client signed is not touched"
    assert lines.split(b"\r\n") == [
        b"PUT /b/k HTTP/1.1", b"Host: s3", b"X-Amz-Trailer: x-amz-checksum-crc32", b"Connection: close",
        b"Content-Length: %d" % len(body),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [0, 3, 9 << 20], ids=["empty", "small", "larger than memory"])
async def test_an_upload_that_says_its_length_keeps_it(tmp_path: Path, size: int) -> None:
    async with front(tmp_path) as (port, asked):
        answer = await ask(port, b"PUT /b/k HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size, b"x" * size)
    assert answer.endswith(b"ok")
    assert asked[0].endswith(b"Content-Length: %d\r\n\r\n" % size + b"x" * size)


async def test_a_request_without_a_body_has_none_behind_either(tmp_path: Path) -> None:
    async with front(tmp_path) as (port, asked):
        await ask(port, b"GET /b?list-type=2 HTTP/1.1\r\nHost: s3\r\n\r\n")
    assert asked == [b"GET /b?list-type=2 HTTP/1.1\r\nHost: s3\r\nConnection: close\r\n\r\n"]


@pytest.mark.parametrize("line", [b"Content-Length: many", b"Transfer-Encoding: chunked"])
async def test_what_cannot_be_read_is_refused(tmp_path: Path, line: bytes) -> None:
    async with front(tmp_path) as (port, asked):
        answer = await ask(port, b"PUT /b/k HTTP/1.1\r\n" + line + b"\r\n\r\nnothing\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert asked == []


async def test_a_client_of_postgres_asks_for_tls_before_it_says_anything(tmp_path: Path) -> None:
    async def behind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.readexactly(12))
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(behind, tmp_path / "s")
    files = write(tmp_path, issue(CA, [HOST], utc_now()))
    upstream = partial(asyncio.open_unix_connection, tmp_path / "s")
    async with server, tls_front.serving("postgres", HOST, 0, *files, upstream) as port:
        for asked in (b"", struct.pack("!II", 8, 80877104)):
            reader, writer = await asyncio.open_connection(HOST, port)
            if asked:
                writer.write(asked)
                assert await reader.readexactly(1) == b"N", "Kerberos is not offered"
            writer.write(struct.pack("!II", 8, 80877103))
            assert await reader.readexactly(1) == b"S"
            await writer.start_tls(TRUST, server_hostname=HOST)
            writer.write(b"a startup..?")
            assert await reader.read() == b"heard a startup..?"
            writer.close()
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"in the clear")
        assert await reader.read() == b"heard in the clear"
        writer.close()


async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    async with front(tmp_path) as (port, _):
        renewed = issue(CA, [HOST, "renewed.example.com"], utc_now())
        write(tmp_path, renewed)
        async with asyncio.timeout(10):
            while True:
                _, writer = await asyncio.open_connection(HOST, port, ssl=TRUST, server_hostname=HOST)
                names = writer.get_extra_info("peercert")["subjectAltName"]
                writer.close()
                if ("DNS", "renewed.example.com") in names:
                    return
                await asyncio.sleep(0.01)
