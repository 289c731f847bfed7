"""One client's connection: plain HTTP/1.1 requests read and answered with little ado; all others are handed over."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any, Protocol

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.messages import Reply, Request, Upgrade, parse_query
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.sockets.heads import SPDY, Head, Heads, wants_spdy
from modelyard.local.apiserver.storage.store import encode

log = logging.getLogger(__name__)

PIECE = 128 * 1024
"""How many bytes of an answer are written at once."""
MOST_HEADER_BYTES = 64 * 1024
REQUEST_SECONDS = 60.0
BODY_SECONDS = 30.0
IDLE_SECONDS = 3630.0
"""Longer than the proxies in between keep a connection that nobody uses."""
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Keeper(Protocol):
    """What a connection needs of the door it came through."""

    handle: Callable[[Request], Awaitable[Reply]]

    def check_origin(self, host: str, origin: str | None) -> None:
        """Raises a Problem where the server must not be asked under that name, or from that page."""

    def date(self) -> bytes:
        """The time of day, as a header has it."""

    def take_over(self, transport: asyncio.Transport) -> asyncio.Protocol:
        """Who answers what is not plain."""

    def joined(self, connection: Connection) -> None: ...

    def left(self, connection: Connection) -> None: ...

    def holding(self, more: int) -> None:
        """So many bytes came of requests that are not complete."""


class Connection(asyncio.Protocol):
    """Requests one after the other. The task of the one under way is cancelled when the client goes away."""

    __slots__ = (
        "_begun", "_buffer", "_certificate", "_closing", "_head", "_heads", "_host", "_keeper", "_late", "_loop", "_paused", "_remote", "_since", "_size",
        "_task", "_transport", "who",
    )  # fmt: skip

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._begun: bytearray | None = None
        """A request of which some is still on its way."""
        self._heads = Heads()
        self._buffer = b""
        """What came while another request is being answered."""
        self._head: Head | None = None
        """The head of the request that has begun, where that is complete."""
        self._size = 0
        """How many bytes that request takes, with its head."""
        self._task: asyncio.Task[None] | None = None
        self._since = self._loop.time()
        """When what it does now began: reading a request, answering it, or nothing."""
        self._late = False
        self._closing = False
        self._paused: asyncio.Future[None] | None = None
        self._host = ""
        """The name that was last found to be right."""
        self._certificate: bytes | None = None
        self._remote = ""
        self.who = ""
        """Who last proved to be someone on this connection; empty: nobody did."""

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        tls = transport.get_extra_info("ssl_object")
        self._certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        peer = transport.get_extra_info("peername")
        self._remote = str(peer[0]) if peer else ""
        plain = transport.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._keeper.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._keeper.left(self)
        self._resume()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._task is not None:
            # The next request already; it has to wait.
            self._buffer += data
            if len(self._buffer) > PIECE:
                self._transport.pause_reading()
            return
        if self._begun is None:
            self._read(data, 0)
        else:
            seen = len(self._begun)
            self._begun += data
            self._keeper.holding(len(data))
            self._read(self._begun, seen)

    def pause_writing(self) -> None:
        self._paused = self._loop.create_future()

    def resume_writing(self) -> None:
        self._resume()

    def _resume(self) -> None:
        paused, self._paused = self._paused, None
        if paused is not None and not paused.done():
            paused.set_result(None)

    # Reading.

    def _read(self, data: bytes | bytearray, seen: int) -> None:
        """Starts the request that the data begins with, once all of it is there; so much of it was looked at before."""
        head = self._head
        if head is None:
            end = data.find(b"\r\n\r\n", max(seen - 3, 0), MOST_HEADER_BYTES)
            head = self._heads.read(bytes(data[:end])) if end >= 0 else None
            if head is None:
                if end >= 0 or len(data) >= MOST_HEADER_BYTES:
                    self._hand_over(bytes(data))
                else:
                    self._wait(data)
                return
            self._size = end + 4 + head.length
        size = self._size
        if len(data) < size:
            if self._head is None and head.headers.get("expect", "").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._head = head
            self._wait(data)
            return
        body = bytes(data[size - head.length : size]) if head.length else b""
        self._head = self._begun = None
        self._buffer = bytes(data[size:])
        self._since = self._loop.time()
        request = Request(
            head.method, head.path, parse_query(head.query), head.headers, body, None, self._certificate, self._remote
        )
        self._task = self._loop.create_task(self._answer(request, head.closes))

    def _wait(self, data: bytes | bytearray) -> None:
        if self._begun is None:
            self._begun = bytearray(data)
            self._since = self._loop.time()
            self._keeper.holding(len(data))

    def _hand_over(self, buffer: bytes) -> None:
        self._closing = True
        self._keeper.left(self)
        other = self._keeper.take_over(self._transport)
        self._transport.set_protocol(other)
        other.connection_made(self._transport)
        other.data_received(buffer)

    # Answering.

    async def _answer(self, request: Request, closes: bool) -> None:
        try:
            reply = await self._reply(request)
            if request.asked_by:
                self.who = request.asked_by
            if reply.upgrade is not None:
                await self._speak_spdy(request, reply.upgrade)
                return
            await self._send(request, reply, closes)
        except asyncio.CancelledError:
            # Also of an answer that was cut off: whoever reads must not take it for a whole one.
            self._transport.abort()
            raise
        except Exception:
            log.exception("the answer to %s %s was cut off", request.method, request.path)
            self._transport.abort()
            return
        finally:
            self._task = None
        if closes or self._closing:
            self._transport.close()
            return
        self._since = self._loop.time()
        if self._buffer:
            self._transport.resume_reading()
            buffer, self._buffer = self._buffer, b""
            self._read(buffer, 0)

    async def _reply(self, request: Request) -> Reply:
        try:
            host, origin = request.headers.get("host", ""), request.headers.get("origin")
            if origin is not None or host != self._host:
                self._keeper.check_origin(host, origin)
                self._host = host
            reply = await self._keeper.handle(request)
            if reply.upgrade is not None and not wants_spdy(request.headers):
                raise problems.bad_request("Upgrade request required")
            return reply
        except Problem as problem:
            return Reply(problem.code, encode(problem.status), headers=problem.headers)
        except asyncio.CancelledError:
            if not self._late:
                raise
            self._late = False
            late = problems.timeout("request did not complete within the allotted timeout")
            return Reply(late.code, encode(late.status))

    async def _send(self, request: Request, reply: Reply, closes: bool) -> None:
        body = reply.body
        parts = [
            _STATUS_LINES.get(reply.status) or b"HTTP/1.1 %d\r\n" % reply.status,
            b"Content-Type: ", reply.content_type.encode(),
            b"\r\nX-Content-Type-Options: nosniff\r\n",
            self._keeper.date(),
        ]  # fmt: skip
        if not any(name == "Cache-Control" for name, _ in reply.headers):
            parts.append(b"Cache-Control: no-cache, private\r\n")
        for name, value in reply.headers:
            parts.append(f"{name}: {value}\r\n".encode())
        if closes:
            parts.append(b"Connection: close\r\n")
        if isinstance(body, bytes):
            parts.append(b"Content-Length: %d\r\n\r\n" % len(body))
            if request.method == "HEAD":
                self._transport.write(b"".join(parts))
            elif len(body) <= PIECE:
                parts.append(body)
                self._transport.write(b"".join(parts))
            else:
                self._transport.write(b"".join(parts))
                await self._write_pieces(body)
            return
        parts.append(b"Transfer-Encoding: chunked\r\n\r\n")
        self._transport.write(b"".join(parts))
        await self._stream(body)

    async def _speak_spdy(self, request: Request, upgrade: Upgrade) -> None:
        """Gives the connection to another protocol, until that is done with it."""
        offered = [
            word.strip() for value in request.header_values("x-stream-protocol-version") for word in value.split(",")
        ]
        protocol = next((word for word in offered if word in upgrade.spdy_protocols), None)
        if protocol is None or upgrade.run_spdy is None:
            accepted = "".join(f"X-Accepted-Stream-Protocol-Versions: {name}\r\n" for name in upgrade.spdy_protocols)
            head = f"HTTP/1.1 403 Forbidden\r\n{accepted}Connection: close\r\nContent-Length: 0\r\n\r\n"
            self._transport.write(head.encode())
            self._transport.close()
            return
        reader = asyncio.StreamReader()
        other = asyncio.StreamReaderProtocol(reader)
        self._since, self._closing = float("inf"), True
        self._transport.set_protocol(other)
        other.connection_made(self._transport)
        if self._buffer:
            reader.feed_data(self._buffer)
        self._transport.resume_reading()
        writer = asyncio.StreamWriter(self._transport, other, reader, self._loop)
        head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {SPDY}\r\n"
        writer.write(f"{head}X-Stream-Protocol-Version: {protocol}\r\n\r\n".encode())
        try:
            await upgrade.run_spdy(_Bytes(reader, writer), protocol)
        finally:
            self._keeper.left(self)
            self._transport.close()

    async def _write_pieces(self, body: bytes) -> None:
        # A connection keeps the buffers of the largest piece that it ever encrypted.
        for start in range(0, len(body), PIECE):
            if self._paused is not None:
                await self._paused
            self._transport.write(body[start : start + PIECE])

    async def _stream(self, body: AsyncIterator[bytes]) -> None:
        self._since = float("inf")
        try:
            async for chunk in body:
                if chunk:
                    if self._paused is not None:
                        await self._paused
                    self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self._transport.write(b"0\r\n\r\n")
        finally:
            close: Callable[[], Coroutine[Any, Any, None]] | None = getattr(body, "aclose", None)
            if close is not None:
                await close()

    # What the door calls.

    def check_time(self, now: float) -> None:
        """Ends what takes too long."""
        spent = now - self._since
        if self._task is not None:
            if spent > REQUEST_SECONDS and not self._late:
                self._late = True
                self._task.cancel()
        elif spent > (BODY_SECONDS if self._begun is not None or not self.who else IDLE_SECONDS):
            self._transport.abort()

    @property
    def held(self) -> int:
        """How many bytes of a request are here that is not complete."""
        return len(self._begun) if self._begun is not None and not self._closing else 0

    @property
    def since(self) -> float:
        """When it last began something; what is being answered counts as just begun."""
        return self._since if self._task is None else self._loop.time()

    def abort(self) -> None:
        self._closing, self._begun = True, None
        self._transport.abort()

    async def close(self, seconds: float) -> None:
        """Lets the answer under way get ready, for so many seconds."""
        self._closing = True
        task = self._task
        if task is not None:
            await asyncio.wait([task], timeout=seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._transport.close()


class _Bytes:
    """A connection without frames (`requests.Duplex`)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes:
        try:
            return await self._reader.read(PIECE)
        except ConnectionError:
            return b""

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
