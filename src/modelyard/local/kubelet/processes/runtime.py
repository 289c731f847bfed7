"""The kubelet's line to the keeper: start, signal and watch processes, run commands inside, from asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelyard.local.kubelet.processes import keeper, line, namespaces


class StartFailed(Exception):
    """The program could not be run; the text is what the runtime of a cluster would say."""


class NotRunning(Exception):
    """The container asked for has no process."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything the keeper needs to start one container."""

    identity: str
    argv: Sequence[str]
    env: dict[str, str]
    cwd: str
    log: Path
    mode: str
    plan: namespaces.Plan = field(default_factory=dict)
    wrapper: Sequence[str] = ()
    hostname: str = "localhost"
    uid: int = 0
    gid: int = 0
    groups: Sequence[int] = ()
    capabilities: Sequence[int] = ()
    """What of root's power it keeps, if it runs as root."""
    stdin: bool = False
    """Whether the program reads what attached clients write; without, its input is empty."""
    tty: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    signal: int
    finished: int


@dataclass(frozen=True, slots=True)
class Process:
    identity: str
    pid: int
    started: int
    exit: Exit | None


ExitListener = Callable[[str, Exit], None]


class Runtime:
    """Speaks with one keeper. `on_exit` is called for every container that ends, `on_lost` when the keeper died."""

    def __init__(self, directory: Path, *, linger: float = 10.0) -> None:
        self._directory = directory
        self._linger = linger
        self._sequence = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sending = asyncio.Lock()
        self._execs: dict[str, asyncio.Future[int]] = {}
        self._received: list[int] = []
        self._sock: socket.socket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._closing = False
        self.on_exit: ExitListener = lambda identity, exit: None
        self.on_lost: Callable[[], None] = lambda: None

    async def connect(self) -> list[Process]:
        """Find the keeper of this directory or start one; the processes it holds from before are returned."""
        # Containers must not reach the socket and the secret in it, whoever they run as.
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        sock = self._dial()
        if sock is None:
            kill_strays(str(self._directory))
            self._spawn_keeper()
            for _ in range(500):
                sock = self._dial()
                if sock is not None:
                    break
                if self._child is not None and self._child.poll() is not None:
                    break
                await asyncio.sleep(0.01)
        if sock is None:
            raise RuntimeError(f"the keeper process of {self._directory} did not start")
        sock.setblocking(False)
        self._sock = sock
        self._reader = asyncio.create_task(self._read(sock), name="keeper-reader")
        reply = await self._request({"op": "list"})
        return [_process(item) for item in reply["processes"]]

    def _dial(self) -> socket.socket | None:
        return line.dial(str(self._directory))

    def _spawn_keeper(self) -> None:
        root = str(Path(keeper.__file__).parents[4])
        with (self._directory / "keeper.log").open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-S", "-B", "-m", keeper.__name__, str(self._directory), str(self._linger)],
                env={"PYTHONPATH": root, "PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )

    async def _read(self, sock: socket.socket) -> None:
        buffer = bytearray()
        while True:
            try:
                data, descriptors = await _receive(sock)
            except OSError:
                data, descriptors = b"", []
            if not data:
                break
            buffer += data
            self._received += descriptors
            for message in line.unpack(buffer):
                self._receive(message)
        gone = NotRunning("the keeper of the containers is gone")
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(gone)
        for execution in self._execs.values():
            if not execution.done():
                execution.set_exception(gone)
        self._replies.clear()
        self._execs.clear()
        if not self._closing:
            self._sock = None
            if self._child is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(1)
            self.on_lost()

    def _receive(self, message: dict[str, Any]) -> None:
        if message.get("event") == "exited":
            exit = Exit(message["code"], message["signal"], message["finished"])
            if message.get("of"):
                future = self._execs.pop(message["id"], None)
                if future is not None and not future.done():
                    future.set_result(exit.code)
            else:
                self.on_exit(message["id"], exit)
            return
        count = message.get("fds", 0)
        descriptors, self._received = self._received[:count], self._received[count:]
        reply = self._replies.pop(message.get("seq", 0), None)
        if reply is not None and not reply.done():
            reply.set_result({**message, "descriptors": descriptors})
            return
        for descriptor in descriptors:
            os.close(descriptor)

    async def _request(self, message: dict[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        if self._sock is None:
            raise NotRunning("the keeper of the containers is gone")
        sequence = next(self._sequence)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[sequence] = future
        data = line.pack({**message, "seq": sequence})
        # One at a time: of two who wait for room in the socket's buffer, the loop would forget the first.
        async with self._sending:
            await _send(self._sock, data, fds)
        return await future

    async def start(self, launch: Launch) -> Process:
        reply = await self._request(
            {
                "op": "start",
                "id": launch.identity,
                "argv": list(launch.argv),
                "env": launch.env | {keeper.MARKER: launch.identity},
                "cwd": launch.cwd,
                "log": str(launch.log),
                "mode": launch.mode,
                "plan": launch.plan,
                "wrapper": list(launch.wrapper),
                "hostname": launch.hostname,
                "uid": launch.uid,
                "gid": launch.gid,
                "groups": list(launch.groups),
                "capabilities": list(launch.capabilities),
                "stdin": launch.stdin,
                "tty": launch.tty,
            }
        )
        if "error" in reply:
            raise StartFailed(reply["error"])
        return Process(launch.identity, reply["pid"], reply["started"], None)

    async def signal(self, identity: str, number: int = signal.SIGTERM) -> None:
        await self._request({"op": "signal", "id": identity, "signal": int(number)})

    async def kill(self, identity: str) -> None:
        """SIGKILL to the leader and everything of its container."""
        await self._request({"op": "kill", "id": identity})

    async def forget(self, identity: str) -> None:
        """The exit of this container has been recorded; the keeper need not remember it."""
        with contextlib.suppress(NotRunning):
            await self._request({"op": "forget", "id": identity})

    async def execute(
        self, container: str, argv: Sequence[str], stdin: int, stdout: int, stderr: int
    ) -> asyncio.Future[int]:
        """Run a command inside a container on the given descriptors; the future holds its exit code."""
        identity = f"exec-{next(self._sequence)}-{os.getpid()}"
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._execs[identity] = done
        message = {"op": "exec", "id": identity, "of": container, "argv": list(argv), "fds": 3}
        try:
            reply = await self._request(message, (stdin, stdout, stderr))
        except BaseException:
            self._execs.pop(identity, None)
            raise
        if "error" in reply:
            self._execs.pop(identity, None)
            if reply.get("step") == "find":
                raise NotRunning(reply["error"])
            raise StartFailed(reply["error"])
        done.add_done_callback(lambda _: None)
        return done

    async def attach(self, container: str, stdout: int, stderr: int) -> int | None:
        """From now on a container's output also goes to these descriptors; gives one for its input if it has any."""
        reply = await self._request({"op": "attach", "id": container, "fds": 2}, (stdout, stderr))
        if "error" in reply:
            raise NotRunning(reply["error"])
        descriptors: list[int] = reply["descriptors"]
        return descriptors[0] if descriptors else None

    async def close_input(self, container: str) -> None:
        """The container's program reads the end of its input (a terminal has none)."""
        with contextlib.suppress(NotRunning):
            await self._request({"op": "close_input", "id": container})

    async def abandon(self, done: asyncio.Future[int]) -> None:
        """Kill a command started by `execute`, for instance because its caller's time is up."""
        identity = next((name for name, future in self._execs.items() if future is done), None)
        if identity is not None:
            with contextlib.suppress(NotRunning):
                await self._request({"op": "kill", "id": identity})

    async def close(self, *, shutdown: bool) -> None:
        """Let go of the keeper; with `shutdown` it kills what still runs and exits."""
        self._closing = True
        if self._sock is not None:
            if shutdown:
                with contextlib.suppress(NotRunning, OSError):
                    await self._request({"op": "shutdown"})
            if self._reader is not None:
                if shutdown:
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(asyncio.shield(self._reader), 5)
                self._reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._reader
            self._sock.close()
            self._sock = None
        if shutdown and self._child is not None:
            await asyncio.to_thread(self._child.wait, 10)
        elif self._child is not None:
            self._child.returncode = 0  # it lives on by design; the warning about a running child is not for us


async def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    loop = asyncio.get_running_loop()
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(sock, 65536, 16)
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_reader(sock, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(sock)
        else:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            return data, descriptors


async def _send(sock: socket.socket, data: bytes, fds: Sequence[int]) -> None:
    loop = asyncio.get_running_loop()
    while fds:
        try:
            data = data[socket.send_fds(sock, [data], list(fds)) :]
            break
        except BlockingIOError:
            room = asyncio.Event()
            loop.add_writer(sock, room.set)
            try:
                await room.wait()
            finally:
                loop.remove_writer(sock)
    await loop.sock_sendall(sock, data)


def _process(item: dict[str, Any]) -> Process:
    exit = item["exit"]
    return Process(
        item["id"], item["pid"], item["started"], Exit(exit["code"], exit["signal"], exit["finished"]) if exit else None
    )


def kill_strays(directory: str) -> list[int]:
    """Kill what an earlier keeper of this directory left, which can only be if both were killed in the same instant."""
    killed = []
    for process in container_processes(directory):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
            killed.append(process)
    return killed


def container_processes(directory: str) -> list[int]:
    """The processes of all containers of this directory, also those that a container started with another environment."""
    mark = f"{keeper.MARKER}={scope(directory)}/".encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for process in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        if process == os.getpid():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{process}/stat") as file:
                parents[process] = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{process}/environ", "rb") as file:
                if any(item.startswith(mark) for item in file.read().split(b"\0")):
                    found.add(process)
    while more := {process for process, parent in parents.items() if parent in found and process not in found}:
        found |= more
    return sorted(found)


def scope(directory: str) -> str:
    """A short name of the directory; the first part of every container's identity, so two clusters never mix."""
    return hashlib.sha256(os.path.realpath(directory).encode()).hexdigest()[:12]
