"""Logs, remote commands, ports and usage through a kubelet: what is passed on, and what is said where there is none."""

from __future__ import annotations

import asyncio
import os
import struct
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from modelyard.kube.builtin import Node, Pod
from modelyard.kube.errors import Forbidden, NotFound
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.messages import LOOPBACK, Reply, Request
from modelyard.local.apiserver.sockets.spdy import DICTIONARY
from modelyard.local.kubelet.endpoint import Attached, BadQuestion, KubeletServer
from modelyard.local.kubelet.logs import LogOptions
from modelyard.local.kubelet.processes.usage import Usage, Used


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

    async def abandon(self, done: asyncio.Future[int]) -> None:
        done.cancel()

    async def attach(self, namespace: str, pod: str, container: str, stdout: int, stderr: int) -> Attached:
        os.write(stdout, f"at {container}".encode())

        async def close_input() -> None:
            return None

        return Attached(None, close_input)

    def address_of(self, namespace: str, pod: str) -> str:
        return "127.0.0.1"

    async def usage(self) -> Usage:
        containers = {("default", "p", "c"): Used(0.25, 3 << 20), ("default", "gone", "c"): Used(1, 1)}
        return Usage(Used(1.5, 4 << 30), containers, 1_893_456_000, 5.0)


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
    endpoint = KubeletServer(FakeAnswers(), directory)
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


async def test_attach_passes_frames_through_until_the_program_ends(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        reply = await ask(server, "attach", stdout=["true"])
        assert reply.upgrade is not None
        socket = FakeSocket()
        await asyncio.wait_for(reply.upgrade.run(socket), 10)
        assert socket.sent[0] == b"\x01at c"
        assert b'"Success"' in socket.sent[-1]


async def echo_server() -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


class Pipe:
    """The server's end of a connection, held by a test."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = bytearray()
        self.closed = asyncio.Event()

    async def receive(self) -> bytes:
        return await self.incoming.get()

    async def send(self, data: bytes) -> None:
        self.sent += data

    async def close(self) -> None:
        self.closed.set()


class SpdyClient:
    """The client's frames, written by hand."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, number: int, *, fin: bool = False, **headers: str) -> bytes:
        block = struct.pack("!I", len(headers))
        for name, value in headers.items():
            block += b"".join(struct.pack("!I", len(word)) + word.encode() for word in (name, value))
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack("!IIH", number, 0, 0) + packed
        return struct.pack("!II", 0x80030001, fin << 24 | len(payload)) + payload

    def data(self, number: int, data: bytes, *, fin: bool = False) -> bytes:
        return struct.pack("!II", number, fin << 24 | len(data)) + data

    def read(self, sent: bytes) -> dict[int, tuple[bytes, bool]]:
        """What streams were sent, and whether they were ended."""
        found: dict[int, tuple[bytes, bool]] = {}
        while sent:
            word, size = struct.unpack("!II", sent[:8])
            payload, sent = sent[8 : 8 + (size & 0xFFFFFF)], sent[8 + (size & 0xFFFFFF) :]
            if not word >> 31:
                before, _ = found.get(word, (b"", False))
                found[word] = (before + payload, bool(size >> 24))
        return found


def test_the_dictionary_is_the_protocols() -> None:
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


async def test_connections_of_one_spdy_client_are_forwarded_and_a_closed_port_is_said(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        echo = await echo_server()
        port = echo.sockets[0].getsockname()[1]
        reply = await ask(server, "portforward")
        assert reply.upgrade is not None
        assert reply.upgrade.run_spdy is not None
        pipe, client = Pipe(), SpdyClient()
        running = asyncio.ensure_future(reply.upgrade.run_spdy(pipe, "portforward.k8s.io"))
        for number, wanted in ((1, str(port)), (5, "1")):
            request = str(number)
            pipe.incoming.put_nowait(client.open(number, fin=True, streamtype="error", port=wanted, requestid=request))
            pipe.incoming.put_nowait(client.open(number + 2, streamtype="data", port=wanted, requestid=request))
        pipe.incoming.put_nowait(client.data(3, b"he"))
        pipe.incoming.put_nowait(client.data(3, b"llo", fin=True))
        async with asyncio.timeout(10):
            while not {1, 3, 5} <= {number for number, (_, end) in client.read(bytes(pipe.sent)).items() if end}:
                await asyncio.sleep(0.01)
        found = client.read(bytes(pipe.sent))
        assert found[3] == (b"HELLO", True)
        assert found[1] == (b"", True)
        assert found[5][0].startswith(b"error forwarding port 1: nothing answers at port 1 of the pod")
        pipe.incoming.put_nowait(b"")
        await asyncio.wait_for(running, 10)
        assert pipe.closed.is_set()
        echo.close()


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 64, b"\x80\x03\x00\x01\x00\x00\x00\x10" + b"x" * 16, b"\0\0\0\1\0\0\0\1z"]
)
async def test_bytes_that_are_not_spdy_end_the_connection(tmp_path: Path, garbage: bytes) -> None:
    async with with_kubelet(tmp_path) as server:
        for subresource in ("portforward", "attach"):
            reply = await ask(server, subresource)
            assert reply.upgrade is not None
            assert reply.upgrade.run_spdy is not None
            pipe = Pipe()
            running = asyncio.ensure_future(reply.upgrade.run_spdy(pipe, "v4.channel.k8s.io"))
            pipe.incoming.put_nowait(garbage)
            pipe.incoming.put_nowait(b"")
            await asyncio.wait_for(running, 10)


async def test_remote_commands_run_over_spdy(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        reply = await ask(server, "exec", command=["ls"], stdout=["true"])
        assert reply.upgrade is not None
        assert reply.upgrade.run_spdy is not None
        pipe, client = Pipe(), SpdyClient()
        running = asyncio.ensure_future(reply.upgrade.run_spdy(pipe, "v4.channel.k8s.io"))
        pipe.incoming.put_nowait(client.open(1, streamtype="error"))
        pipe.incoming.put_nowait(client.open(3, streamtype="stdout"))
        async with asyncio.timeout(10):
            while not client.read(bytes(pipe.sent)).get(1, (b"", False))[1]:
                await asyncio.sleep(0.01)
        found = client.read(bytes(pipe.sent))
        assert found[3] == (b"c ls", True)
        assert b'"ExitCode"' in found[1][0]
        pipe.incoming.put_nowait(b"")
        await asyncio.wait_for(running, 10)


async def test_a_client_that_speaks_channels_forwards_too(tmp_path: Path) -> None:
    """The Python client's way: the numbers of ports in the query, two channels for each."""

    class Socket(FakeSocket):
        protocol = "v4.channel.k8s.io"

        async def messages(self) -> AsyncIterator[bytes]:
            yield b"\x00hello\n"
            await self._open.wait()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    async with with_kubelet(tmp_path) as server:
        echo = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = echo.sockets[0].getsockname()[1]
        reply = await ask(server, "portforward", ports=[str(port)])
        assert reply.upgrade is not None
        socket = Socket()
        await asyncio.wait_for(reply.upgrade.run(socket), 10)
        number = port.to_bytes(2, "little")
        assert socket.sent == [b"\x00" + number, b"\x01" + number, b"\x00HELLO\n"]
        echo.close()


async def test_metrics_are_what_the_kubelet_measured(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        client = server.client()
        base = "/apis/metrics.k8s.io/v1beta1"
        pods = await client.object("GET", f"{base}/namespaces/default/pods")
        (pod,) = pods["items"]
        assert (pods["kind"], pod["kind"], pod["metadata"]["name"]) == ("PodMetricsList", "PodMetrics", "p")
        assert pod["containers"] == [{"name": "c", "usage": {"cpu": "250000000n", "memory": "3072Ki"}}]
        assert (pod["timestamp"], pod["window"]) == ("2030-01-01T00:00:00Z", "5.000s")
        assert (await client.object("GET", f"{base}/nodes/n"))["usage"]["cpu"] == "1500000000n"
        with pytest.raises(NotFound):
            await client.object("GET", f"{base}/namespaces/default/pods/other")
        groups = await client.object("GET", "/apis")
        assert "metrics.k8s.io" in [group["name"] for group in groups["groups"]]
        assert await client.object("GET", "/openapi/v2")


async def test_a_server_without_a_kubelet_has_no_metrics() -> None:
    async with ApiServer() as server:
        with pytest.raises(NotFound):
            await server.client().object("GET", "/apis/metrics.k8s.io/v1beta1/nodes")


async def test_ephemeral_containers_are_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    async with with_kubelet(tmp_path) as server:
        container = {"name": "debugger", "image": "busybox"}
        with pytest.raises(Forbidden, match="runs no ephemeral containers; look into the pod with kubectl exec"):
            await server.client().patch(
                Pod, "default", "p", {"spec": {"ephemeralContainers": [container]}}, subresource="ephemeralcontainers"
            )
