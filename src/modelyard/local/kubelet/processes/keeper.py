"""The keeper: one small process that owns every container process of a cluster, keeps their logs and outlives no one.

It is a process of its own so that a crash of the kubelet does not stop the pods. When no kubelet has been connected for
`linger` seconds it kills all it started and exits; if it is killed itself, the kernel kills its containers (parent-death
signal, PID namespaces). Only the standard library is imported: it costs a few megabytes for all pods together.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

from modelyard.local.kubelet.processes import children, line, namespaces
from modelyard.local.kubelet.processes.attachments import Copies, Streams
from modelyard.local.kubelet.processes.line import Message
from modelyard.local.kubelet.processes.logfile import LogFile

MARKER: Final = "MODELYARD_CONTAINER"
"""Environment variable that names the container a process belongs to; how strays are recognised."""

COMMAND: Final = "MODELYARD_COMMAND"
"""The same for a command run inside a container."""
_READ: Final = 65536
_STRANGERS: Final = 16
"""Connections that have not shown the secret yet; of more, the oldest is closed."""


class Connection:
    """Somebody at the socket: a stranger at first, the kubelet once the secret has been shown."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = bytearray()
        self.fds: list[int] = []

    def send(self, message: Message, descriptors: list[int] | None = None) -> None:
        # The kubelet reads all the time; a message is far smaller than the socket's buffer.
        data = line.pack(message)
        with contextlib.suppress(OSError):
            self.sock.setblocking(True)
            if descriptors:
                data = data[socket.send_fds(self.sock, [data], descriptors) :]
            self.sock.sendall(data)
        self.sock.setblocking(False)


class Process:
    """A container's leader, or a command run inside a container (`of` is then the container's id)."""

    def __init__(self, identity: str, request: Message, pid: int) -> None:
        self.identity = identity
        self.request = request
        self.pid = pid
        self.inner_pid = pid
        self.started = time.time_ns()
        self.exit: Message | None = None
        self.of: str = request.get("of", "")
        self.streams: Streams | None = None
        self.input = -1

    def close_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
            self.input = -1

    def summary(self) -> Message:
        return {"id": self.identity, "pid": self.inner_pid, "started": self.started, "exit": self.exit}


class Keeper:
    def __init__(self, directory: str, linger: float) -> None:
        self._linger = linger
        self._deadline: float | None = time.monotonic() + max(linger, 5.0)
        self._selector = selectors.DefaultSelector()
        self._processes: dict[str, Process] = {}
        self._logs: dict[int, tuple[str, LogFile, str]] = {}
        self._open_streams: dict[str, int] = {}
        self._copies = Copies()
        self._connection: Connection | None = None
        self._strangers: list[Connection] = []
        self._stopping = False
        self._secret = line.secret_of(directory)
        self._listener, self._lock = line.listen(directory)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        namespaces.prctl(namespaces.PR_SET_CHILD_SUBREAPER, 1)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._wake = wake_read
        self._selector.register(wake_read, selectors.EVENT_READ, self._woken)

    def run(self) -> None:
        while not self._stopping:
            timeout = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            for key, _ in self._selector.select(timeout):
                callback: Callable[[], None] = key.data
                callback()
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._stopping = True
        self._kill_everything()

    def _on_term(self, *_: object) -> None:
        self._stopping = True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        if line.peer_uid(sock) != os.getuid():
            sock.close()
            return
        if len(self._strangers) >= _STRANGERS:
            self._drop(self._strangers[0])
        sock.setblocking(False)
        connection = Connection(sock)
        self._strangers.append(connection)
        self._selector.register(sock, selectors.EVENT_READ, lambda: self._receive(connection))

    def _welcome(self, connection: Connection) -> bool:
        """Whether this is the kubelet. One that has shown the secret replaces the one before; nobody else changes anything."""
        if connection is self._connection:
            return True
        try:
            message = line.greeting(connection.buffer)
        except line.Malformed:
            self._drop(connection)
            return False
        if message is None:
            return False
        if not line.knows(message, self._secret):
            self._drop(connection)
            return False
        self._strangers.remove(connection)
        if self._connection is not None:
            self._drop(self._connection)
        self._connection = connection
        self._deadline = None
        return True

    def _drop(self, connection: Connection) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)
        connection.sock.close()
        for fd in connection.fds:
            os.close(fd)
        connection.fds.clear()
        if connection in self._strangers:
            self._strangers.remove(connection)
        if self._connection is connection:
            self._connection = None
            self._deadline = time.monotonic() + self._linger
            # Nobody is left to read what they say or to hear how they end.
            for process in [process for process in self._processes.values() if process.of]:
                self._kill(process)

    def _receive(self, connection: Connection) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(connection.sock, _READ, 16)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._drop(connection)
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        connection.fds += fds
        connection.buffer += data
        if not self._welcome(connection):
            return
        for message in line.unpack(connection.buffer):
            try:
                reply = self._handle(connection, message)
            except OSError as error:
                reply = {"error": str(error.strerror or error), "step": "start"}
            except (KeyError, ValueError, TypeError) as error:
                reply = {"error": f"malformed request: {error!r}", "step": "request"}
            descriptors: list[int] = reply.pop("descriptors", [])
            connection.send({"seq": message.get("seq", 0), "fds": len(descriptors), **reply}, descriptors)

    def _handle(self, connection: Connection, message: Message) -> Message:
        match message["op"]:
            case "start":
                return self._start(message)
            case "exec" | "attach":
                count = int(message["fds"])
                fds, connection.fds = connection.fds[:count], connection.fds[count:]
                try:
                    return self._execute(message, fds) if message["op"] == "exec" else self._attach(message, fds)
                finally:
                    for fd in fds:
                        os.close(fd)
            case "signal":
                return self._signal(message["id"], int(message["signal"]))
            case "kill":
                process = self._processes.get(message["id"])
                if process is not None and process.exit is None:
                    self._kill(process)
                return {}
            case "close_input":
                process = self._processes.get(message["id"])
                if process is not None and process.streams is not None and not process.streams.terminal:
                    process.close_input()
                return {}
            case "list":
                return {"processes": [process.summary() for process in self._processes.values()]}
            case "forget":
                process = self._processes.get(message["id"])
                if process is not None and process.exit is not None:
                    del self._processes[message["id"]]
                return {}
            case "shutdown":
                self._stopping = True
                return {}
            case other:
                return {"error": f"unknown operation {other!r}", "step": "request"}

    def _notify(self, message: Message) -> None:
        if self._connection is not None:
            self._connection.send(message)

    def _start(self, request: Message) -> Message:
        identity = request["id"]
        if identity in self._processes:
            raise ValueError(f"{identity} exists")
        os.makedirs(os.path.dirname(request["log"]), exist_ok=True)
        streams = Streams.make(stdin=request.get("stdin", False), tty=request.get("tty", False))
        info_read, info_write = os.pipe2(os.O_CLOEXEC)
        try:
            pid, failure = self._spawn(request, streams.program, info_write)
        finally:
            os.close(info_write)
            streams.close_program()
        if failure:
            os.close(info_read)
            streams.close_ours()
            return {"error": failure, "step": "exec"}
        process = Process(identity, request, pid)
        process.streams, process.input = streams, streams.input
        if request["mode"] == "bubblewrap":
            process.inner_pid = children.bubblewrap_child(info_read) or pid
        os.close(info_read)
        self._processes[identity] = process
        log = LogFile(request["log"], request.get("log_max_bytes", 10 << 20), request.get("log_max_files", 5))
        self._open_streams[identity] = len(streams.outputs)
        for fd, stream in streams.outputs:
            self._logs[fd] = (identity, log, stream)
            self._selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._drain(fd))
        return {"pid": process.inner_pid, "started": process.started}

    def _spawn(self, request: Message, streams: tuple[int, int, int], info: int) -> tuple[int, str]:
        """Fork and exec; the second value is why the program could not be run ("" if it does)."""
        flags = 0
        if request["mode"] == "namespaces":
            flags = namespaces.CONTAINER
            if os.getuid() != 0:
                flags |= namespaces.CLONE_NEWUSER
        failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        owner = (os.getuid(), os.getgid())
        pid = namespaces.clone(flags) if flags else os.fork()
        if pid == 0:
            try:
                os.close(failed_read)
                self._child(request, streams, info, owner, 0 if flags else parent)
            except BaseException as error:
                text = (error.strerror if isinstance(error, OSError) else "") or str(error) or repr(error)
                name = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
                os.write(failed_write, f"{name}{text}".encode())
            os._exit(127)
        os.close(failed_write)
        failure = b""
        while chunk := os.read(failed_read, 4096):
            failure += chunk
        os.close(failed_read)
        if failure:
            os.waitpid(pid, 0)
        return pid, failure.decode(errors="replace")

    def _child(
        self, request: Message, streams: tuple[int, int, int], info: int, owner: tuple[int, int], parent: int
    ) -> None:
        children.reset_signals()
        os.setsid()
        uid, gid = request["uid"], request["gid"]
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")
        if request["mode"] == "namespaces":
            if owner[0] != 0:
                namespaces.map_user(uid, gid, *owner)
            namespaces.hide_from_containers()
            namespaces.sethostname(request["hostname"])
            namespaces.enter_root(request["plan"])
        children.redirect(streams)
        env: dict[str, str] = children.control_terminal(request["env"])
        argv: list[str] = request["argv"]
        os.umask(0o022)
        if request["mode"] == "bubblewrap":
            argv = children.wrapped(request["wrapper"], request["plan"]["mounts"], argv, env, info)
            # What the pod says about its environment holds inside only: bubblewrap itself runs outside.
            env = {MARKER: request["id"]}
        else:
            os.chdir(request["cwd"])
            namespaces.become(uid, gid, request.get("groups", []), request.get("capabilities", []))
        # After become(): a change of credentials clears the parent-death signal.
        namespaces.die_with_parent(parent)
        children.execute_program(argv, env)

    def _execute(self, request: Message, streams: list[int]) -> Message:
        process = self._processes.get(request["of"])
        if process is None or process.exit is not None:
            return {"error": "container not running", "step": "find"}
        failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                # Seen from inside, this process would hold what the keeper holds: nothing to look into, nothing to take.
                namespaces.hide_from_containers()
                children.reset_signals()
                os.setsid()
                children.redirect((streams[0], streams[1], streams[2]))
                children.close_all_but(failed_write)
                self._run_inside(process, request, failed_write, parent)
            except BaseException as error:
                text = error.strerror or str(error) if isinstance(error, OSError) else repr(error)
                os.write(failed_write, text.encode())
            os._exit(126)
        os.close(failed_write)
        failure = os.read(failed_read, 4096)
        os.close(failed_read)
        if failure:
            os.waitpid(pid, 0)
            return {"error": failure.decode(errors="replace"), "step": "exec"}
        self._processes[request["id"]] = Process(request["id"], request, pid)
        return {"pid": pid}

    def _run_inside(self, process: Process, command: Message, failed: int, parent: int) -> None:
        request = process.request
        if request["mode"] != "plain":
            namespaces.join(process.inner_pid)
        namespaces.die_with_parent(parent)
        child = os.fork()
        if child == 0:
            try:
                os.chdir(request["cwd"] if os.path.isdir(request["cwd"]) else "/")
                namespaces.become(
                    request["uid"], request["gid"], request.get("groups", []), request.get("capabilities", [])
                )
                namespaces.die_with_parent(0)
                if os.isatty(0):
                    os.setsid()
                env = children.control_terminal(request["env"]) | {COMMAND: command["id"]}
                children.execute_program(command["argv"], env)
            except OSError as error:
                os.write(failed, (error.strerror or str(error)).encode())
            os._exit(126)
        os.close(failed)
        for name in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, lambda number, _: os.kill(child, number))
        _, status = os.waitpid(child, 0)
        os._exit(children.exit_code(status))

    def _attach(self, request: Message, outputs: list[int]) -> Message:
        """Gives the container's output to the descriptors from now on, and the kubelet an end of its input."""
        process = self._processes.get(request["id"])
        # Its output may have ended although it is not known yet that it did: nobody would end a copy that is made now.
        flowing = {stream for identity, _, stream in self._logs.values() if identity == request["id"]}
        if process is None or process.exit is not None or process.streams is None or not flowing:
            return {"error": "container not running", "step": "find"}
        for fd, (_, stream) in zip(outputs, process.streams.outputs, strict=False):
            if stream in flowing:
                self._copies.add(process.identity, stream, fd)
        return {"descriptors": [process.input] if process.input >= 0 else []}

    def _signal(self, identity: str, number: int) -> Message:
        process = self._processes.get(identity)
        if process is not None and process.exit is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.inner_pid, number)
        return {}

    def _kill(self, process: Process) -> None:
        if process.of:
            # Whatever session they are in: what the command started goes with it.
            for pid in children.belonging(process.pid, f"{COMMAND}={process.identity}".encode()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.inner_pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 512):
                pass
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            process = next((p for p in self._processes.values() if p.pid == pid and p.exit is None), None)
            if process is None:
                continue
            self._sweep(process)
            for fd in [fd for fd, (identity, _, _) in self._logs.items() if identity == process.identity]:
                self._drain(fd)
                self._close_stream(fd)
            process.close_input()
            process.exit = {"code": children.exit_code(status), "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
                            "finished": time.time_ns()}  # fmt: skip
            self._notify({"event": "exited", "id": process.identity, "of": process.of, **process.exit})
            if process.of:
                del self._processes[process.identity]

    def _sweep(self, process: Process) -> None:
        """Kill what the leader left behind. A PID namespace did so already; plain processes were reparented to us."""
        if process.of or process.request["mode"] != "plain":
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        mark = f"{MARKER}={process.identity}".encode()
        for _ in range(50):
            strays = [pid for pid in children.children_of(os.getpid()) if mark in children.environment_of(pid)]
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _drain(self, fd: int) -> None:
        if fd not in self._logs:
            return
        identity, log, stream = self._logs[fd]
        # Bounded, so that one container that writes without end cannot starve the others.
        for _ in range(16):
            try:
                data = os.read(fd, _READ)
            except BlockingIOError:
                return
            except OSError:
                # A terminal whose last program has gone reads as an error.
                data = b""
            if not data:
                self._close_stream(fd)
                return
            self._copies.write(identity, stream, data)
            log.write(stream, data, time.time_ns())

    def _close_stream(self, fd: int) -> None:
        entry = self._logs.pop(fd, None)
        if entry is None:
            return
        identity, log, stream = entry
        self._selector.unregister(fd)
        os.close(fd)
        self._copies.end(identity, stream)
        log.flush(stream, time.time_ns())
        self._open_streams[identity] -= 1
        if self._open_streams[identity] == 0:
            del self._open_streams[identity]
            log.close()

    def _kill_everything(self) -> None:
        for process in self._processes.values():
            if process.exit is None:
                self._kill(process)
        for _ in range(200):
            left = children.children_of(os.getpid())
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def main(arguments: list[str]) -> int:
    directory, linger = arguments[0], float(arguments[1])
    try:
        keeper = Keeper(directory, linger)
    except OSError as error:
        print(f"keeper of {directory}: {error.strerror}", file=sys.stderr)
        return 1
    keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
