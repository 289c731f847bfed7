"""A webhook server for tests: HTTPS on loopback with a certificate of its own, and a record of what it was asked."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from modelyard.kube.kinds import Object
from modelyard.kube.times import utc_now
from modelyard.runtime.tls.certificates import issue, make_ca
from modelyard.runtime.tls.pairs import load

Answer = dict[str, Any]


@dataclass
class HookServer:
    """`answers` maps a path to what is said there: fields of the response, or a function from the request to them."""

    port: int
    bundle: str
    asked: list[Object] = field(default_factory=list)
    answers: dict[str, Answer | Callable[[Object], Answer]] = field(default_factory=dict)

    def config(self, path: str) -> Object:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle}

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append({"path": request.path, "query": dict(request.query)} | review)
        said = self.answers.get(request.path, {})
        answer = said(review["request"]) if callable(said) else said
        if "http" in answer:
            return web.Response(status=answer["http"], text=answer.get("text", ""))
        if "delay" in answer:
            await asyncio.sleep(answer["delay"])
        response = {"uid": review["request"]["uid"], "allowed": True} | answer
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})


def patch(*operations: Object) -> Answer:
    return {"patch": base64.b64encode(json.dumps(operations).encode()).decode(), "patchType": "JSONPatch"}


@asynccontextmanager
async def hook_server(names: Sequence[str] = ()) -> AsyncIterator[HookServer]:
    now = utc_now()
    authority = make_ca(now)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load(context, issue(authority, ["127.0.0.1", "localhost", *names], now))
    server = HookServer(0, base64.b64encode(authority.certificate).decode())
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
