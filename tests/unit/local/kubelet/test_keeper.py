"""The keeper with real processes: what it starts, what it keeps, and that nothing outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from modelyard.local.kubelet.processes.runtime import Exit, Launch, NotRunning, Runtime, StartFailed, kill_strays, scope

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Node:
    def __init__(self, directory: Path, linger: float = 2.0) -> None:
        self.directory = directory
        self.runtime = Runtime(directory, linger=linger)
        self.exits: asyncio.Queue[tuple[str, Exit]] = asyncio.Queue()
        self.lost = asyncio.Event()
        self.runtime.on_exit = lambda identity, exit: self.exits.put_nowait((identity, exit))
        self.runtime.on_lost = self.lost.set

    def launch(self, name: str, *argv: str, **env: str) -> Launch:
        return Launch(
            f"{scope(str(self.directory))}/pod/{name}/0", argv, ENV | env, "/", self.directory / "logs" / f"{name}.log", "plain",
            uid=os.getuid(), gid=os.getgid(),
        )  # fmt: skip

    async def run(self, name: str, *argv: str, **env: str) -> Exit:
        await self.runtime.start(self.launch(name, *argv, **env))
        return (await asyncio.wait_for(self.exits.get(), 10))[1]

    def log(self, name: str) -> list[str]:
        lines = (self.directory / "logs" / f"{name}.log").read_text().splitlines()
        return [line.split(" ", 1)[1] for line in lines]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    one = Node(tmp_path)
    assert await one.runtime.connect() == []
    yield one
    await one.runtime.close(shutdown=True)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


async def pid_in(node: Node, name: str) -> int:
    async with asyncio.timeout(10):
        while True:
            path = node.directory / "logs" / f"{name}.log"
            if path.exists() and (lines := node.log(name)):
                return int(lines[-1].split()[-1])
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("script", "code", "number"), [("exit 0", 0, 0), ("exit 7", 7, 0), ("kill -9 $$", 137, 9)])
async def test_exit_codes_and_signals_are_reported(node: Node, script: str, code: int, number: int) -> None:
    exit = await node.run("a", "sh", "-c", script)
    assert (exit.code, exit.signal) == (code, number)


async def test_many_large_starts_at_once_are_all_answered(node: Node) -> None:
    launches = [node.launch(f"c{number}", "true", BIG="x" * 100_000) for number in range(40)]
    async with asyncio.timeout(30):
        started = await asyncio.gather(*(node.runtime.start(launch) for launch in launches))
        ended = [await node.exits.get() for _ in launches]
    assert {process.identity for process in started} == {launch.identity for launch in launches}
    assert {identity for identity, _ in ended} == {launch.identity for launch in launches}


async def test_both_streams_are_logged(node: Node) -> None:
    await node.run("a", "sh", "-c", "echo $GREETING; echo bad >&2; printf end", GREETING="hello")
    assert sorted(node.log("a")) == ["stderr F bad", "stdout F hello", "stdout P end"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-program"], 'exec: "no-such-program": executable file not found in $PATH'),
        (["/no/such"], 'exec: "/no/such": stat /no/such: no such file or directory'),
        (["/etc/passwd"], 'exec: "/etc/passwd": permission denied'),
    ],
)
async def test_a_program_that_cannot_be_run_says_why(node: Node, argv: list[str], message: str) -> None:
    with pytest.raises(StartFailed) as error:
        await node.runtime.start(node.launch("a", *argv))
    assert str(error.value) == message


async def test_a_command_runs_beside_the_container_with_its_environment(node: Node) -> None:
    launch = node.launch("a", "sleep", "60", WHO="me")
    await node.runtime.start(launch)
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    done = await node.runtime.execute(launch.identity, ["sh", "-c", "echo $WHO; exit 4"], null, write, write)
    os.close(write)
    assert await asyncio.wait_for(done, 10) == 4
    assert os.read(read, 100) == b"me\n"
    os.close(read)
    os.close(null)


async def test_a_command_in_a_container_that_is_gone_is_refused(node: Node) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    with pytest.raises(NotRunning):
        await node.runtime.execute("nobody", ["true"], null, null, null)
    os.close(null)


async def test_what_a_container_left_behind_is_killed_with_it(node: Node) -> None:
    # setsid leaves the session and the group; only the marker in its environment tells whose it is.
    await node.run("a", "sh", "-c", "setsid sh -c 'echo $$; exec sleep 300' & sleep 0.3; exit 0")
    escaped = await pid_in(node, "a")
    async with asyncio.timeout(5):
        while alive(escaped):
            await asyncio.sleep(0.01)


async def test_another_kubelet_finds_what_runs_and_what_ended(node: Node) -> None:
    running, ended = node.launch("runs", "sleep", "60"), node.launch("ended", "sh", "-c", "exit 3")
    process = await node.runtime.start(running)
    await node.runtime.start(ended)
    await asyncio.wait_for(node.exits.get(), 10)
    await node.runtime.close(shutdown=False)
    again = Node(node.directory)
    found = {item.identity: item for item in await again.runtime.connect()}
    assert found[running.identity].pid == process.pid
    assert found[running.identity].exit is None
    known = found[ended.identity].exit
    assert known is not None
    assert known.code == 3
    node.runtime = again.runtime


async def test_without_a_kubelet_everything_ends(tmp_path: Path) -> None:
    one = Node(tmp_path, linger=0.2)
    await one.runtime.connect()
    process = await one.runtime.start(one.launch("a", "sleep", "300"))
    await one.runtime.close(shutdown=False)
    async with asyncio.timeout(10):
        while alive(process.pid):
            await asyncio.sleep(0.02)


async def test_a_killed_keeper_takes_leaders_along_and_strays_are_found(node: Node) -> None:
    script = "setsid sh -c 'echo $$; exec sleep 300' & exec sleep 300"
    process = await node.runtime.start(node.launch("a", "sh", "-c", script))
    stray = await pid_in(node, "a")
    keeper = node.runtime._child
    assert keeper is not None
    os.kill(keeper.pid, signal.SIGKILL)
    await asyncio.wait_for(node.lost.wait(), 10)
    async with asyncio.timeout(5):
        while alive(process.pid):
            await asyncio.sleep(0.01)
    assert stray in kill_strays(str(node.directory))
    await node.runtime.connect()


async def test_a_talkative_container_does_not_hold_up_others(node: Node) -> None:
    await node.runtime.start(node.launch("loud", "sh", "-c", "yes"))
    exit = await node.run("quiet", "true")
    assert exit.code == 0
    await node.runtime.kill(node.launch("loud", "x").identity)
    await asyncio.wait_for(node.exits.get(), 10)


def attached() -> tuple[tuple[int, int], tuple[int, int]]:
    """Two pipes, for stdout and stderr, each as (ours, the container's)."""
    return os.pipe(), os.pipe()


async def until_end(descriptor: int) -> bytes:
    def read() -> bytes:
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    return await asyncio.wait_for(asyncio.to_thread(read), 10)


async def test_an_attached_client_writes_to_the_program_and_reads_both_streams_until_it_ends(node: Node) -> None:
    launch = replace(node.launch("a", "sh", "-c", "read line; echo got $line; cat >&2"), stdin=True)
    await node.runtime.start(launch)
    out, err = attached()
    entry = await node.runtime.attach(launch.identity, out[1], err[1])
    assert entry is not None
    os.close(out[1])
    os.close(err[1])
    os.write(entry, b"one\ntwo\n")
    os.close(entry)
    await node.runtime.close_input(launch.identity)
    assert await until_end(out[0]) == b"got one\n"
    assert await until_end(err[0]) == b"two\n"
    assert (await asyncio.wait_for(node.exits.get(), 10))[1].code == 0
    assert sorted(node.log("a")) == ["stderr F two", "stdout F got one"]


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
async def test_a_client_that_attaches_after_output_has_ended_does_not_wait_for_it(node: Node, closed: str) -> None:
    script = f"read go; exec {closed}; read more; echo bye >&2"
    launch = replace(node.launch("a", "sh", "-c", script), stdin=True)
    await node.runtime.start(launch)
    ended = [stream for stream, mark in enumerate((">&-", "2>&-")) if mark in closed.split()]
    first, late = attached(), attached()
    entry = await node.runtime.attach(launch.identity, first[0][1], first[1][1])
    assert entry is not None
    for _, theirs in first:
        os.close(theirs)
    os.write(entry, b"go\n")
    for stream in ended:
        assert await until_end(first[stream][0]) == b""
    try:
        if len(ended) == 2:
            with pytest.raises(NotRunning):
                await node.runtime.attach(launch.identity, late[0][1], late[1][1])
        else:
            os.close(await node.runtime.attach(launch.identity, late[0][1], late[1][1]) or -1)
    finally:
        for _, theirs in late:
            os.close(theirs)
    os.write(entry, b"more\n")
    os.close(entry)
    said = [await until_end(ours) for ours, _ in late]
    assert said == [b"", b"" if len(ended) == 2 else b"bye\n"]
    await asyncio.wait_for(node.exits.get(), 10)
    for stream in {0, 1} - set(ended):
        os.close(first[stream][0])


async def test_a_program_with_a_terminal_knows_it_and_gets_its_signals(node: Node) -> None:
    script = "trap 'echo interrupted; exit 3' INT; test -t 0 && stty size && echo ready; while :; do sleep 0.05; done"
    launch = replace(node.launch("a", "sh", "-c", script), stdin=True, tty=True)
    await node.runtime.start(launch)
    out, err = attached()
    terminal = await node.runtime.attach(launch.identity, out[1], err[1])
    assert terminal is not None
    os.close(out[1])
    os.close(err[1])
    reading = asyncio.create_task(until_end(out[0]))
    async with asyncio.timeout(10):
        while not (node.directory / "logs/a.log").exists() or "ready" not in " ".join(node.log("a")):
            await asyncio.sleep(0.01)
    os.write(terminal, b"\x03")
    os.close(terminal)
    assert (await asyncio.wait_for(node.exits.get(), 10))[1].code == 3
    assert b"interrupted" in await reading
    assert await until_end(err[0]) == b""


async def test_a_client_that_does_not_read_is_let_go_and_the_program_goes_on(node: Node) -> None:
    script = "read go; head -c 4000000 /dev/zero | tr '\\0' 'x'; echo; echo end"
    launch = replace(node.launch("a", "sh", "-c", script), stdin=True)
    await node.runtime.start(launch)
    out, err = attached()
    entry = await node.runtime.attach(launch.identity, out[1], err[1])
    assert entry is not None
    os.close(out[1])
    os.close(err[1])
    os.write(entry, b"go\n")
    os.close(entry)
    assert (await asyncio.wait_for(node.exits.get(), 20))[1].code == 0
    assert node.log("a")[-1] == "stdout F end"
    assert len(await until_end(out[0])) < 4_000_000
    os.close(err[0])


async def test_nobody_attaches_to_a_container_that_is_gone(node: Node) -> None:
    out, err = attached()
    with pytest.raises(NotRunning):
        await node.runtime.attach("nobody", out[1], err[1])
    for descriptor in (*out, *err):
        os.close(descriptor)
