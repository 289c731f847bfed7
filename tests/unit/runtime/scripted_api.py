"""An API server that plays a script: what it answers to each list and does in each watch is up to the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from modelyard.kube.client import Client
from modelyard.kube.http import Endpoint, HttpTransport


class Stream:
    """One open watch, as the server sees it."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self.query = dict(request.query)
        self._request = request
        self._response = response

    async def send(self, type: str, obj: dict[str, Any]) -> None:
        await self.write(json.dumps({"type": type, "object": obj}, ensure_ascii=False).encode() + b"\n")

    async def write(self, data: bytes) -> None:
        await self._response.write(data)

    def reset(self) -> None:
        """Breaks the connection."""
        assert self._request.transport is not None
        self._request.transport.abort()

    async def hang(self) -> None:
        """Says nothing, until the client goes away."""
        await asyncio.Event().wait()


Script = Callable[[Stream], Awaitable[None]]


def pod(name: str, version: int, *, uid: str = "", namespace: str = "shop", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "labels": labels}, "spec": {"nodeName": f"node-{version}"}}


def bookmark(version: int, *, initial_end: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


def status(code: int, reason: str, message: str = "said the script") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


class ScriptedApi:
    """`lists` and `watches` are used up in order; the last of each stays. A list is items and version, or a whole answer."""

    def __init__(self) -> None:
        self.lists: list[tuple[list[dict[str, Any]], int] | dict[str, Any]] = [([], 1)]
        self.watches: list[Script | dict[str, Any]] = []
        self.streams_lists = False
        self.requests: list[dict[str, str]] = []
        self.accepted: list[str] = []

    @property
    def list_requests(self) -> list[dict[str, str]]:
        return [query for query in self.requests if "watch" not in query]

    @property
    def watch_requests(self) -> list[dict[str, str]]:
        return [query for query in self.requests if "watch" in query and "sendInitialEvents" not in query]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append(query)
        self.accepted.append(request.headers["Accept"])
        if "watch" not in query:
            return self._list(query)
        if "sendInitialEvents" in query and not self.streams_lists:
            refusal = status(422, "Invalid", "sendInitialEvents is forbidden for watch unless the feature is enabled")
            return web.json_response(refusal, status=422)
        script = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0] if self.watches else _hang
        if isinstance(script, dict):
            return web.json_response(script, status=script["code"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await script(Stream(request, response))
        return response

    def _list(self, query: dict[str, str]) -> web.Response:
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, dict):
            return web.json_response(answer, status=answer.get("code", 200))
        items, version = answer
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0"))
        metadata = {"resourceVersion": str(version)}
        if limit and start + limit < len(items):
            metadata["continue"] = str(start + limit)
            self.lists.insert(0, answer)
        page = items[start : start + limit] if limit else items[start:]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": page})


async def _hang(stream: Stream) -> None:
    await stream.hang()


@asynccontextmanager
async def serving(api: ScriptedApi) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with Client(HttpTransport(Endpoint(f"http://{host}:{port}"))) as client:
            yield client
    finally:
        await runner.cleanup()
