from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from modelyard.local.kubelet.endpoint import BadQuestion, log_options
from modelyard.local.kubelet.logs import LogOptions, last_text, read
from modelyard.local.kubelet.processes.logfile import MAX_LINE, LogFile, rotated, stamp

SECOND = 1_000_000_000
START = 1_893_456_000 * SECOND


async def text(path: Path, **options: Any) -> str:
    asked = replace(LogOptions(), **options)
    return b"".join([piece async for piece in read(path, asked, running=lambda: False)]).decode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    file = LogFile(str(path))
    for number in range(5):
        stream = "stderr" if number == 3 else "stdout"
        file.write(stream, f"line {number}\n".encode(), START + number * SECOND)
    file.close()
    return path


def test_lines_are_kept_with_time_and_stream(log: Path) -> None:
    assert log.read_text().splitlines()[3] == "2030-01-01T00:00:03.000000000Z stderr F line 3"
    assert stamp(START + 5) == "2030-01-01T00:00:00.000000005Z"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"tail": 2}, [3, 4]),
        ({"tail": 0}, []),
        ({"tail": 99}, [0, 1, 2, 3, 4]),
        ({"since": datetime(2030, 1, 1, 0, 0, 2, tzinfo=UTC)}, [2, 3, 4]),
        ({"stream": "Stderr"}, [3]),
    ],
)
async def test_parts_of_a_log(log: Path, options: dict[str, object], expected: list[int]) -> None:
    assert await text(log, **options) == "".join(f"line {number}\n" for number in expected)


async def test_timestamps_and_a_limit_in_bytes(log: Path) -> None:
    assert (await text(log, timestamps=True)).startswith("2030-01-01T00:00:00.000000000Z line 0\n")
    assert await text(log, limit_bytes=10) == "line 0\nlin"


async def test_text_without_a_line_end_and_long_lines_come_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    file = LogFile(str(path))
    long = "x" * (3 * MAX_LINE + 5)
    file.write("stdout", b"half", START)
    file.write("stdout", b" line\n" + long.encode() + b"\nend", START)
    file.flush("stdout", START)
    file.close()
    assert await text(path) == f"half line\n{long}\nend"


async def test_a_full_log_is_rotated_and_old_parts_go(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    file = LogFile(str(path), max_bytes=1000, max_files=3)
    for number in range(100):
        file.write("stdout", f"line {number:03d}\n".encode(), START)
    file.close()
    assert len(rotated(str(path))) == 2
    lines = (await text(path)).splitlines()
    assert lines[-1] == "line 099"
    assert lines == sorted(lines)
    assert (await text(path, tail=30)).splitlines() == [f"line {n:03d}" for n in range(70, 100)]


async def test_following_sees_new_lines_and_rotation_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    file = LogFile(str(path), max_bytes=300)
    alive = True
    seen: list[bytes] = []

    async def follow() -> None:
        async for piece in read(path, LogOptions(follow=True), running=lambda: alive):
            seen.append(piece)

    task = asyncio.create_task(follow())
    for number in range(20):
        file.write("stdout", f"line {number}\n".encode(), START)
        await asyncio.sleep(0.001 if number != 10 else 0.25)
    alive = False
    await asyncio.wait_for(task, 5)
    assert b"line 19\n" in b"".join(seen)


def test_the_end_of_a_log_is_a_termination_message(log: Path) -> None:
    assert last_text(log, lines=2) == "line 3\nline 4\n"
    assert last_text(log, size=7) == "line 4\n"
    assert last_text(log.with_name("none")) == ""


@pytest.mark.parametrize("query", [{"tailLines": "-1"}, {"tailLines": "x"}, {"sinceTime": "yesterday"}])
def test_questions_that_make_no_sense_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadQuestion, match=next(iter(query))):
        log_options(query, datetime.now(UTC))


def test_log_options_are_read_from_the_query() -> None:
    now = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)
    query = {"follow": "true", "tailLines": "5", "sinceSeconds": "60", "timestamps": "true", "stream": "All"}
    assert log_options(query, now) == LogOptions(
        follow=True, tail=5, since=datetime(2030, 1, 1, tzinfo=UTC), timestamps=True
    )
