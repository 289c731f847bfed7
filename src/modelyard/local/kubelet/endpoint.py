"""The kubelet's own HTTP endpoint, for the API server: container logs and exec, on loopback, behind a token.

`GET /containerLogs/NAMESPACE/POD/CONTAINER` streams a log with the query of the API (`follow`, `tailLines`, ...).
`GET /exec/NAMESPACE/POD/CONTAINER?command=...` is a WebSocket in the channel protocol `v5.channel.k8s.io`, so the API server
passes frames through unread. Where it listens and its token are written to a file next to the API server's own.
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
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler, Middleware

from modelyard.local.kubelet.address import PROTOCOLS, Address
from modelyard.local.kubelet.logs import LogOptions
from modelyard.local.kubelet.runtime import NotRunning, StartFailed

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_END_OF_INPUT = b"\x04"


class BadQuestion(Exception):
    """The request names something that is not there; the text is for the user."""

    def __init__(self, message: str, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


class Answers(Protocol):
    """What the endpoint asks the kubelet for."""

    def log(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]: ...

    async def execute(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stdin: int, stdout: int, stderr: int
    ) -> asyncio.Future[int]: ...


class Endpoint:
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
                return web.Response(status=error.code, text=str(error))

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
        wants = {name: query.get(name, "") in ("true", "1") for name in ("stdin", "stdout", "stderr", "tty")}
        inner, outer = _terminal() if wants["tty"] else _pipes()
        failure: Exception | None = None
        done: asyncio.Future[int] | None = None
        try:
            done = await self._answers.execute(names["namespace"], names["pod"], names["container"], command, *inner)
        except (NotRunning, StartFailed) as error:
            failure = error
        except BaseException:
            for fd in outer:
                os.close(fd)
            raise
        finally:
            for fd in inner:
                os.close(fd)
        if isinstance(failure, NotRunning):
            for fd in outer:
                os.close(fd)
            raise BadQuestion(str(failure))
        ws = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
        await ws.prepare(request)
        if done is None:
            for fd in outer:
                os.close(fd)
            await _finish(ws, 126, f"failed to exec in container: {failure}")
            return ws
        if not wants["stdin"]:
            os.close(outer[0])
        await self._pump(ws, done, outer, wants)
        return ws

    async def _pump(
        self, ws: web.WebSocketResponse, done: asyncio.Future[int], ends: Sequence[int], wants: dict[str, bool]
    ) -> None:
        outputs = zip(ends[1:], (STDOUT, STDERR), (wants["stdout"], wants["stderr"]), strict=False)
        readers = [asyncio.create_task(_forward(ws, fd, channel, wanted)) for fd, channel, wanted in outputs]
        feeding = asyncio.create_task(_feed(ws, ends[0] if wants["stdin"] else None))
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
            while data := await reader.read(32768):
                if wanted:
                    await ws.send_bytes(bytes([channel]) + data)
    finally:
        transport.close()


async def _feed(ws: web.WebSocketResponse, descriptor: int | None) -> None:
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
    finally:
        if writer is not None:
            writer.close()


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
        since = now - timedelta(seconds=seconds)
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
