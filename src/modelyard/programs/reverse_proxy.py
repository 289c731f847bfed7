"""Passes an HTTP request on to another server: bodies streamed both ways, WebSockets too. Used by gateway and proxies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

import aiohttp
from aiohttp import WSMsgType, web
from multidict import CIMultiDict
from yarl import URL

_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    "proxy-connection",
}  # fmt: skip
_ORIGIN_HEADERS = ("forwarded", "x-forwarded-", "x-real-ip", "x-original-", "x-remote-", "x-auth-request-")
"""What backends believe about a caller. The names end where a longer one may begin."""
_WEBSOCKET = {"sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol"}


def upstream_session(*, limit: int = 0) -> aiohttp.ClientSession:
    """A session that changes nothing: no cookies of its own, no decompression, no time limit on streams."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, ssl=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
    )


def passed_headers(request: web.Request, changes: Mapping[str, str | None], *, edge: bool = False) -> CIMultiDict[str]:
    """The request's end-to-end headers, with some set or (None) removed, and the usual forwarding ones.

    At the `edge` nobody stands before us who could say where a request comes from: what it says of that itself is dropped."""
    dropped = _HOP_BY_HOP | {word.strip().lower() for word in request.headers.get("Connection", "").split(",")}
    headers = CIMultiDict(
        (name, value)
        for name, value in request.headers.items()
        if name.lower() not in dropped and not (edge and _claims_origin(name))
    )
    peer = request.remote or "127.0.0.1"
    before = headers.get("X-Forwarded-For")
    headers["X-Forwarded-For"] = f"{before}, {peer}" if before else peer
    headers.setdefault("X-Forwarded-Proto", request.scheme)
    headers.setdefault("X-Forwarded-Host", request.host)
    for name, value in changes.items():
        headers.popall(name, None)
        if value is not None:
            headers[name] = value
    return headers


def _claims_origin(name: str) -> bool:
    # Some servers read `X_Forwarded_For` as `X-Forwarded-For`.
    return name.lower().replace("_", "-").startswith(_ORIGIN_HEADERS)


def _unchanged(name: str, value: str) -> str | None:
    return value


async def forward(
    request: web.Request,
    session: aiohttp.ClientSession,
    url: str,
    changes: Mapping[str, str | None] | None = None,
    answer_headers: Mapping[str, str] | None = None,
    *,
    edge: bool = False,
    screen: Callable[[str, str], str | None] = _unchanged,
    instead: Callable[[int], web.Response | None] = lambda status: None,
) -> web.StreamResponse:
    """Send the request to `url` and its answer back. 502 with the reason if the other side does not answer.

    `screen` sees each header of the answer: what it returns goes on, None drops it. `instead` may give another answer than the
    backend's, by status."""
    headers = passed_headers(request, changes or {}, edge=edge)
    if request.headers.get("Upgrade", "").lower() == "websocket":
        return await _websocket(request, session, url, headers)
    body: AsyncIterator[bytes] | None = None
    if request.can_read_body:
        body = request.content.iter_any()
    try:
        answer = await session.request(
            request.method,
            URL(url, encoded=True),
            headers=headers,
            data=body,
            allow_redirects=False,
            skip_auto_headers=("User-Agent",),
        )
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return web.Response(status=502, text=f"the backend at {url.split('?')[0]} does not answer: {error}\n")
    async with contextlib.aclosing(_Closing(answer)):
        if (other := instead(answer.status)) is not None:
            answer.close()
            return other
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        for name, value in answer.headers.items():
            passed = screen(name, value)
            if passed is not None and name.lower() not in _HOP_BY_HOP and name.lower() != "content-length":
                response.headers.add(name, passed)
        length = answer.headers.get("Content-Length")
        if length is not None and request.method != "HEAD":
            response.content_length = int(length)
        elif length is not None:
            response.headers["Content-Length"] = length
        for name, value in (answer_headers or {}).items():
            if (passed := screen(name, value)) is not None:
                response.headers[name] = passed
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        except (ConnectionError, aiohttp.ClientError):
            # One of the two went away in the middle; the other sees a cut connection, which is the truth.
            if request.transport is not None:
                request.transport.close()
        return response


class _Closing:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def aclose(self) -> None:
        self._answer.release()


async def _websocket(
    request: web.Request, session: aiohttp.ClientSession, url: str, headers: CIMultiDict[str]
) -> web.StreamResponse:
    protocols = [word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if word.strip()]
    kept = CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _WEBSOCKET)
    try:
        backend = await session.ws_connect(
            URL(url, encoded=True), headers=kept, protocols=protocols, max_msg_size=0, autoping=False
        )
    except aiohttp.WSServerHandshakeError as error:
        return web.Response(status=error.status, text=f"the backend refused the WebSocket: {error.message}\n")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return web.Response(status=502, text=f"the backend at {url.split('?')[0]} does not answer: {error}\n")
    chosen = (backend.protocol,) if backend.protocol else ()
    front = web.WebSocketResponse(protocols=chosen, max_msg_size=0, autoping=False)
    await front.prepare(request)
    tasks = [asyncio.create_task(_copy(front, backend)), asyncio.create_task(_copy(backend, front))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await backend.close(code=front.close_code or 1000)
        await front.close(code=backend.close_code or 1000)
    return front


async def _copy(
    source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
) -> None:
    async for message in source:
        match message.type:
            case WSMsgType.TEXT:
                await target.send_str(message.data)
            case WSMsgType.BINARY:
                await target.send_bytes(message.data)
            case WSMsgType.PING:
                await target.ping(message.data)
            case WSMsgType.PONG:
                await target.pong(message.data)
