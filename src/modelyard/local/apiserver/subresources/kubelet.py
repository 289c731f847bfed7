"""The kubelet as the API server sees it: logs, remote commands, ports and usage. One that answers over HTTP, and none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.messages import Duplex, WebSocket
from modelyard.local.apiserver.requests.problems import Problem, bad_request, custom, internal_error
from modelyard.local.kubelet.address import PROBLEM, PROTOCOLS, Address

if TYPE_CHECKING:
    import aiohttp

Query = Mapping[str, Sequence[str]]


class Kubelet(Protocol):
    """Where pods run. Methods raise a Problem where they cannot answer."""

    async def logs(self, namespace: str, pod: str, container: str, query: Query) -> AsyncIterator[bytes]:
        """A container's log; `query` is the request's own (`follow`, `tailLines`, ...)."""

    async def stream(
        self, action: str, namespace: str, pod: str, container: str, query: Query, socket: WebSocket
    ) -> None:
        """Runs a command (`exec`) or joins the container's own (`attach`); passes the frames of the channel protocol in both
        directions until it has ended."""

    async def forward(self, namespace: str, pod: str, port: int, pipe: Duplex) -> None:
        """Carries one connection to a port of a pod."""

    async def usage(self) -> Object:
        """What the node and its containers use now."""

    async def close(self) -> None: ...


class NoKubelet:
    """Nothing runs here: a server on its own."""

    async def logs(self, namespace: str, pod: str, container: str, query: Query) -> AsyncIterator[bytes]:
        raise _unreachable(f"containerLogs/{namespace}/{pod}/{container}")

    async def stream(
        self, action: str, namespace: str, pod: str, container: str, query: Query, socket: WebSocket
    ) -> None:
        raise _unreachable(f"{action}/{namespace}/{pod}/{container}")

    async def forward(self, namespace: str, pod: str, port: int, pipe: Duplex) -> None:
        raise _unreachable(f"portForward/{namespace}/{pod}/{port}")

    async def usage(self) -> Object:
        raise _unreachable("usage")

    async def close(self) -> None:
        return None


def _unreachable(path: str) -> Problem:
    return internal_error(f"error dialing backend: no kubelet answers for {path}: start the cluster with modelyard up")


class HttpKubelet:
    """The kubelet of the laptop cluster. `address` is asked each time, for a kubelet may come, go and move."""

    def __init__(self, address: Callable[[], Address | None]) -> None:
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self, path: str) -> tuple[aiohttp.ClientSession, str, dict[str, str]]:
        address = self._address()
        if address is None:
            raise _unreachable(path)
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=5))
        return self._session, f"{address.url}/{path}", {"Authorization": f"Bearer {address.token}"}

    async def logs(self, namespace: str, pod: str, container: str, query: Query) -> AsyncIterator[bytes]:
        import aiohttp

        session, url, headers = self._open(f"containerLogs/{namespace}/{pod}/{container}")
        try:
            response = await session.get(url, params=_pairs(query), headers=headers)
        except (aiohttp.ClientError, OSError) as error:
            raise internal_error(f"error dialing backend: {error}") from None
        if response.status != 200:
            text = (await response.text()).strip()
            response.release()
            raise bad_request(text) if response.status == 400 else custom(response.status, "", text)
        return _pieces(response)

    async def _dial(self, path: str, query: Query, protocols: Sequence[str] = ()) -> aiohttp.ClientWebSocketResponse:
        import aiohttp

        session, url, headers = self._open(path)
        try:
            return await session.ws_connect(
                url, params=_pairs(query), headers=headers, protocols=protocols, max_msg_size=0
            )
        except aiohttp.WSServerHandshakeError as error:
            said = error.headers.get(PROBLEM, "") if error.headers else ""
            raise bad_request(unquote(said) or error.message) from None
        except (aiohttp.ClientError, OSError) as error:
            raise internal_error(f"error dialing backend: {error}") from None

    async def forward(self, namespace: str, pod: str, port: int, pipe: Duplex) -> None:
        import aiohttp

        async with await self._dial(f"portForward/{namespace}/{pod}/{port}", {}) as inner:
            sending = asyncio.create_task(_forward_bytes(pipe, inner))
            try:
                async for message in inner:
                    if message.type is aiohttp.WSMsgType.BINARY:
                        if not message.data:
                            break
                        await pipe.send(message.data)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def usage(self) -> Object:
        import aiohttp

        session, url, headers = self._open("usage")
        try:
            async with session.get(url, headers=headers) as response:
                found: Object = await response.json()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise internal_error(f"error dialing backend: {error}") from None
        return found

    async def stream(
        self, action: str, namespace: str, pod: str, container: str, query: Query, socket: WebSocket
    ) -> None:
        import aiohttp

        protocols = (socket.protocol, *PROTOCOLS) if socket.protocol else PROTOCOLS
        inner = await self._dial(f"{action}/{namespace}/{pod}/{container}", query, protocols)
        async with inner:
            sending = asyncio.create_task(_forward(socket, inner))
            try:
                async for message in inner:
                    if message.type is aiohttp.WSMsgType.BINARY:
                        await socket.send(message.data)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)


async def _forward(socket: WebSocket, inner: aiohttp.ClientWebSocketResponse) -> None:
    async for data in socket.messages():
        await inner.send_bytes(data)
    # The client is gone: so is the command's audience.
    await inner.close()


async def _forward_bytes(pipe: Duplex, inner: aiohttp.ClientWebSocketResponse) -> None:
    while data := await pipe.receive():
        await inner.send_bytes(data)
    await inner.send_bytes(b"")


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in response.content.iter_any():
            yield piece
    finally:
        response.close()


def _pairs(query: Query) -> list[tuple[str, str]]:
    return [(name, value) for name, values in query.items() for value in values]
