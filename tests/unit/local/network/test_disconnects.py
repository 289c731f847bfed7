"""Clients that hang up on the gateway, at every bad moment: the log stays clean, and the next client is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from modelyard.local.network.disconnects import quiet_disconnects
from modelyard.programs.reverse_proxy import forward, upstream_session

_UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
_MOMENTS = {
    "before the answer": "GET /late HTTP/1.1\r\nHost: a\r\n\r\n",
    "in the middle of the answer": "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
    "in the middle of the request": "POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc",
    "in the middle of a WebSocket": f"GET /socket HTTP/1.1\r\nHost: a\r\n{_UPGRADE}\r\n",
}


class Backend:
    """Says when a request has come, and answers when the client has gone."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.gone = asyncio.Event()
        self.done = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        response = web.WebSocketResponse() if request.path == "/socket" else web.StreamResponse()
        try:
            if request.path != "/late":
                await response.prepare(request)
            self.reached.set()
            await self.gone.wait()
            if request.path == "/late":
                await response.prepare(request)
            for _ in range(100):
                match response:
                    case web.WebSocketResponse():
                        await response.send_bytes(b"x" * 100_000)
                    case _:
                        await response.write(b"x" * 100_000)
        except ConnectionError:
            # Not the gateway's log: this is the other side of it.
            if request.transport is not None:
                request.transport.close()
        finally:
            self.done.set()
        return response


async def started(app: web.Application) -> tuple[web.AppRunner, int]:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, int(runner.addresses[0][1])


@pytest.fixture
async def backend() -> AsyncIterator[tuple[Backend, int]]:
    """The backend and the port of the gateway before it."""
    behind, app, front = Backend(), web.Application(), web.Application(middlewares=[quiet_disconnects])
    app.router.add_route("*", "/{path:.*}", behind.handle)
    inner, port = await started(app)
    session = upstream_session()

    async def gateway(request: web.Request) -> web.StreamResponse:
        behind.reached.set()
        return await forward(request, session, f"http://127.0.0.1:{port}{request.path}")

    front.router.add_route("*", "/{path:.*}", gateway)
    outer, outer_port = await started(front)
    yield behind, outer_port
    behind.gone.set()
    await session.close()
    await outer.cleanup()
    await inner.cleanup()


@pytest.mark.parametrize("moment", _MOMENTS)
async def test_a_client_that_hangs_up_leaves_no_traceback(
    backend: tuple[Backend, int], caplog: pytest.LogCaptureFixture, moment: str
) -> None:
    behind, port = backend
    with caplog.at_level(logging.INFO):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_MOMENTS[moment].encode())
        async with asyncio.timeout(10):
            await behind.reached.wait()
            writer.transport.abort()
            behind.gone.set()
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/stream") as answer:
                    assert len(await answer.read()) == 10_000_000
            # The first request is over once no handler of the gateway runs any more.
            while [task for task in asyncio.all_tasks() if "_handle_request" in repr(task.get_coro())]:
                await asyncio.sleep(0.01)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
