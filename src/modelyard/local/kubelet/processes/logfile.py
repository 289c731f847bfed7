"""Container logs on disk, a line each as `TIME STREAM F|P text` (the format of Kubernetes' runtimes), with rotation.

Only the standard library may be imported here: the keeper writes these files.
"""

from __future__ import annotations

import os
import time

MAX_LINE = 16384


class LogFile:
    """Appends what a container writes. A line longer than `MAX_LINE` is kept in parts, all but the last tagged `P`."""

    def __init__(self, path: str, max_bytes: int = 10 << 20, max_files: int = 5) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._rest: dict[str, bytes] = {}
        self._fd = _open(path)
        self._size = os.fstat(self._fd).st_size

    def write(self, stream: str, data: bytes, now: int) -> None:
        text = self._rest.pop(stream, b"") + data
        lines = text.split(b"\n")
        rest = lines.pop()
        prefix = f"{stamp(now)} {stream} ".encode()
        out = []
        for line in lines:
            while len(line) > MAX_LINE:
                out.append(prefix + b"P " + line[:MAX_LINE] + b"\n")
                line = line[MAX_LINE:]
            out.append(prefix + b"F " + line + b"\n")
        while len(rest) > MAX_LINE:
            out.append(prefix + b"P " + rest[:MAX_LINE] + b"\n")
            rest = rest[MAX_LINE:]
        if rest:
            self._rest[stream] = rest
        if out:
            self._append(b"".join(out))

    def flush(self, stream: str, now: int) -> None:
        """Write what came without a final newline."""
        rest = self._rest.pop(stream, b"")
        if rest:
            self._append(f"{stamp(now)} {stream} P ".encode() + rest + b"\n")

    def _append(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        self._size += os.write(self._fd, data)

    def _rotate(self) -> None:
        os.close(self._fd)
        os.rename(self.path, f"{self.path}.{time.time_ns():020d}")
        for old in rotated(self.path)[: -(self._max_files - 1) or None]:
            os.unlink(old)
        self._fd = _open(self.path)
        self._size = 0

    def close(self) -> None:
        os.close(self._fd)


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotated(path: str) -> list[str]:
    """The rotated parts of a log, oldest first."""
    folder, name = os.path.split(path)
    return sorted(os.path.join(folder, entry) for entry in os.listdir(folder) if entry.startswith(f"{name}."))


def stamp(nanoseconds: int) -> str:
    """A point in time as Kubernetes prints it in logs: RFC 3339, nine digits, UTC."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09d}Z"
