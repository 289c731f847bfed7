"""The standard streams of containers as the keeper holds them, and the copies of output that attached clients get.

Only the standard library may be imported here: the keeper runs in a bare interpreter.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass

_ROOM = 1 << 20
"""Bytes that an attached client may be behind; one that is slower than that is let go, so that it cannot hold up a container."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The ends of one container's streams: the program's three, and ours."""

    program: tuple[int, int, int]
    outputs: tuple[tuple[int, str], ...]
    input: int
    """What is written to it reaches the program; -1 if the program has no input."""
    terminal: bool

    @classmethod
    def make(cls, *, stdin: bool, tty: bool) -> Streams:
        if tty:
            ours, theirs = os.openpty()
            os.set_blocking(ours, False)
            return cls((theirs, theirs, theirs), ((ours, "stdout"),), os.dup(ours), terminal=True)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        for fd in (out_read, err_read):
            os.set_blocking(fd, False)
        if stdin:
            source, entry = os.pipe2(os.O_CLOEXEC)
        else:
            source, entry = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
        return cls((source, out_write, err_write), ((out_read, "stdout"), (err_read, "stderr")), entry, terminal=False)

    def close_program(self) -> None:
        for fd in set(self.program):
            os.close(fd)

    def close_ours(self) -> None:
        for fd, _ in self.outputs:
            os.close(fd)
        if self.input >= 0:
            os.close(self.input)


class Copies:
    """Who else gets what containers write, beside their logs."""

    def __init__(self) -> None:
        self._descriptors: dict[tuple[str, str], list[int]] = {}

    def add(self, identity: str, stream: str, descriptor: int) -> None:
        copy = os.dup(descriptor)
        os.set_blocking(copy, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(copy, fcntl.F_SETPIPE_SZ, _ROOM)
        self._descriptors.setdefault((identity, stream), []).append(copy)

    def write(self, identity: str, stream: str, data: bytes) -> None:
        for descriptor in list(self._descriptors.get((identity, stream), ())):
            try:
                whole = os.write(descriptor, data) == len(data)
            except OSError:
                whole = False
            if not whole:
                self._descriptors[identity, stream].remove(descriptor)
                os.close(descriptor)

    def end(self, identity: str, stream: str) -> None:
        for descriptor in self._descriptors.pop((identity, stream), ()):
            os.close(descriptor)
