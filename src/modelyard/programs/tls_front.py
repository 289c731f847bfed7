"""Speaks TLS in front of a server that cannot, or not as its clients need it: our PostgreSQL is built without, and rclone refuses
uploads that do not say their length, which S3 clients send over TLS.

Standard library only. A renewed certificate is taken without a restart.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TypeAlias

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Upstream: TypeAlias = Callable[[], Awaitable[Streams]]

PIECE = 1 << 16
IN_MEMORY = 8 << 20
"""A larger body of unknown length waits in a file; clients send parts of this size."""
RELOAD = 10.0
_OURS = {"connection", "expect", "transfer-encoding", "content-length"}
"""Headers that the next hop gets from us; no client signs the first three."""


_SSL_REQUEST, _GSS_REQUEST = (struct.pack("!II", 8, code) for code in (80877103, 80877104))
"""How a client of PostgreSQL asks for an encrypted session."""


class BadRequest(Exception):
    """What came is not an HTTP request that we understand."""


async def forward_postgres(client: Streams, upstream: Upstream, context: ssl.SSLContext) -> None:
    """A session: a client asks for TLS before it says anything else. One that does not is served as it is, as `ssl=on` has it."""
    reader, writer = client
    try:
        first = await reader.readexactly(len(_SSL_REQUEST))
        if first == _GSS_REQUEST:
            writer.write(b"N")
            first = await reader.readexactly(len(_SSL_REQUEST))
        if first == _SSL_REQUEST:
            writer.write(b"S")
            await writer.start_tls(context)
            first = b""
        answers, requests = await upstream()
        requests.write(first)
        await asyncio.gather(_pump(reader, requests), _pump(answers, writer))
    except (OSError, asyncio.IncompleteReadError):
        pass  # The client has gone, or was none: a probe only looks whether the port is open.
    finally:
        writer.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Until one of them has gone; then the other goes too."""
    try:
        while piece := await source.read(PIECE):
            target.write(piece)
            await target.drain()
    finally:
        target.close()


async def forward_http(client: Streams, upstream: Upstream) -> None:
    """One request of a connection, and the end of it: the answer says so, and clients open another."""
    reader, writer = client
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        given = dict(headers)
        if given.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as spool:
            length = await body_of(reader, given, spool)
            kept = [line for line, (name, _) in zip(lines, headers, strict=True) if name not in _OURS]
            kept += ["Connection: close", *([f"Content-Length: {length}"] if length is not None else [])]
            answers, requests = await upstream()
            try:
                with suppress(ConnectionError):  # It may answer before it has read all.
                    requests.write("\r\n".join([first, *kept, "", ""]).encode("latin-1"))
                    while piece := spool.read(PIECE):
                        requests.write(piece)
                        await requests.drain()
                while piece := await answers.read(PIECE):
                    writer.write(piece)
                    await writer.drain()
            finally:
                requests.close()
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
        pass  # The client has gone, or was none: a probe only looks whether the port is open.
    except (BadRequest, OSError) as error:
        text = f"{error}\n".encode()
        status = "400 Bad Request" if isinstance(error, BadRequest) else "502 Bad Gateway"
        writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
    finally:
        writer.close()


async def body_of(reader: asyncio.StreamReader, headers: dict[str, str], spool: IO[bytes]) -> int | None:
    """Reads a request's body into the spool, which stands at its beginning then; None: it has none."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        length = 0
        while size := await _size_of_chunk(reader):
            await _copy(reader, size, spool)
            await reader.readexactly(2)
            length += size
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    elif "content-length" in headers:
        if not headers["content-length"].isdecimal():
            raise BadRequest(f"Content-Length {headers['content-length']!r} is not a number")
        length = int(headers["content-length"])
        await _copy(reader, length, spool)
    else:
        return None
    spool.seek(0)
    return length


async def _size_of_chunk(reader: asyncio.StreamReader) -> int:
    line = await reader.readuntil(b"\r\n")
    try:
        return int(line.split(b";")[0], 16)
    except ValueError:
        raise BadRequest(f"{line!r} is not a size of a chunk") from None


async def _copy(reader: asyncio.StreamReader, size: int, spool: IO[bytes]) -> None:
    while size:
        piece = await reader.read(min(size, PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        spool.write(piece)
        size -= len(piece)


async def keep_fresh(context: ssl.SSLContext, certificate: str, key: str, interval: float = RELOAD) -> None:
    """Loads the certificate again when its files change, for the connections that come then."""
    loaded = b""
    while True:
        with suppress(OSError):  # Between two writes; looked at again.
            loaded = load(context, certificate, key, loaded)
        await asyncio.sleep(interval)


def load(context: ssl.SSLContext, certificate: str, key: str, loaded: bytes = b"") -> bytes:
    """Takes the files if they are others than what was loaded; gives what is loaded then."""
    found = Path(certificate).read_bytes() + Path(key).read_bytes()
    if found != loaded:
        context.load_cert_chain(certificate, key)
    return found


@asynccontextmanager
async def serving(
    protocol: str, host: str, port: int, certificate: str, key: str, upstream: Upstream, interval: float = RELOAD
) -> AsyncIterator[int]:
    """Listens with this certificate, and gives the port; what is asked there goes to the server behind."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, certificate, key)

    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward_http((reader, writer), upstream)

    async def postgres(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward_postgres((reader, writer), upstream, context)

    if protocol == "http":
        server = await asyncio.start_server(http, host, port, ssl=context)
    else:
        server = await asyncio.start_server(postgres, host, port)
    fresh = asyncio.create_task(keep_fresh(context, certificate, key, interval))
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        fresh.cancel()
        server.close()


async def run(protocol: str, host: str, port: int, certificate: str, key: str, behind: str, argv: list[str]) -> int:
    """Runs the server behind for as long as it lives; its end is ours."""
    # What was handed down to this process (a lock on the data) is the server's, too.
    process = await asyncio.create_subprocess_exec(*argv, close_fds=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, process.send_signal, number)

    async def upstream() -> Streams:
        path = behind.removeprefix("unix://")
        if path != behind:
            return await asyncio.open_unix_connection(path)
        address, _, number = behind.rpartition(":")
        return await asyncio.open_connection(address, int(number))

    while process.returncode is None:
        try:
            _, probe = await upstream()
        except OSError:
            await asyncio.sleep(0.05)
            continue
        probe.close()
        async with serving(protocol, host, port, certificate, key, upstream):
            await process.wait()
    return process.returncode


if __name__ == "__main__":
    protocol, address, number, certificate, key, behind, *argv = sys.argv[1:]
    raise SystemExit(asyncio.run(run(protocol, address, int(number), certificate, key, behind, argv)))
