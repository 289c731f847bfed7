"""The process's own HTTP server: metrics, health, readiness, and (on loopback only, unless asked otherwise) what goes on inside."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from modelyard.runtime.process import debug
from modelyard.runtime.process.guard import Guard
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.process.metrics import Metrics


class Check(Protocol):
    """Why something is not ready; empty when it is."""

    def __call__(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Listening:
    """Where one server listens and what it shows."""

    host: str = "127.0.0.1"
    port: int = 8081
    metrics: bool = True
    health: bool = True
    debug: bool = False
    context: ssl.SSLContext | None = None
    guard: Guard | None = None
    """Who may read metrics; none: everybody who reaches the port."""


class HealthServer:
    """`/metrics`, `/healthz`, `/readyz` and `/debug/…` of a manager."""

    def __init__(self, manager: Manager, endpoint: Listening | None = None, *, checks: Sequence[Check] = ()) -> None:
        self._manager = manager
        self._endpoint = endpoint or Listening()
        self._checks = tuple(checks)
        self._runner: web.AppRunner | None = None

    def application(self) -> web.Application:
        shown, app = self._endpoint, web.Application()
        if shown.metrics:
            app.router.add_get("/metrics", self._metrics)
        if shown.health:
            app.router.add_get("/healthz", self._healthz)
            app.router.add_get("/readyz", self._readyz)
        if shown.debug:
            app.router.add_get("/debug/", _page(lambda: debug.overview(self._manager)))
            app.router.add_get("/debug/queues", _page(lambda: debug.queues(self._manager)))
            app.router.add_get("/debug/passes", _page(lambda: debug.passes(self._manager)))
            app.router.add_get("/debug/caches", _page(self._manager.caches.info))
            app.router.add_get("/debug/errors", _page(lambda: debug.errors(self._manager)))
            app.router.add_get("/debug/tasks", self._tasks)
            app.router.add_get("/debug/profile", self._profile)
        return app

    async def start(self) -> int:
        """Opens the socket; gives the port."""
        runner = web.AppRunner(self.application(), access_log=None, handle_signals=False)
        await runner.setup()
        shown = self._endpoint
        await web.TCPSite(runner, shown.host, shown.port, ssl_context=shown.context).start()
        self._runner = runner
        port: int = runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def problems(self) -> list[str]:
        return [*self._manager.problems, *(problem for check in self._checks for problem in check())]

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._endpoint.guard is not None:
            refusal = await self._endpoint.guard.refusal(request.headers.get("Authorization", ""), request.path)
            if refusal is not None:
                return web.Response(status=refusal.status, text=refusal.message)
        metrics: Metrics = self._manager.metrics
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, request: web.Request) -> web.Response:
        problems = self.problems
        return web.Response(status=503, text="\n".join(problems)) if problems else web.Response(text="ok")

    async def _tasks(self, request: web.Request) -> web.Response:
        return web.Response(text=debug.tasks())

    async def _profile(self, request: web.Request) -> web.Response:
        try:
            seconds = min(max(float(request.query.get("seconds", "5")), 0.1), 60.0)
        except ValueError:
            return web.Response(status=400, text="seconds must be a number, such as ?seconds=5")
        return web.Response(text=await debug.profile(seconds, asyncio.sleep))


def _page(data: Callable[[], object]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        body = msgspec.json.format(msgspec.json.encode(data(), enc_hook=str), indent=2)
        return web.Response(body=body, content_type="application/json")

    return answer
