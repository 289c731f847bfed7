"""How requests reach an API server: over sockets, or straight into one in the same process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol


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
