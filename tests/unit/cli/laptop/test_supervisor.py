"""The supervisor of a laptop cluster: parts come up, what crashes comes back, the last started stops first."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from modelyard.cli.laptop import supervisor
from modelyard.cli.laptop.supervisor import Part, Supervisor

READY = """
import signal, sys, threading
from pathlib import Path
from modelyard.cli.laptop.supervisor import notify_ready
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
notify_ready()
over.wait()
with Path(sys.argv[1]).open("a") as stopped:
    stopped.write(sys.argv[2] + " ")
"""


def part(name: str, record: Path) -> Part:
    return Part(name, [sys.executable, "-c", READY, str(record), name])


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_parts_become_ready_and_stop_in_reverse(tmp_path: Path) -> None:
    record = tmp_path / "stopped"
    said: list[tuple[str, str]] = []
    async with Supervisor(
        [part("first", record), part("second", record)], tmp_path, lambda *what: said.append(what)
    ) as parts:
        async with asyncio.timeout(30):
            await parts.wait_ready()
    assert sorted(said) == [("first", "ready"), ("second", "ready")]
    assert record.read_text() == "second first "


async def test_what_crashes_is_started_again_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_DELAY", 0.01)
    said: list[str] = []
    one = part("one", tmp_path / "stopped")
    async with Supervisor([one], tmp_path, lambda part, what: said.append(what)) as parts:
        async with asyncio.timeout(30):
            await parts.wait_ready()
            os.kill(one.pid, signal.SIGKILL)
            await until(lambda: said.count("ready") == 2)
    assert one.restarts == 1
    assert any(what.startswith("ended with signal SIGKILL; starting it again in") for what in said)
