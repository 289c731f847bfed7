"""The door for sockets: HTTPS by aiohttp, with limits on size and time and checks of Host and Origin."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web

from modelyard.local.apiserver import problems
from modelyard.local.apiserver.bodies import MOST_BYTES
from modelyard.local.apiserver.problems import Problem
from modelyard.local.apiserver.requests import JSON, Reply, Request, Upgrade, parse_query
from modelyard.local.apiserver.store import encode
from modelyard.local.apiserver.tls import Identity

log = logging.getLogger(__name__)

_PIECE = 128 * 1024
"""How many bytes of an answer are written at once."""
_REQUEST_SECONDS = 60.0
_BODY_SECONDS = 30.0
_MOST_HEADER_BYTES = 64 * 1024
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_NAMES = frozenset(("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"))


class Door:
    """Listens on one address and hands requests on."""

    def __init__(
        self,
        handle: Callable[[Request], Awaitable[Reply]],
        identity: Identity,
        host: str,
        port: int,
        names: Sequence[str],
    ) -> None:
        self._handle = handle
        self._identity = identity
        self._host = host
        self._port = port
        self._names = frozenset(name.lower() for name in (*names, host)) | _NAMES
        self._runner: web.ServerRunner | None = None

    async def open(self) -> str:
        server = web.Server(
            self._serve,
            handler_cancellation=True,
            access_log=None,
            max_field_size=_MOST_HEADER_BYTES,
            max_line_size=_MOST_HEADER_BYTES,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        names = [name for name in self._names if name not in ("0.0.0.0", "::")]
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._identity.context(sorted(names)))
        await site.start()
        host, port = self.address
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return host, port

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, raw: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check_origin(raw)
            request = await self._read(raw)
            if request.method not in _METHODS:
                raise problems.method_not_served()
            async with asyncio.timeout(_REQUEST_SECONDS):
                reply = await self._handle(request)
        except Problem as problem:
            reply = Reply(problem.code, encode(problem.status), headers=problem.headers)
        except TimeoutError:
            late = problems.timeout("request did not complete within the allotted timeout")
            reply = Reply(late.code, encode(late.status))
        return await self._send(raw, reply)

    def _check_origin(self, raw: web.BaseRequest) -> None:
        """A web page that a user visits must not reach this server through his browser."""
        host = _host_of(raw.headers.get("Host", ""))
        if host is None or not (host in self._names or _is_local(host)):
            raise problems.forbidden(
                None,
                "",
                f"this server is not known as {problems.go_quote(raw.headers.get('Host', ''))}: use its address",
            )
        origin = raw.headers.get("Origin")
        if origin is not None:
            origin_host = urlsplit(origin).hostname or ""
            if not (origin_host in self._names or _is_local(origin_host)):
                raise problems.forbidden(None, "", f"requests from {problems.go_quote(origin)} are not served")

    async def _read(self, raw: web.BaseRequest) -> Request:
        body = b""
        if raw.body_exists and "upgrade" not in raw.headers.get("Connection", "").lower():
            length = raw.content_length
            if length is not None and length > MOST_BYTES:
                raise problems.too_large(f"limit is {MOST_BYTES}")
            async with asyncio.timeout(_BODY_SECONDS):
                body = await raw.content.read() if length is not None else await _read_limited(raw)
        transport = raw.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        return Request(
            raw.method, raw.rel_url.path, parse_query(raw.rel_url.raw_query_string),
            {name.lower(): "\n".join(raw.headers.getall(name)) for name in raw.headers}, body, None, certificate, raw.remote or "",
        )  # fmt: skip

    async def _send(self, raw: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        if reply.upgrade is not None:
            return await _upgraded(raw, reply.upgrade)
        body = reply.body
        if isinstance(body, bytes) and (len(body) <= _PIECE or raw.method == "HEAD"):
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
                for start in range(0, len(body), _PIECE):
                    await stream.write(body[start : start + _PIECE])
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
        headers.add(name, value)


async def _read_limited(raw: web.BaseRequest) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in raw.content.iter_any():
        size += len(chunk)
        if size > MOST_BYTES:
            raise problems.too_large(f"limit is {MOST_BYTES}")
        parts.append(chunk)
    return b"".join(parts)


def _host_of(header: str) -> str | None:
    """The host in a Host header, without port and brackets; None where it is no host."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower() or None
    except ValueError:
        return None


def _is_local(host: str) -> bool:
    if host.endswith((".localhost", ".svc", ".svc.cluster.local")):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
