"""The supervisor of a laptop cluster: parts come up, what crashes comes back, the last started stops first."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from modelyard.local.laptop import supervisor
from modelyard.local.laptop.forking import fork
from modelyard.local.laptop.supervisor import CannotStart, Part, Supervisor, notify_ready


def part(name: str, record: Path) -> Part:
    def main() -> int:
        over = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        notify_ready()
        over.wait()
        with record.open("a") as stopped:
            stopped.write(f"{name} ")
        return 0

    return Part(name, main)


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_ended(process: int) -> bool:
    return os.waitpid(process, os.WNOHANG)[0] == process


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


async def test_a_part_has_an_event_loop_an_environment_and_a_log_of_its_own(tmp_path: Path) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        print("says", os.environ["WHO"])
        notify_ready()
        await asyncio.Event().wait()

    def main() -> int:
        asyncio.run(work())
        return 0

    async with Supervisor([Part("one", main, {"WHO": "the part"})], tmp_path, lambda *_: None) as parts:
        async with asyncio.timeout(30):
            await parts.wait_ready()
    assert (tmp_path / "one.log").read_text() == "says the part\n"
    assert "WHO" not in os.environ


async def test_a_part_that_raises_is_told_with_its_traceback_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_DELAY", 30.0)
    said: list[str] = []

    def main() -> int:
        raise ValueError("not today")

    async with Supervisor([Part("one", main)], tmp_path, lambda part, what: said.append(what)):
        await until(lambda: said)
    assert said[0].startswith("ended with exit code 1; starting it again in")
    assert said[0].endswith(": ValueError: not today")
    assert "ValueError: not today" in (tmp_path / "one.log").read_text()


async def cause_of_failure(tmp_path: Path, main: Callable[[], int]) -> str:
    async with Supervisor([Part("one", main)], tmp_path, lambda *_: None) as parts:
        async with asyncio.timeout(30):
            with pytest.raises(CannotStart) as told:
                await parts.wait_ready()
    return str(told.value)


async def test_a_part_that_never_becomes_ready_is_given_up_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_DELAY", 0.01)
    (tmp_path / "one.log").write_text("of an earlier run\n")

    def main() -> int:
        print("the port is taken\n", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    said = await cause_of_failure(tmp_path, main)
    assert said == f"one cannot start: ended with signal SIGKILL: the port is taken (log: {tmp_path / 'one.log'})"


async def test_a_part_that_ends_silently_is_not_blamed_on_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_DELAY", 0.01)
    (tmp_path / "one.log").write_text("of an earlier run\n")
    assert "earlier" not in await cause_of_failure(tmp_path, lambda: 7)


async def test_a_full_disk_is_told_although_the_log_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_DELAY", 0.01)
    (tmp_path / "one.log").symlink_to("/dev/full")

    def main() -> int:
        print("begins", flush=True)
        return 0

    said = await cause_of_failure(tmp_path, main)
    assert said.startswith("one cannot start: ended with exit code 1: the disk is full: free some space")


async def test_a_part_that_was_ready_is_started_again_however_often_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_DELAY", 0.01)
    monkeypatch.setattr(supervisor, "_LAST_DELAY", 0.01)

    def main() -> int:
        notify_ready()
        raise ValueError("not today")

    one = Part("one", main)
    async with Supervisor([one], tmp_path, lambda *_: None):
        await until(lambda: one.restarts > 4)


def test_a_signal_at_the_moment_of_the_fork_ends_the_new_process(tmp_path: Path) -> None:
    """It must not run the handlers of the process that it came from, which would only note the signal."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)

    def work() -> int:
        threading.Event().wait()
        return 0

    try:
        for _ in range(20):
            process = fork(work, tmp_path / "log")
            os.kill(process, signal.SIGTERM)
            wait_for(partial(has_ended, process))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_parts_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    """However it ends: SIGKILL leaves it no time to stop anything."""
    record, pids = tmp_path / "stopped", tmp_path / "pids"

    async def supervise() -> None:
        one = part("one", record)
        async with Supervisor([one], tmp_path, lambda *_: None) as parts:
            await parts.wait_ready()
            pids.write_text(str(one.pid))
            await asyncio.Event().wait()

    def main() -> int:
        asyncio.run(supervise())
        return 0

    process = fork(main, tmp_path / "supervisor.log")
    wait_for(lambda: pids.exists() and pids.read_text() != "")
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    wait_for(lambda: record.exists() and record.read_text() == "one ")


async def test_a_log_that_grows_too_long_begins_anew_and_is_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_LOG_LOOK", 0.01)
    monkeypatch.setattr(supervisor, "shorten", partial(supervisor.shorten, most=1000))

    def main() -> int:
        over = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        for number in range(100):
            print(f"line {number} {'x' * 20}", flush=True)
        notify_ready()
        while not over.wait(0.01):
            print("still here", flush=True)
        return 0

    log, before = tmp_path / "talker.log", tmp_path / "talker.log.1"
    async with Supervisor([Part("talker", main)], tmp_path, lambda *_: None) as parts:
        async with asyncio.timeout(30):
            await parts.wait_ready()
        await until(lambda: before.exists() and log.stat().st_size < 2000 and "still here" in log.read_text())
        assert b"\0" not in log.read_bytes()
