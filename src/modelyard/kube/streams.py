"""Cuts a stream of chunks into lines. Only the byte `\\n` ends a line: JSON strings may hold every other line separator."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The non-empty lines, without their end; the last one may have been cut off by the sender."""
    pending: list[
        bytes
    ] = []  # Parts of one unfinished line; joined once, so a long line is not copied again and again.
    async for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            line = b"".join((*pending, part)) if pending else part
            pending.clear()
            if line:
                yield line
        if rest:
            pending.append(rest)
    if pending:
        yield b"".join(pending)
