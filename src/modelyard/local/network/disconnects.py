"""Clients that leave before their answer is there: nothing went wrong that a log should show with a traceback."""

from __future__ import annotations

import logging

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler

log = logging.getLogger(__name__)

_CLIENT_CLOSED_REQUEST = 499


@web.middleware
async def quiet_disconnects(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except (ConnectionError, aiohttp.ClientError) as error:
        transport = request.transport
        if transport is not None and not transport.is_closing():
            raise
        log.debug("%s %s: the client went away: %s", request.method, request.path, error)
        # Nobody reads it; the server needs an answer to finish the request.
        return web.Response(status=_CLIENT_CLOSED_REQUEST)
