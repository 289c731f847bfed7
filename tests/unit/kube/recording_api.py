"""A server that writes down what it is asked and answers what the test says."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class RecordingApi:
    """Answers are used up in order, the last one stays: a handler, an object, or a status code with an object."""

    answers: list[Handler | dict[str, Any] | tuple[int, Any, dict[str, str]]] = field(default_factory=lambda: [{}])
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(Asked(request.method, request.path, dict(request.query), dict(request.headers), body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, dict):
            return web.json_response(answer)
        if isinstance(answer, tuple):
            code, content, headers = answer
            if isinstance(content, str):
                return web.Response(text=content, status=code, headers=headers)
            return web.json_response(content, status=code, headers=headers)
        return await answer(request)

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, port = runner.addresses[0][:2]
        try:
            yield f"{'https' if tls else 'http'}://{host}:{port}"
        finally:
            await runner.cleanup()
