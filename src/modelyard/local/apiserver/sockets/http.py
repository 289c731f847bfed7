"""The door for sockets: HTTPS, with limits on size and time and checks of Host and Origin."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.messages import Reply, Request
from modelyard.local.apiserver.sockets.connections import Connection
from modelyard.local.apiserver.sockets.tls import Identity

if TYPE_CHECKING:
    from modelyard.local.apiserver.sockets.fallback import Unusual

_LAST_SECONDS = 1.0
"""How long answers under way may take when the server stops."""
_CHECK_SECONDS = 5.0
"""How often connections are looked at for what takes too long."""
_NAMES = frozenset(("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"))


class Door:
    """Listens on one address and hands requests on."""

    def __init__(
        self,
        handle: Callable[[Request], Awaitable[Reply]],
        identity: Identity,
        host: str,
        port: int,
        names: Sequence[str],
    ) -> None:
        self.handle = handle
        self._identity = identity
        self._host = host
        self._port = port
        self._names = frozenset(name.lower() for name in (*names, host)) | _NAMES
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._unusual: Unusual | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._second = 0
        self._date = b""

    async def open(self) -> str:
        loop = asyncio.get_running_loop()
        names = [name for name in self._names if name not in ("0.0.0.0", "::")]
        context = self._identity.context(sorted(names))
        self._server = await loop.create_server(
            lambda: Connection(self), self._host, self._port, ssl=context, backlog=128
        )
        self._timer = loop.call_later(_CHECK_SECONDS, self._check_times)
        host, port = self.address
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*(connection.close(_LAST_SECONDS) for connection in self._connections))
        if self._unusual is not None:
            await self._unusual.close(_LAST_SECONDS)

    def _check_times(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in list(self._connections):
            connection.check_time(loop.time())
        self._timer = loop.call_later(_CHECK_SECONDS, self._check_times)

    # What connections ask.

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def take_over(self) -> asyncio.Protocol:
        if self._unusual is None:
            # Most servers never need it, and it takes its time and memory.
            from modelyard.local.apiserver.sockets.fallback import Unusual

            self._unusual = Unusual(self.handle, self.check_origin)
        return self._unusual.protocol()

    def date(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._date = f"Date: {formatdate(now, usegmt=True)}\r\n".encode()
        return self._date

    def check_origin(self, host: str, origin: str | None) -> None:
        """A web page that a user visits must not reach this server through the user's browser."""
        name = _host_of(host)
        if name is None or not (name in self._names or _is_local(name)):
            raise problems.forbidden(
                None, "", f"this server is not known as {problems.go_quote(host)}: use its address"
            )
        if origin is not None:
            origin_host = urlsplit(origin).hostname or ""
            if not (origin_host in self._names or _is_local(origin_host)):
                raise problems.forbidden(None, "", f"requests from {problems.go_quote(origin)} are not served")


def _host_of(header: str) -> str | None:
    """The host in a Host header, without port and brackets; None where it is not a host."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower() or None
    except ValueError:
        return None


def _is_local(host: str) -> bool:
    if host.endswith((".localhost", ".svc", ".svc.cluster.local")):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
