"""A program's port: opened with limits for what comes in, closed without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal

from aiohttp import web

from modelyard.programs.web import AccessLog, Handler, JsonServer

STOP_SECONDS = 10
_LAST_SECONDS = 1


class Listener:
    def __init__(self, handler: Handler, host: str, port: int, log: logging.Logger) -> None:
        self._handler = handler
        self._host = host
        self._port = port
        self._log = log
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None
        self._busy = 0
        self._quiet = asyncio.Event()
        self._closing = False

    @property
    def address(self) -> str:
        assert self._runner is not None
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def open(self) -> None:
        """Raises `OSError` where the port cannot be had."""
        server = JsonServer(
            self._counted,
            access_log=self._log,
            access_log_class=AccessLog,
            keepalive_timeout=75,
            # The longest filter, with each of its bytes escaped.
            max_line_size=64 * 1024,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_LAST_SECONDS)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, self._host, self._port, reuse_address=True, backlog=512)
        await self._site.start()

    async def _counted(self, request: web.BaseRequest) -> web.StreamResponse:
        """Knows whether requests are being answered, and closes their connections once the port closes."""
        self._busy += 1
        try:
            response = await self._handler(request)
        finally:
            self._busy -= 1
            self._quiet.set()
        if self._closing:
            response.force_close()
        return response

    async def close(self) -> None:
        """Takes no new requests, finishes the ones it has."""
        self._closing = True
        if self._runner is None or self._site is None:
            return
        await self._site.stop()
        # The framework drops what still comes of a body once it closes connections, so the requests are waited for before.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                while self._busy:
                    self._quiet.clear()
                    await self._quiet.wait()
        await self._runner.cleanup()


def stop_signal() -> asyncio.Event:
    """Set by SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped
