"""A transport straight into a server of the same process: no sockets, no threads, so virtual time can drive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

from modelyard.kube.errors import Unreachable
from modelyard.local.apiserver.requests.messages import Reply, Request, UserInfo, parse_query

Handle = Callable[[Request], Awaitable[Reply]]


class InProcessResponse:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.headers: Mapping[str, str] = {"Content-Type": reply.content_type, **dict(reply.headers)}

    @property
    def status(self) -> int:
        return self._reply.status

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        return [value for name, value in self._reply.headers if name == "Warning"]

    async def read(self) -> bytes:
        if isinstance(self._reply.body, bytes):
            return self._reply.body
        return b"".join([chunk async for chunk in self._reply.body])

    async def chunks(self) -> AsyncIterator[bytes]:
        if isinstance(self._reply.body, bytes):
            yield self._reply.body
            return
        async for chunk in self._reply.body:
            yield chunk

    async def close(self) -> None:
        if isinstance(self._reply.body, AsyncGenerator):
            await self._reply.body.aclose()


class InProcessTransport:
    """Speaks for one user, or with a bearer token that the server checks."""

    def __init__(self, handle: Handle, user: UserInfo | None, token: str = "", agent: str = "modelyard") -> None:
        self._handle = handle
        self._user = user
        self._headers = {"user-agent": agent} | ({"authorization": f"Bearer {token}"} if token else {})

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> InProcessResponse:
        path, _, text = path.partition("?")
        values: dict[str, list[str]] = parse_query(text)
        for name, value in (query or {}).items():
            values[name] = [value]
        given = {name.lower(): value for name, value in (headers or {}).items()}
        request = Request(method, path, values, self._headers | given, body, self._user, remote="in-process")
        # Over a socket others would get a turn here; without it one busy client could starve them.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(timeout):
                return InProcessResponse(await self._handle(request))
        except TimeoutError:
            raise Unreachable(f"the API server in this process gave no answer within {timeout} s") from None

    async def close(self) -> None:
        return None
