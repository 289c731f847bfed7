"""The kubelet's own HTTP endpoint, for the API server: logs, exec, attach, ports and usage, on loopback, behind a token.

`GET /containerLogs/NAMESPACE/POD/CONTAINER` streams a log with the query of the API (`follow`, `tailLines`, ...).
`GET /exec/NAMESPACE/POD/CONTAINER?command=...` is a WebSocket in the channel protocol `v5.channel.k8s.io`, so the API server
passes frames through unread; `/attach/NAMESPACE/POD/CONTAINER` is the same for the container's own program.
`GET /portForward/NAMESPACE/POD/PORT` is a WebSocket with the bytes of one connection; an empty message ends a direction.
`GET /usage` is what containers and the node use now, as JSON. Where it listens and its token are written to a file next to the API server's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hmac
import json
import os
import secrets
import socket
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler, Middleware

from modelyard.kube.times import later
from modelyard.local.kubelet.address import PROBLEM, PROTOCOLS, Address
from modelyard.local.kubelet.logs import LogOptions
from modelyard.local.kubelet.processes.runtime import NotRunning, StartFailed
from modelyard.local.kubelet.processes.usage import Usage

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_END_OF_INPUT = b"\x04"
_PIECE = 32768


class BadQuestion(Exception):
    """The request names something that is not there; the text is for the user."""

    def __init__(self, message: str, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Attached:
    """A client at a container's streams. `stdin` is where its input goes, None if the program reads none."""

    stdin: int | None
    close_input: Callable[[], Awaitable[None]]
    """Called when the client has no more input."""


class Answers(Protocol):
    """What the endpoint asks the kubelet for."""

    def log(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]: ...

    async def execute(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stdin: int, stdout: int, stderr: int
    ) -> asyncio.Future[int]: ...

    async def abandon(self, done: asyncio.Future[int]) -> None: ...

    async def attach(self, namespace: str, pod: str, container: str, stdout: int, stderr: int) -> Attached: ...

    def address_of(self, namespace: str, pod: str) -> str: ...

    async def usage(self) -> Usage: ...


class KubeletServer:
    def __init__(self, answers: Answers, directory: Path) -> None:
        self._answers = answers
        self._directory = directory
        self._token = secrets.token_urlsafe(32)
        self._runner: web.AppRunner | None = None
        self.address: Address | None = None

    async def start(self, host: str = "127.0.0.1") -> Address:
        app = web.Application(middlewares=[self._middleware()])
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        app.router.add_get("/attach/{namespace}/{pod}/{container}", self._attach)
        app.router.add_get("/portForward/{namespace}/{pod}/{port}", self._forward_port)
        app.router.add_get("/usage", self._usage)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.bind((host, 0))
        await web.SockSite(self._runner, sock).start()
        self.address = Address(host, sock.getsockname()[1], self._token)
        self.address.write(self._directory)
        return self.address

    def _middleware(self) -> Middleware:
        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                return web.Response(status=401, text="Unauthorized")
            try:
                return await handler(request)
            except BadQuestion as error:
                return web.Response(status=error.code, text=str(error), headers={PROBLEM: quote(str(error))})

        return guarded

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        options = log_options(request.query, datetime.now(UTC))
        names = request.match_info
        pieces = self._answers.log(names["namespace"], names["pod"], names["container"], options)
        response: web.StreamResponse | None = None
        try:
            async for piece in pieces:
                if response is None:
                    response = await _streaming(request)
                await response.write(piece)
        except ConnectionError:
            return response or web.Response()
        if response is None:
            return web.Response(text="", content_type="text/plain")
        await response.write_eof()
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        names, query = request.match_info, request.query
        command = query.getall("command", [])
        if not command:
            raise BadQuestion("you must specify at least 1 command for the container")
        wants = _wanted(query)
        inner, outer = _terminal() if wants["tty"] else _pipes()
        done: asyncio.Future[int] | None = None
        failure = ""
        with _handing_over(inner, outer):
            try:
                done = await self._answers.execute(
                    names["namespace"], names["pod"], names["container"], command, *inner
                )
            except NotRunning as error:
                raise BadQuestion(str(error)) from error
            except StartFailed as error:
                failure = str(error)
        ws = await _channels(request)
        if done is None:
            _close(outer)
            await _finish(ws, 126, f"failed to exec in container: {failure}")
            return ws
        if not wants["stdin"]:
            os.close(outer[0])
        readers = _readers(ws, outer[1:], wants)
        try:
            await self._pump(ws, done, readers, outer[0] if wants["stdin"] else None)
        finally:
            if not done.done():
                # The client is gone: nobody waits for what it asked for.
                await asyncio.shield(self._answers.abandon(done))
        return ws

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        wants = _wanted(request.query)
        inner, (unused, *outer) = _pipes()
        os.close(unused)
        with _handing_over(inner, outer):
            attached = await self._answers.attach(names["namespace"], names["pod"], names["container"], *inner[1:])
        ws = await _channels(request)
        stdin = attached.stdin
        if stdin is not None and not wants["stdin"]:
            os.close(stdin)
            stdin = None
        readers = _readers(ws, outer, wants)
        # It lasts as long as the container's program has its streams.
        ended = asyncio.ensure_future(_all_read(readers))
        try:
            await self._pump(ws, ended, readers, stdin, attached.close_input if stdin is not None else None)
        finally:
            ended.cancel()
        return ws

    async def _forward_port(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        port, address = names["port"], self._answers.address_of(names["namespace"], names["pod"])
        try:
            reader, writer = await asyncio.open_connection(address, int(port))
        except OSError as error:
            raise BadQuestion(
                f"nothing answers at port {port} of the pod ({address}): {error.strerror}", 502
            ) from error
        ws = web.WebSocketResponse(max_msg_size=0)
        await ws.prepare(request)
        receiving = asyncio.create_task(_to_port(ws, writer))
        try:
            while data := await reader.read(_PIECE):
                await ws.send_bytes(data)
            await ws.send_bytes(b"")
            await receiving
        except ConnectionError:
            pass
        finally:
            receiving.cancel()
            writer.close()
            await asyncio.gather(receiving, writer.wait_closed(), return_exceptions=True)
        return ws

    async def _usage(self, request: web.Request) -> web.StreamResponse:
        return web.json_response((await self._answers.usage()).data())

    async def _pump(
        self, ws: web.WebSocketResponse, done: asyncio.Future[int], readers: Sequence[asyncio.Task[None]], stdin: int | None,
        input_ended: Callable[[], Awaitable[None]] | None = None,
    ) -> None:  # fmt: skip
        feeding = asyncio.create_task(_feed(ws, stdin, input_ended))
        ended = asyncio.Event()
        try:
            feeding.add_done_callback(lambda _: ended.set())
            done.add_done_callback(lambda _: ended.set())
            await ended.wait()
            if not done.done() and ws.closed:
                return
            code = await asyncio.shield(done)
            # What a background process may still write does not hold up the answer.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await asyncio.gather(*readers)
            await _finish(ws, code, "")
        except (ConnectionError, NotRunning):
            return
        finally:
            for task in [*readers, feeding]:
                task.cancel()
            await asyncio.gather(*readers, feeding, return_exceptions=True)

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        Address.remove(self._directory)


def _wanted(query: Mapping[str, str]) -> dict[str, bool]:
    return {name: query.get(name, "") in ("true", "1") for name in ("stdin", "stdout", "stderr", "tty")}


async def _channels(request: web.Request) -> web.WebSocketResponse:
    """The connection of a remote command."""
    ws = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
    await ws.prepare(request)
    return ws


@contextlib.contextmanager
def _handing_over(inner: Sequence[int], outer: Sequence[int]) -> Iterator[None]:
    """The block gives copies of the inner ends to a program, so ours are closed after it; if it fails, so are the outer ends."""
    try:
        yield
    except BaseException:
        _close(outer)
        raise
    finally:
        _close(inner)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _readers(ws: web.WebSocketResponse, outputs: Sequence[int], wants: Mapping[str, bool]) -> list[asyncio.Task[None]]:
    channels = zip(outputs, (STDOUT, STDERR), (wants["stdout"], wants["stderr"]), strict=False)
    return [asyncio.create_task(_forward(ws, fd, channel, wanted)) for fd, channel, wanted in channels]


async def _all_read(readers: Sequence[asyncio.Task[None]]) -> int:
    await asyncio.gather(*readers)
    return 0


async def _to_port(ws: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """What the client sends, to the pod; when it has no more, the pod reads the end."""
    with contextlib.suppress(ConnectionError):
        async for message in ws:
            if message.type is not WSMsgType.BINARY:
                continue
            if not message.data:
                writer.write_eof()
                continue
            writer.write(message.data)
            await writer.drain()
    # The client is gone, not only done: the pod's program must not write to nobody.
    writer.close()


async def _streaming(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    return response


async def _finish(ws: web.WebSocketResponse, code: int, message: str) -> None:
    """The closing Status on the error channel, as remote commands end."""
    status: dict[str, object] = {"metadata": {}, "status": "Success"}
    if code != 0:
        text = message or f"command terminated with non-zero exit code: exit status {code}"
        causes = [{"reason": "ExitCode", "message": str(code)}]
        status = {
            "metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode", "details": {"causes": causes},
        }  # fmt: skip
    await ws.send_bytes(bytes([ERROR]) + json.dumps(status).encode())
    await ws.close()


def _pipes() -> tuple[tuple[int, int, int], Sequence[int]]:
    """Three pipes: the command's ends of stdin, stdout and stderr, and ours."""
    stdin, stdout, stderr = (os.pipe() for _ in range(3))
    return (stdin[0], stdout[1], stderr[1]), (stdin[1], stdout[0], stderr[0])


def _terminal() -> tuple[tuple[int, int, int], Sequence[int]]:
    """A terminal: the command has it three times, we write to it and read from it; stderr comes with stdout."""
    ours, theirs = os.openpty()
    return (theirs, os.dup(theirs), os.dup(theirs)), (os.dup(ours), ours)


async def _forward(ws: web.WebSocketResponse, descriptor: int, channel: int, wanted: bool) -> None:
    """What the command writes, to the client, until it closes its end."""
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    try:
        # A terminal whose last user has gone reads as an error.
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                if wanted:
                    await ws.send_bytes(bytes([channel]) + data)
    finally:
        transport.close()


async def _feed(
    ws: web.WebSocketResponse, descriptor: int | None, input_ended: Callable[[], Awaitable[None]] | None
) -> None:
    """What the client sends, to the command, until either is done."""
    loop = asyncio.get_running_loop()
    writer: asyncio.WriteTransport | None = None
    terminal = descriptor is not None and os.isatty(descriptor)
    if descriptor is not None:
        file = os.fdopen(descriptor, "wb", buffering=0)
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, file)
    try:
        async for message in ws:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == STDIN and writer is not None:
                writer.write(data)
            elif channel == RESIZE and terminal and descriptor is not None:
                _resize(descriptor, data)
            elif channel == CLOSE and data[:1] == bytes([STDIN]) and writer is not None:
                if terminal:
                    writer.write(_END_OF_INPUT)
                    continue
                writer.close()
                writer = None
                if input_ended is not None:
                    await input_ended()
    finally:
        if writer is not None:
            writer.close()
            if input_ended is not None:
                await input_ended()


def _resize(terminal: int, data: bytes) -> None:
    with contextlib.suppress(ValueError, KeyError, TypeError, struct.error):
        size = json.loads(data)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))


def log_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """The API's log query; raises `BadQuestion` for values that make no sense."""

    def flag(name: str) -> bool:
        return query.get(name, "").lower() in ("true", "1")

    def number(name: str) -> int | None:
        text = query.get(name)
        if text is None or text == "":
            return None
        try:
            value = int(text)
        except ValueError:
            raise BadQuestion(f"{name}={text}: must be a number") from None
        if value < 0:
            raise BadQuestion(f"{name}={text}: must not be negative")
        return value

    since: datetime | None = None
    seconds = number("sinceSeconds")
    if seconds is not None:
        since = later(now, -seconds)
    elif query.get("sinceTime"):
        try:
            since = datetime.fromisoformat(query["sinceTime"])
        except ValueError:
            raise BadQuestion(f"sinceTime={query['sinceTime']}: must be a time like 2030-01-31T12:00:00Z") from None
    stream = query.get("stream", "")
    return LogOptions(
        follow=flag("follow"), previous=flag("previous"), timestamps=flag("timestamps"), tail=number("tailLines"),
        since=since, limit_bytes=number("limitBytes"), stream="" if stream == "All" else stream,
    )  # fmt: skip
