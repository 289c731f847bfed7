"""The line between the kubelet and its keeper: how messages look, where the socket is, and the secret that opens it.

The socket and the secret are files in the kubelet's private directory, which no isolated container sees. Whoever does not
send the secret first is heard no further. Only the standard library may be imported here: the keeper runs in a bare interpreter.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

Message = dict[str, Any]

_HEADER: Final = struct.Struct("!I")
_SOCKET: Final = "keeper.sock"
_SECRET: Final = "keeper.secret"
_LOCK: Final = "keeper.lock"
_LONGEST_GREETING: Final = 4096


class Malformed(ValueError):
    """What came is not a message."""


def pack(message: Message) -> bytes:
    data = json.dumps(message, separators=(",", ":")).encode()
    return _HEADER.pack(len(data)) + data


def unpack(buffer: bytearray) -> list[Message]:
    """The whole messages at the front of the buffer, which keeps the rest."""
    messages = []
    while len(buffer) >= _HEADER.size:
        (size,) = _HEADER.unpack_from(buffer)
        if len(buffer) < _HEADER.size + size:
            break
        messages.append(json.loads(bytes(buffer[_HEADER.size : _HEADER.size + size])))
        del buffer[: _HEADER.size + size]
    return messages


def greeting(buffer: bytearray) -> Message | None:
    """The first message of a stranger, once it is whole. Raises `Malformed` for what cannot become one."""
    if len(buffer) >= _HEADER.size and _HEADER.unpack_from(buffer)[0] > _LONGEST_GREETING:
        raise Malformed("the first message is too long")
    if len(buffer) < _HEADER.size or len(buffer) < _HEADER.size + _HEADER.unpack_from(buffer)[0]:
        return None
    (size,) = _HEADER.unpack_from(buffer)
    try:
        message = json.loads(bytes(buffer[_HEADER.size : _HEADER.size + size]))
    except ValueError as error:
        raise Malformed("the first message is not JSON") from error
    if not isinstance(message, dict):
        raise Malformed("the first message is not an object")
    del buffer[: _HEADER.size + size]
    return message


def knows(message: Message, secret: str) -> bool:
    """Whether this greeting carries the secret."""
    given = message.get("secret")
    return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), secret.encode())


def secret_of(directory: str) -> str:
    """The secret of this directory's keeper, made when it is first asked for."""
    path = os.path.join(directory, _SECRET)
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    if not os.path.exists(path):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        os.unlink(temporary)
    with open(path) as file:
        return file.read()


def dial(directory: str) -> socket.socket | None:
    """A line to the keeper of a directory, or None if it has none; the secret has been sent."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short_path(directory) as path:
            sock.connect(path)
        sock.sendall(pack({"secret": secret_of(directory)}))
    except OSError:
        sock.close()
        return None
    return sock


def listen(directory: str) -> tuple[socket.socket, int]:
    """The keeper's end, and the lock that makes it the only one; raises `OSError` where another keeper lives."""
    lock = os.open(os.path.join(directory, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, _SOCKET))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with _short_path(directory) as path:
                sock.bind(path)
        finally:
            os.umask(before)
    except OSError:
        os.close(lock)
        raise
    sock.listen(16)
    sock.setblocking(False)
    return sock, lock


def peer_uid(sock: socket.socket) -> int:
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


@contextlib.contextmanager
def _short_path(directory: str) -> Iterator[str]:
    # A socket's path may have 108 bytes at most; a cluster's directory may be deep.
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)
