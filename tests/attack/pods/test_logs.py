"""A container that writes much: whoever reads its log, the kubelet looks after everybody else meanwhile."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from modelyard.local.kubelet import logs
from modelyard.local.kubelet.logs import LogOptions, last_text

STAMP = "2030-01-01T00:00:00.000000000Z"


def written(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{STAMP} stdout {line}\n" for line in lines))


async def read(path: Path, options: LogOptions) -> tuple[str, int]:
    """The text, and how often others had their turn meanwhile."""
    turns, over = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    pieces = [piece async for piece in logs.read(path, options, running=lambda: False)]
    over.set()
    await task
    return b"".join(pieces).decode(), turns


@pytest.mark.parametrize("tail", [None, 150_000])
async def test_others_have_their_turns_while_a_long_log_is_read(tmp_path: Path, tail: int | None) -> None:
    path = tmp_path / "0.log"
    written(path, [f"F {number}" for number in range(200_000)])
    text, turns = await read(path, LogOptions(tail=tail))
    assert text.splitlines()[-1] == "199999"
    assert len(text.splitlines()) == (tail or 200_000)
    assert turns > 100


def test_the_last_lines_are_found_by_looking_at_each_byte_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0

    def counted(line: bytes, stream: bytes) -> bool:
        nonlocal seen
        seen += 1
        return ends(line, stream)

    ends = logs._ends
    monkeypatch.setattr(logs, "_ends", counted)
    path = tmp_path / "0.log"
    written(path, [f"F {number}" for number in range(50_000)])
    assert logs._offset_of_last(path, 40_000, b"")[1] == 40_000
    assert seen <= 50_001


@pytest.mark.parametrize("seed", range(30))
async def test_a_tail_is_the_end_of_the_whole(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With lines in pieces, without an end, and blocks that cut them anywhere."""
    chance = random.Random(seed)
    monkeypatch.setattr(logs, "_BLOCK", chance.randint(1, 200))
    path = tmp_path / "0.log"
    written(path, [f"{chance.choice('FFP')} {'x' * chance.randint(0, 60)}" for _ in range(chance.randint(0, 30))])
    whole = (await read(path, LogOptions()))[0]
    lines = whole.split("\n")
    for count in range(12):
        # What has no end yet comes with the lines before it.
        wanted = "\n".join(lines[max(0, len(lines) - 1 - count) :]) if count else ""
        assert (await read(path, LogOptions(tail=count)))[0] == wanted
    assert last_text(path, lines=1000) == whole[-2048:]
