"""The door for sockets: HTTPS, with limits on size and time and checks of Host and Origin."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.messages import Reply, Request
from modelyard.local.apiserver.sockets.arrivals import MOST_ARRIVING, Arrivals
from modelyard.local.apiserver.sockets.connections import Connection
from modelyard.local.apiserver.sockets.tls import Identity

if TYPE_CHECKING:
    from modelyard.local.apiserver.sockets.fallback import Unusual

_LAST_SECONDS = 1.0
"""How long answers under way may take when the server stops."""
_CHECK_SECONDS = 5.0
"""How often connections are looked at for what takes too long."""
_MOST_CONNECTIONS = 2000
_MOST_HELD = 128 * 1024 * 1024
"""How many bytes of requests there may be that are not complete: nobody knows yet who sends them."""
_MOST_UNUSUAL = 256
"""How many connections may be such that something other than plain requests was asked for on them."""
_OTHER_FILES = _MOST_UNUSUAL + MOST_ARRIVING + 128
"""How many files and sockets of other kinds there may be."""
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
        self._arrivals: Arrivals | None = None
        self._connections: set[Connection] = set()
        self._handed_over: dict[asyncio.Transport, None] = {}
        self._most = _most_connections()
        self._held = 0
        """Bytes of requests that were not complete when this was last counted, and all that came since."""
        self._unusual: Unusual | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._second = 0
        self._date = b""

    async def open(self) -> str:
        loop = asyncio.get_running_loop()
        names = [name for name in self._names if name not in ("0.0.0.0", "::")]
        context = self._identity.context(sorted(names))
        self._arrivals = Arrivals(context, lambda: Connection(self))
        self._server = await loop.create_server(self._arrivals.protocol, self._host, self._port, backlog=128)
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
        if self._arrivals is not None:
            self._arrivals.close()
        await asyncio.gather(*(connection.close(_LAST_SECONDS) for connection in self._connections))
        if self._unusual is not None:
            await self._unusual.close(_LAST_SECONDS)

    def _check_times(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in list(self._connections):
            connection.check_time(loop.time())
        self._drop_closed()
        self._timer = loop.call_later(_CHECK_SECONDS, self._check_times)

    # What connections ask.

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        if len(self._connections) > self._most:
            self._make_room(connection)

    def _make_room(self, newcomer: Connection) -> None:
        """Who has most connections loses one, the one that did nothing for longest: a flood displaces itself."""
        shares = Counter(each.who for each in self._connections if each is not newcomer)
        largest = max(shares.values())
        crowd = [each for each in self._connections if each is not newcomer and shares[each.who] == largest]
        min(crowd, key=lambda each: each.since).abort()

    def holding(self, more: int) -> None:
        self._held += more
        while self._held > _MOST_HELD:
            holders = [each for each in self._connections if each.held]
            self._held = sum(each.held for each in holders)
            if self._held > _MOST_HELD:
                self._take_back(holders)

    def _take_back(self, holders: Sequence[Connection]) -> None:
        """Of whoever sends most that never gets complete, the one that sends for longest goes."""
        shares: Counter[str] = Counter()
        for each in holders:
            shares[each.who] += each.held
        largest = max(shares.values())
        min((each for each in holders if shares[each.who] == largest), key=lambda each: each.since).abort()

    def _drop_closed(self) -> None:
        for transport in [each for each in self._handed_over if each.is_closing()]:
            del self._handed_over[transport]

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def take_over(self, transport: asyncio.Transport) -> asyncio.Protocol:
        self._handed_over[transport] = None
        if len(self._handed_over) > _MOST_UNUSUAL:
            self._drop_closed()
        if len(self._handed_over) > _MOST_UNUSUAL:
            oldest = next(iter(self._handed_over))
            del self._handed_over[oldest]
            oldest.abort()
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


def _most_connections() -> int:
    """So many that files are left for the database, for those on their way in, and for calls of webhooks."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(32, min(_MOST_CONNECTIONS, allowed - _OTHER_FILES))


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
