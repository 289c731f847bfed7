"""Remote commands over SPDY, made to look like the web socket that newer clients use: a byte for the channel, then data."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from modelyard.local.apiserver.requests.messages import Duplex, WebSocket
from modelyard.local.apiserver.sockets.spdy import Broken, Session, Stream

_CHANNELS = {"stdin": 0, "stdout": 1, "stderr": 2, "error": 3, "resize": 4}
_ERROR, _CLOSE = 3, 255
_OPENING_SECONDS = 30.0


class Tunnel:
    """A web socket whose messages are pieces of one stream of bytes."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._messages = socket.messages()

    async def receive(self) -> bytes:
        async for data in self._messages:
            if data:
                return data
        return b""

    async def send(self, data: bytes) -> None:
        await self._socket.send(data)

    async def close(self) -> None:
        await self._socket.close()


class Channels:
    """The streams of one remote command (`requests.WebSocket`)."""

    def __init__(self, protocol: str, wanted: set[str]) -> None:
        self._protocol = protocol
        self._wanted = wanted
        self._streams: dict[str, Stream] = {}
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue(16)
        self._readers: list[asyncio.Task[None]] = []
        self.opened = asyncio.Event()
        """Set when the client has opened every stream that the command needs."""

    @property
    def protocol(self) -> str:
        return self._protocol

    def add(self, stream: Stream) -> None:
        name = stream.headers.get("streamtype", "")
        if name not in _CHANNELS or name in self._streams:
            raise Broken(f"a stream of type {name!r}")
        self._streams[name] = stream
        if name in ("stdin", "resize"):
            self._readers.append(asyncio.create_task(self._read(name, stream)))
        if self._wanted <= self._streams.keys():
            self.opened.set()

    async def _read(self, name: str, stream: Stream) -> None:
        channel = bytes([_CHANNELS[name]])
        while data := await stream.receive():
            for piece in data.splitlines() if name == "resize" else [data]:
                await self._incoming.put(channel + piece)
        if name == "stdin":
            await self._incoming.put(bytes([_CLOSE]) + channel)

    async def send(self, data: bytes) -> None:
        name = next((name for name, channel in _CHANNELS.items() if channel == data[0]), "")
        stream = self._streams.get(name)
        if stream is not None:
            await stream.send(data[1:])

    async def messages(self) -> AsyncIterator[bytes]:
        while (data := await self._incoming.get()) is not None:
            yield data

    async def close(self, code: int = 1000, reason: str = "") -> None:
        for stream in self._streams.values():
            await stream.close()

    def ended(self) -> None:
        """The client is gone: there is nothing more to read."""
        for task in self._readers:
            task.cancel()
        while not self._incoming.empty():
            self._incoming.get_nowait()
        self._incoming.put_nowait(None)


def streams_of(query: Mapping[str, list[str]]) -> set[str]:
    """The streams that a client must open for a request."""
    asked = {name for name in ("stdin", "stdout", "stderr") if query.get(name, [""])[0] in ("true", "1")}
    if query.get("tty", [""])[0] in ("true", "1"):
        asked = (asked - {"stderr"}) | {"resize"}
    return asked | {"error"}


async def over_spdy(pipe: Duplex, protocol: str, wanted: set[str], run: Callable[[WebSocket], Awaitable[None]]) -> None:
    """Runs what is written for a web socket over a connection that speaks SPDY."""
    session, channels = Session(pipe), Channels(protocol, wanted)
    reading = asyncio.create_task(session.run(channels.add))
    reading.add_done_callback(lambda _: channels.ended())
    opening = asyncio.create_task(channels.opened.wait())
    try:
        await asyncio.wait((opening, reading), timeout=_OPENING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not channels.opened.is_set():
            return
        await run(channels)
        await channels.close()
        # The client reads what is under way and hangs up; one that does not must not hold the connection.
        await asyncio.wait((reading,), timeout=_OPENING_SECONDS)
    finally:
        opening.cancel()
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError, Broken):
            await reading
