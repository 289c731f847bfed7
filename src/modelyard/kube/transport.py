"""How requests reach an API server: over sockets, or straight into one in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable


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
