"""Reads container logs from disk: all, the last lines, since a time, and following while the container runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from modelyard.local.kubelet.processes.logfile import rotated, stamp

_POLL = 0.1
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class LogOptions:
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None
    stream: str = ""
    """`stdout` or `stderr` alone; empty for both."""


async def read(path: Path, options: LogOptions, *, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log's text in pieces. With `follow` until the container is no longer running."""
    sent = 0
    limit = options.limit_bytes
    async for piece in _pieces(path, options, running):
        if limit is not None:
            piece = piece[: limit - sent]
        if piece:
            sent += len(piece)
            yield piece
        if limit is not None and sent >= limit:
            return


async def _pieces(path: Path, options: LogOptions, running: Callable[[], bool]) -> AsyncIterator[bytes]:
    since = stamp(int(options.since.timestamp() * 1_000_000_000)).encode() if options.since else b""
    wanted = options.stream.lower().encode()

    def text(lines: Iterator[bytes]) -> bytes:
        return b"".join(shown for line in lines if (shown := _shown(line, since, wanted, options.timestamps)))

    parts = _rotated(path)
    descriptor = None
    try:
        if options.tail is not None:
            # The kubelet has others to look after meanwhile.
            start = await asyncio.to_thread(_tail, [*parts, path], options.tail, wanted)
        else:
            start = [(part, 0) for part in [*parts, path]]
        for part, offset in start:
            if part != path:
                for block in _blocks(part, offset):
                    yield text(iter(block))
                    await asyncio.sleep(0)
        if _inode(path) is None and not options.follow:
            return
        while options.follow and _inode(path) is None:
            if not running():
                return
            await asyncio.sleep(_POLL)
        descriptor = os.open(path, os.O_RDONLY)
        os.lseek(descriptor, next((offset for part, offset in start if part == path), 0), os.SEEK_SET)
        rest = b""
        while True:
            alive = running()
            data = os.read(descriptor, _BLOCK)
            if data:
                whole, _, rest = (rest + data).rpartition(b"\n")
                if whole:
                    yield text(iter(whole.split(b"\n")))
                await asyncio.sleep(0)
                continue
            if not options.follow:
                return
            if _inode(path) not in (None, os.fstat(descriptor).st_ino):
                os.close(descriptor)
                descriptor = os.open(path, os.O_RDONLY)
                continue
            if not alive:
                return
            await asyncio.sleep(_POLL)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _inode(path: Path) -> int | None:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def _rotated(path: Path) -> list[Path]:
    return [Path(part) for part in rotated(str(path))] if path.parent.is_dir() else []


def _blocks(path: Path, offset: int) -> Iterator[list[bytes]]:
    """The lines of a file, some at a time."""
    with path.open("rb") as file:
        file.seek(offset)
        while lines := file.readlines(_BLOCK):
            yield [line.rstrip(b"\n") for line in lines]


def _shown(line: bytes, since: bytes, stream: bytes, timestamps: bool) -> bytes:
    time, _, rest = line.partition(b" ")
    source, _, rest = rest.partition(b" ")
    tag, _, content = rest.partition(b" ")
    if time < since or (stream and source != stream):
        return b""
    ending = b"\n" if tag == b"F" else b""
    return time + b" " + content + ending if timestamps else content + ending


def _tail(parts: list[Path], count: int, stream: bytes) -> list[tuple[Path, int]]:
    """Where the last `count` lines begin: the parts to read, each with its offset."""
    found: list[tuple[Path, int]] = []
    left = count
    for path in reversed(parts):
        if not path.exists():
            continue
        offset, seen = _offset_of_last(path, left, stream)
        found.append((path, offset))
        left -= seen
        if left <= 0:
            break
    return list(reversed(found))


def _offset_of_last(path: Path, count: int, stream: bytes) -> tuple[int, int]:
    """The offset at which the last `count` full lines begin, and how many there are."""
    size = path.stat().st_size
    if count <= 0:
        return size, 0
    offset, seen, edge, rest = size, 0, size, b""
    with path.open("rb") as file:
        position = size
        while position > 0:
            step = min(_BLOCK, position)
            position -= step
            file.seek(position)
            # The first piece may be the end of a line that begins in the block before.
            rest, *lines = (file.read(step) + rest).split(b"\n")
            if position == 0:
                rest, lines = b"", [rest, *lines]
            for line in reversed(lines):
                if _ends(line, stream):
                    if seen == count:
                        return offset, seen
                    seen += 1
                if line:
                    offset = edge - len(line)
                edge -= len(line) + 1
    return max(offset, 0), seen


def _ends(line: bytes, stream: bytes) -> bool:
    fields = line.split(b" ", 3)
    return len(fields) >= 3 and fields[2] == b"F" and (not stream or fields[1] == stream)


def last_text(path: Path, *, lines: int = 80, size: int = 2048) -> str:
    """The end of a log, for a termination message."""
    if not path.exists():
        return ""
    offset, _ = _offset_of_last(path, lines, b"")
    text = b"".join(_shown(line, b"", b"", False) for block in _blocks(path, offset) for line in block)
    return text[-size:].decode(errors="replace")
