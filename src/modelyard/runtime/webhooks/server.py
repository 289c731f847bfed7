"""Serves the webhooks over TLS. Bad requests get a 400 that says why; nothing ever gets a traceback."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from modelyard.runtime.process.metrics import Metrics
from modelyard.runtime.webhooks.access_review import AccessReviews
from modelyard.runtime.webhooks.answers import BadReview, answer_admission, answer_conversion
from modelyard.runtime.webhooks.declarations import Conversion, HookReader, Webhook

log = logging.getLogger(__name__)

LARGEST_BODY = 7 * 1024 * 1024
"""Twice the largest object (an update carries two), and some more."""


@dataclass(frozen=True)
class HookReply:
    status: int
    body: bytes
    content_type: str = "application/json"


class Webhooks:
    """All webhooks of a process by their path; `answer` needs no server."""

    def __init__(
        self,
        webhooks: Sequence[Webhook] = (),
        conversions: Sequence[Conversion] = (),
        *,
        reader: Callable[[Webhook], HookReader] | None = None,
        access: AccessReviews | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        self._conversions: dict[str, list[Conversion]] = {}
        for conversion in conversions:
            self._conversions.setdefault(conversion.path, []).append(conversion)
        paths = [*(w.path for w in webhooks), *self._conversions]
        if twice := sorted({path for path in paths if paths.count(path) > 1}):
            raise ValueError(f"two webhooks share the path {twice[0]}")
        self._readers = {webhook.path: reader(webhook) for webhook in webhooks} if reader is not None else {}
        self._access = access
        self._metrics = metrics

    async def answer(self, path: str, body: bytes) -> HookReply:
        """The HTTP answer to a POST."""
        started = asyncio.get_running_loop().time()
        reply = await self._answer(path, body)
        if self._metrics is not None and reply.status != HTTPStatus.NOT_FOUND:
            seconds = asyncio.get_running_loop().time() - started
            self._metrics.webhook_requests.labels(path, str(reply.status)).inc()
            self._metrics.webhook_seconds.labels(path).observe(seconds)
        return reply

    async def _answer(self, path: str, body: bytes) -> HookReply:
        try:
            if (webhook := self._webhooks.get(path)) is not None:
                return HookReply(200, await answer_admission(webhook, body, self._readers.get(path), self._access))
            if (conversions := self._conversions.get(path)) is not None:
                return HookReply(200, await answer_conversion(conversions, body))
        except BadReview as error:
            return _text(HTTPStatus.BAD_REQUEST, str(error))
        known = ", ".join(sorted([*self._webhooks, *self._conversions])) or "none"
        return _text(HTTPStatus.NOT_FOUND, f"there is no webhook at {path}; there is {known}")


def _text(status: HTTPStatus, message: str) -> HookReply:
    return HookReply(status, message.encode(), "text/plain")


class WebhookServer:
    """Listens for the API's requests. `context` may be loaded with a new certificate while it runs."""

    def __init__(
        self, webhooks: Webhooks, context: ssl.SSLContext | None, *, host: str = "0.0.0.0", port: int = 9443
    ) -> None:
        self._webhooks = webhooks
        self._context = context
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Opens the socket; gives the port."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/{path:.*}", self._handle)
        # The API packs nothing. What others pack is not unpacked: nobody has said yet how large it may become.
        runner = web.AppRunner(app, access_log=None, handle_signals=False, auto_decompress=False)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._port, ssl_context=self._context)
        await site.start()
        self._runner = runner
        port: int = runner.addresses[0][1]
        log.info("webhooks are served on port %d", port)
        return port

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, text=f"the body is larger than {LARGEST_BODY} bytes")
        reply = await self._webhooks.answer(request.path, body)
        return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)
