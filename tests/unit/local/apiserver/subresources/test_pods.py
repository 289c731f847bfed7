"""Logs and exec through a kubelet: what is passed on, and what is said where there is none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from modelyard.kube.builtin import Node, Pod
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests import LOOPBACK, Reply, Request
from modelyard.local.kubelet.endpoint import BadQuestion, Endpoint
from modelyard.local.kubelet.logs import LogOptions


class FakeAnswers:
    """A kubelet that says what it was asked."""

    async def log(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        if options.previous:
            raise BadQuestion("previous terminated container not found")
        yield f"{namespace}/{pod}/{container}\n".encode()
        yield f"tail {options.tail}\n".encode()

    async def execute(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stdin: int, stdout: int, stderr: int
    ) -> asyncio.Future[int]:
        os.write(stdout, f"{container} {' '.join(command)}".encode())
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        done.set_result(3)
        return done


class FakeSocket:
    protocol = "v5.channel.k8s.io"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._open = asyncio.Event()

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def messages(self) -> AsyncIterator[bytes]:
        yield b"\x00input"
        await self._open.wait()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self._open.set()


@asynccontextmanager
async def with_kubelet(directory: Path) -> AsyncIterator[ApiServer]:
    endpoint = Endpoint(FakeAnswers(), directory)
    await endpoint.start()
    try:
        async with ApiServer(kubelet=directory) as server:
            await scheduled(server)
            yield server
    finally:
        await endpoint.close()


async def scheduled(server: ApiServer) -> None:
    client = server.client()
    await client.create(Node, {"metadata": {"name": "n"}})
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}
    await server.settle()
    await client.create(Pod, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})


async def ask(server: ApiServer, subresource: str, **query: list[str]) -> Reply:
    method = "GET" if subresource == "log" else "POST"
    return await server.handle(Request(method, Pod.path("default", "p", subresource), query, user=LOOPBACK))


async def body(reply: Reply) -> bytes:
    return reply.body if isinstance(reply.body, bytes) else b"".join([piece async for piece in reply.body])


async def test_log_is_streamed_from_the_kubelet(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        reply = await ask(server, "log", tailLines=["5"])
        assert (reply.status, reply.content_type) == (200, "text/plain")
        assert await body(reply) == b"default/p/c\ntail 5\n"


async def test_what_the_kubelet_refuses_is_a_bad_request(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        reply = await ask(server, "log", previous=["true"])
        assert reply.status == 400
        assert b"previous terminated container not found" in await body(reply)


async def test_exec_passes_frames_through(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        reply = await ask(server, "exec", command=["ls", "-l"], stdout=["true"], stdin=["true"])
        assert reply.upgrade is not None
        assert "v5.channel.k8s.io" in reply.upgrade.protocols
        socket = FakeSocket()
        await reply.upgrade.run(socket)
        output, status = socket.sent
        assert output == b"\x01c ls -l"
        assert status.startswith(b"\x03")
        assert b"command terminated with non-zero exit code: exit status 3" in status


async def test_without_a_kubelet_it_says_so() -> None:
    async with ApiServer() as server:
        await scheduled(server)
        reply = await ask(server, "log")
        assert reply.status == 500
        assert b"no kubelet answers for containerLogs/default/p/c" in await body(reply)
        reply = await ask(server, "exec", command=["ls"], stdout=["true"])
        socket = FakeSocket()
        assert reply.upgrade is not None
        await reply.upgrade.run(socket)
        assert socket.sent[0].startswith(b"\x03")
        assert b"no kubelet answers for exec/default/p/c" in socket.sent[0]


@pytest.mark.parametrize("subresource", ["attach", "portforward"])
async def test_what_is_not_offered_is_said(subresource: str) -> None:
    async with ApiServer() as server:
        await scheduled(server)
        reply = await ask(server, subresource)
        assert reply.status == 405
