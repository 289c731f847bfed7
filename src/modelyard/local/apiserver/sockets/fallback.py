"""Requests that are not plain: upgrades to web sockets, chunked bodies, odd heads. By aiohttp."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.bodies import MOST_BYTES
from modelyard.local.apiserver.requests.messages import JSON, Reply, Request, Upgrade, parse_query
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.sockets.connections import BODY_SECONDS, MOST_HEADER_BYTES, PIECE, REQUEST_SECONDS
from modelyard.local.apiserver.sockets.heads import METHODS
from modelyard.local.apiserver.storage.store import encode

_MOST_HELD = 64 * 1024 * 1024


class Unusual:
    """Takes over connections whose client asks for more than plain requests."""

    def __init__(
        self, handle: Callable[[Request], Awaitable[Reply]], check_origin: Callable[[str, str | None], None]
    ) -> None:
        self._handle = handle
        self._check_origin = check_origin
        self._held = 0
        """Bytes of bodies that are being read."""
        self._server = web.Server(
            self._serve,
            handler_cancellation=True,
            access_log=None,
            max_field_size=MOST_HEADER_BYTES,
            max_line_size=MOST_HEADER_BYTES,
            # As with Kubernetes, a packed body is not unpacked: nobody has said yet how large it may become.
            auto_decompress=False,
            logger=_quiet_log(),
        )

    def protocol(self) -> asyncio.Protocol:
        return self._server()

    async def close(self, seconds: float) -> None:
        await self._server.shutdown(seconds)

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check_origin(raw.headers.get("Host", ""), raw.headers.get("Origin"))
            request = await self._read(raw)
            if request.method not in METHODS:
                raise problems.method_not_served()
            async with asyncio.timeout(REQUEST_SECONDS):
                reply = await self._handle(request)
        except Problem as problem:
            reply = Reply(problem.code, encode(problem.status), headers=problem.headers)
        except TimeoutError:
            late = problems.timeout("request did not complete within the allotted timeout")
            reply = Reply(late.code, encode(late.status))
        return await self._send(raw, reply)

    async def _read(self, raw: web.BaseRequest) -> Request:
        body = b""
        if raw.body_exists and "upgrade" not in raw.headers.get("Connection", "").lower():
            length = raw.content_length
            if length is not None and length > MOST_BYTES:
                raise problems.too_large(f"limit is {MOST_BYTES}")
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read_limited(raw)
        transport = raw.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        return Request(
            raw.method, raw.rel_url.path, parse_query(raw.rel_url.raw_query_string),
            {name.lower(): _readable("\n".join(raw.headers.getall(name))) for name in raw.headers}, body, None, certificate, raw.remote or "",
        )  # fmt: skip

    async def _read_limited(self, raw: web.BaseRequest) -> bytes:
        """Nobody knows yet who sends it: all of these bodies together are bounded, too."""
        parts: list[bytes] = []
        size = 0
        try:
            async for chunk in raw.content.iter_any():
                size += len(chunk)
                self._held += len(chunk)
                if size > MOST_BYTES or self._held > _MOST_HELD:
                    raise problems.too_large(f"limit is {MOST_BYTES}")
                parts.append(chunk)
        finally:
            self._held -= size
        return b"".join(parts)

    async def _send(self, raw: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        if reply.upgrade is not None:
            return await _upgraded(raw, reply.upgrade)
        body = reply.body
        if isinstance(body, bytes) and (len(body) <= PIECE or raw.method == "HEAD"):
            response = web.Response(body=body, status=reply.status)
            _set_headers(response, reply)
            return response
        stream = web.StreamResponse(status=reply.status)
        _set_headers(stream, reply)
        if isinstance(body, bytes):
            stream.content_length = len(body)
        else:
            stream.enable_chunked_encoding()
        try:
            await stream.prepare(raw)
            if isinstance(body, bytes):
                # In pieces: a connection keeps the buffers of the largest one that it ever encrypted.
                for start in range(0, len(body), PIECE):
                    await stream.write(body[start : start + PIECE])
            else:
                async for chunk in body:
                    await stream.write(chunk)
            await stream.write_eof()
        except (ConnectionResetError, asyncio.CancelledError):
            # The client went away; closing the stream below ends what feeds it.
            if not (raw.transport is None or raw.transport.is_closing()):
                raise
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()
        return stream


def _set_headers(response: web.StreamResponse, reply: Reply) -> None:
    headers = response.headers
    headers["Content-Type"] = reply.content_type
    headers["Cache-Control"] = "no-cache, private"
    headers["X-Content-Type-Options"] = "nosniff"
    for name, value in reply.headers:
        if name == "Cache-Control":
            headers[name] = value
        else:
            headers.add(name, value)


def _quiet_log() -> logging.Logger:
    """What aiohttp tells, but not what a client says wrongly: the client is told, and strangers could fill the log."""
    log = logging.getLogger(f"{__name__}.aiohttp")
    log.filters = [lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))]
    return log


def _readable(text: str) -> str:
    """A header's text, where bytes that are not UTF-8 are replaced: half of a character cannot be written anywhere."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="replace")


class _Socket:
    def __init__(self, response: web.WebSocketResponse) -> None:
        self._response = response

    @property
    def protocol(self) -> str:
        return self._response.ws_protocol or ""

    async def send(self, data: bytes) -> None:
        await self._response.send_bytes(data)

    async def messages(self) -> AsyncIterator[bytes]:
        async for message in self._response:
            if message.type is WSMsgType.BINARY:
                yield message.data
            elif message.type is WSMsgType.TEXT:
                yield message.data.encode()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._response.close(code=code, message=reason.encode()[:120])


async def _upgraded(raw: web.BaseRequest, upgrade: Upgrade) -> web.StreamResponse:
    response = web.WebSocketResponse(protocols=upgrade.protocols, heartbeat=30.0, max_msg_size=4 * MOST_BYTES)
    if not response.can_prepare(raw):
        problem = problems.bad_request("Upgrade request required")
        refused = web.Response(body=encode(problem.status), status=problem.code)
        refused.headers["Content-Type"] = JSON
        return refused
    await response.prepare(raw)
    try:
        await upgrade.run(_Socket(response))
    finally:
        await response.close()
    return response
