"""How requests reach an API server: over sockets, or straight into one in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from modelyard.kube.errors import Unreachable


class Response(Protocol):
    """An answer whose body is read whole or in chunks, once. `close` ends a stream early."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes: ...

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """Sends one request. Raises `kube.errors.Unreachable` when no answer comes."""

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sent:
    """A request on its way."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    timeout: float | None

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query

    @property
    def resource(self) -> str:
        """The plural that the path is about."""
        return resource_of(self.path)


class Around:
    """A transport around another. Subclasses look at what passes, or stand in its way."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        return await self.pass_on(Sent(method, path, query or {}, headers or {}, body, timeout))

    async def pass_on(self, sent: Sent) -> Response:
        return await self.inner.send(
            sent.method, sent.path, query=sent.query, headers=sent.headers, body=sent.body, timeout=sent.timeout
        )

    def websocket(
        self, path: str, *, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[Socket]:
        return open_websocket(self.inner, path, query=query, protocols=protocols)

    async def close(self) -> None:
        await self.inner.close()


def resource_of(path: str) -> str:
    """The plural that a path of the API is about."""
    parts = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return parts[0] if parts else ""


class Socket(Protocol):
    """An open WebSocket that carries binary messages."""

    async def send(self, message: bytes) -> None: ...

    def messages(self) -> AsyncIterator[bytes]: ...


@runtime_checkable
class UpgradingTransport(Protocol):
    """A transport that can also open WebSockets (for exec)."""

    def websocket(
        self, path: str, *, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AbstractAsyncContextManager[Socket]: ...


def open_websocket(
    transport: Transport, path: str, *, query: Sequence[tuple[str, str]], protocols: Sequence[str]
) -> AbstractAsyncContextManager[Socket]:
    """Opens a WebSocket over a transport; `Unreachable` where the transport cannot."""
    if not isinstance(transport, UpgradingTransport):
        raise Unreachable(f"{path} needs a connection over HTTP; an in-process server has no WebSockets")
    return transport.websocket(path, query=query, protocols=protocols)
