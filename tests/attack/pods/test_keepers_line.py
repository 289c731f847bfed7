"""The line between kubelet and keeper: strangers change nothing at it, and when it is cut no container runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modelyard.kube.kinds import Object
from modelyard.local.kubelet.processes import line
from modelyard.local.kubelet.processes.runtime import Launch, NotRunning, Runtime, scope
from modelyard.local.kubelet.processes.sandbox import Isolation
from tests.e2e.pods import Plane, plane, processes_of


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    one = Runtime(tmp_path / "kubelet", linger=2.0)
    await one.connect()
    yield one
    await one.close(shutdown=True)


def _start(directory: Path, proof: Path) -> dict[str, object]:
    return {"op": "start", "id": "own", "mode": "plain", "argv": ["/usr/bin/touch", str(proof)], "env": {}, "cwd": "/",
            "log": str(directory / "log"), "uid": os.getuid(), "gid": os.getgid(), "seq": 1}  # fmt: skip


@pytest.mark.parametrize("first", [None, {"secret": "guess"}, {"secret": ["x"]}, {"secret": "\udc80"}])
async def test_a_stranger_is_not_heard_and_cuts_nothing(tmp_path: Path, runtime: Runtime, first: Object | None) -> None:
    lost = asyncio.Event()
    runtime.on_lost = lost.set
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    descriptor = os.open(tmp_path / "kubelet", os.O_PATH)
    stranger.connect(f"/proc/self/fd/{descriptor}/keeper.sock")
    os.close(descriptor)
    stranger.settimeout(10)
    with contextlib.suppress(BrokenPipeError):
        for message in (first, _start(tmp_path, tmp_path / "proof")):
            if message is not None:
                stranger.sendall(line.pack(message))
    assert (await asyncio.to_thread(_read, stranger)) == b""
    stranger.close()
    ident = f"{scope(str(tmp_path / 'kubelet'))}/pod/main/0"
    await runtime.start(Launch(ident, ["true"], {"PATH": "/usr/bin:/bin"}, "/", tmp_path / "log", "plain"))
    assert not (tmp_path / "proof").exists()
    assert not lost.is_set()


def _read(sock: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        return sock.recv(100)
    return b""


async def test_many_strangers_that_say_nothing_keep_nobody_out(tmp_path: Path, runtime: Runtime) -> None:
    strangers = []
    descriptor = os.open(tmp_path / "kubelet", os.O_PATH)
    for _ in range(60):
        # It blocks: with a time limit, a connection to a keeper that has not come to accept yet fails at once.
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        await asyncio.to_thread(sock.connect, f"/proc/self/fd/{descriptor}/keeper.sock")
        strangers.append(sock)
    os.close(descriptor)
    again = Runtime(tmp_path / "kubelet")
    assert await again.connect() == []
    await again.close(shutdown=False)
    for sock in strangers:
        sock.close()


async def test_the_socket_and_the_secret_are_the_users_alone(tmp_path: Path, runtime: Runtime) -> None:
    folder = tmp_path / "kubelet"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {name: (folder / name).stat().st_mode & 0o077 for name in ("keeper.sock", "keeper.secret")} == {
        "keeper.sock": 0, "keeper.secret": 0,
    }  # fmt: skip


async def test_when_the_line_is_cut_the_container_goes_on_and_runs_once(tmp_path: Path) -> None:
    async with plane(tmp_path) as one:
        await one.pod("web", {"image": "busybox", "command": ["sleep", "300"]})
        await one.ready("web")
        before = processes_of(one)
        sock = one.kubelet.runtime._sock
        assert sock is not None
        sock.shutdown(socket.SHUT_RDWR)
        assert await _said(one) == "here\n"
        pod = await one.get("web")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert processes_of(one) == before


async def _said(one: Plane) -> str:
    """What a command in the container says, once the line is back."""
    async with asyncio.timeout(20):
        while True:
            try:
                return (await one.execute("web", "echo", "here"))[1]
            except (NotRunning, OSError):
                await asyncio.sleep(0.02)


async def test_where_nothing_is_isolated_the_pod_says_so(tmp_path: Path) -> None:
    async with plane(tmp_path, Isolation.PATHS) as one:
        await one.pod("web", {"image": "busybox", "command": ["sleep", "300"]})
        await one.ready("web")
        told = dict(await one.events("web"))
        assert "nothing keeps this pod's programs" in told["NotIsolated"]
        assert "run only what you trust" in " ".join(one.kubelet.sandbox.describe() if one.kubelet.sandbox else [])
