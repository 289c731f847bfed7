"""A webhook for the cluster tests: HTTPS on loopback with a certificate of its own."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web

from modelyard.kube.kinds import Object
from modelyard.runtime.tls.certificates import issue, make_ca
from modelyard.runtime.tls.pairs import load

Answer = Callable[[Object], Awaitable[Object]]


@asynccontextmanager
async def webhook_server(answer: Answer) -> AsyncIterator[Object]:
    """Serves one webhook; gives its `clientConfig`."""

    async def handle(request: web.Request) -> web.Response:
        return web.json_response(await answer(await request.json()))

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    certificate, context = _certificate()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield {"url": f"https://127.0.0.1:{port}/hook", "caBundle": base64.b64encode(certificate).decode()}
    finally:
        await runner.cleanup()


def _certificate() -> tuple[bytes, ssl.SSLContext]:
    now = datetime.now(UTC)
    authority = make_ca(now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, issue(authority, ["127.0.0.1"], now))
    return authority.certificate, context
