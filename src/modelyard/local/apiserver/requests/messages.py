"""What goes through the API server: requests, replies and who asks. Knows no web framework."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qs

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who asks, as authentication found out."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
LOOPBACK = UserInfo("system:apiserver", groups=("system:authenticated", "system:masters"))
"""The server itself, when its own controllers act."""


@dataclass(slots=True)
class Request:
    """One request. Header names are lower case, a repeated header's values are joined by newlines (see `header_values`);
    `user` is set by doors that authenticate themselves (the in-process transport)."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: UserInfo | None = None
    certificate: bytes | None = None
    """The client certificate (DER) that the TLS layer verified against our CA."""
    remote: str = ""
    asked_by: str = ""
    """Who that is, once it is proven; empty for strangers. Doors divide their room by it."""

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    def params(self, name: str) -> list[str]:
        return self.query.get(name, [])

    def header_values(self, name: str) -> list[str]:
        """All values of a header that may come more than once."""
        return self.headers[name].split("\n") if name in self.headers else []

    def flag(self, name: str) -> bool:
        """A boolean query parameter, as Kubernetes reads it: present and not `false` or `0`."""
        values = self.query.get(name)
        return values is not None and values[0].lower() not in ("false", "0")


def parse_query(text: str) -> dict[str, list[str]]:
    if not text:
        return {}
    if "%" in text or "+" in text:
        return parse_qs(text, keep_blank_values=True)
    query: dict[str, list[str]] = {}
    for pair in text.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            query.setdefault(name, []).append(value)
    return query


class WebSocket(Protocol):
    """One upgraded connection, as exec and attach use it."""

    @property
    def protocol(self) -> str: ...

    async def send(self, data: bytes) -> None: ...

    def messages(self) -> AsyncIterator[bytes]: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class Duplex(Protocol):
    """Bytes in both directions."""

    async def receive(self) -> bytes:
        """Some bytes; none at the end."""

    async def send(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Upgrade:
    """A reply that wants another protocol: a web socket, or SPDY on the bare connection.

    Which subprotocols each speaks, and what is done with the connection (for SPDY with the chosen subprotocol)."""

    protocols: tuple[str, ...]
    run: Callable[[WebSocket], Awaitable[None]]
    spdy_protocols: tuple[str, ...] = ()
    run_spdy: Callable[[Duplex, str], Awaitable[None]] | None = None


@dataclass(slots=True)
class Reply:
    """One answer. A body that is an iterator is streamed (watch, logs); it is closed (`aclose`) when the client goes away."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    upgrade: Upgrade | None = None
