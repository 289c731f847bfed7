"""Connections on their way in, before they have shown that they speak TLS: a bounded number, for a bounded time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

MOST_ARRIVING = 128
HANDSHAKE_SECONDS = 10.0


class Arrivals:
    """Does the TLS handshakes. Whoever comes when too many are under way takes the place of the one that came first."""

    def __init__(self, context: ssl.SSLContext, welcome: Callable[[], asyncio.Protocol]) -> None:
        self._context = context
        self._welcome = welcome
        self._arriving: dict[_Arrival, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def protocol(self) -> asyncio.Protocol:
        return _Arrival(self)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for arrival in list(self._arriving):
            arrival.abort()

    def came(self, arrival: _Arrival, transport: asyncio.Transport) -> None:
        self._arriving[arrival] = None
        if len(self._arriving) > MOST_ARRIVING:
            next(iter(self._arriving)).abort()
        task = asyncio.get_running_loop().create_task(self._shake_hands(arrival, transport))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def gone(self, arrival: _Arrival) -> None:
        self._arriving.pop(arrival, None)

    async def _shake_hands(self, arrival: _Arrival, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        try:
            tls = await loop.start_tls(
                transport, arrival, self._context, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (OSError, TimeoutError, RuntimeError):
            # Not a word of it in the log: strangers would fill it.
            transport.abort()
            return
        finally:
            self.gone(arrival)
        if tls is None or arrival.lost:
            transport.abort()
            return
        protocol = self._welcome()
        tls.set_protocol(protocol)
        protocol.connection_made(tls)
        if arrival.early:
            protocol.data_received(bytes(arrival.early))


class _Arrival(asyncio.Protocol):
    """Keeps what comes together with the end of the handshake."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._transport: asyncio.Transport | None = None
        self.early = bytearray()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._arrivals.came(self, transport)

    def data_received(self, data: bytes) -> None:
        self.early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._arrivals.gone(self)

    def abort(self) -> None:
        self._arrivals.gone(self)
        if self._transport is not None:
            self._transport.abort()
