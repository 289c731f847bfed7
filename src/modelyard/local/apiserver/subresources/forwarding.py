"""Port forwarding: the connections of a client to ports of a pod, over SPDY streams or over channels of a web socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from modelyard.local.apiserver.requests.messages import Duplex, WebSocket
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.sockets.spdy import Broken, Session, Stream
from modelyard.local.apiserver.subresources.channels import Tunnel

SPDY_PROTOCOLS = ("portforward.k8s.io",)
PROTOCOLS = ("SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io")
_PAIRING_SECONDS = 30.0

Connect = Callable[[int, Duplex], Awaitable[None]]
"""Carries one connection to a port of the pod until both ends are done. Raises a Problem."""


async def over_spdy(pipe: Duplex, connect: Connect) -> None:
    """Each connection has two streams with one request id: its data, and what went wrong."""
    waiting: dict[str, Stream] = {}
    tasks: set[asyncio.Task[None]] = set()

    def opened(stream: Stream) -> None:
        request, kind, port = (stream.headers.get(name, "") for name in ("requestid", "streamtype", "port"))
        if kind not in ("data", "error") or not port.isdecimal() or not 0 < int(port) < 65536:
            raise Broken(f"a stream of type {kind!r} for port {port!r}")
        if request not in waiting:
            waiting[request] = stream
            return
        other = waiting.pop(request)
        data, error = (stream, other) if kind == "data" else (other, stream)
        task = asyncio.create_task(_carry(int(port), data, error, connect))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        with contextlib.suppress(Broken):
            await Session(pipe).run(opened)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await pipe.close()


async def _carry(port: int, data: Stream, error: Stream, connect: Connect) -> None:
    try:
        await connect(port, data)
    except Problem as problem:
        await error.send(f"error forwarding port {port}: {problem.status['message']}".encode())
    await error.close()
    await data.close()


async def over_web_socket(socket: WebSocket, ports: list[int], connect: Connect) -> None:
    """Frames with the number of a channel first: two for each port, its data and what went wrong."""
    if socket.protocol.startswith("SPDY/"):
        await over_spdy(Tunnel(socket), connect)
        return
    channels = [_Channel(socket, 2 * number) for number in range(len(ports))]
    for port, channel in zip(ports, channels, strict=True):
        for number in (channel.number, channel.number + 1):
            await socket.send(bytes([number]) + port.to_bytes(2, "little"))
    tasks = [asyncio.create_task(channel.carry(port, connect)) for port, channel in zip(ports, channels, strict=True)]
    try:
        async for message in socket.messages():
            number = message[0] if message else 1
            if number % 2 == 0 and number // 2 < len(channels):
                await channels[number // 2].incoming.put(message[1:])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Channel:
    """One port's connection within a web socket (`requests.Duplex`)."""

    def __init__(self, socket: WebSocket, number: int) -> None:
        self.number = number
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._socket = socket

    async def carry(self, port: int, connect: Connect) -> None:
        try:
            await connect(port, self)
        except Problem as problem:
            text = f"error forwarding port {port}: {problem.status['message']}"
            await self._socket.send(bytes([self.number + 1]) + text.encode())
        await self._socket.close()

    async def receive(self) -> bytes:
        while not (data := await self.incoming.get()):
            pass
        return data

    async def send(self, data: bytes) -> None:
        await self._socket.send(bytes([self.number]) + data)

    async def close(self) -> None:
        return None
