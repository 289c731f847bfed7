"""A container that takes more than it was given: memory that is shared, and space in volumes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from modelyard.local.kubelet.processes import memory
from modelyard.local.kubelet.volumes import limits
from tests.e2e.pods import NAMESPACE, plane

_SHARED = {
    "shared anonymous memory": "m = mmap.mmap(-1, 64 << 20); m.write(bytes(64 << 20))",
    "a file without a name": (
        "f = os.memfd_create('x'); os.truncate(f, 64 << 20); m = mmap.mmap(f, 64 << 20); m.write(bytes(64 << 20))"
    ),
}


@pytest.mark.parametrize("script", _SHARED.values(), ids=_SHARED)
def test_shared_memory_counts(script: str) -> None:
    code = f"import mmap, os, sys; {script}; pid = os.fork(); print(1, flush=True) if pid else None; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = memory.resident(process.pid)
        process.kill()
    assert 60 << 20 < used < 120 << 20


async def test_a_container_that_hoards_shared_memory_is_ended(tmp_path: Path) -> None:
    script = "import mmap, time; m = mmap.mmap(-1, 200 << 20); m.write(bytes(200 << 20)); time.sleep(300)"
    async with plane(tmp_path) as one:
        limits = {"resources": {"limits": {"memory": "64Mi"}}}
        await one.pod(
            "greedy", {"image": "python", "command": ["python", "-c", script], **limits}, restartPolicy="Never"
        )
        pod = await one.finished("greedy")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


async def test_a_pod_that_fills_its_scratch_space_beyond_the_limit_is_evicted(tmp_path: Path) -> None:
    volume = {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}
    command = ["sh", "-c", "dd if=/dev/zero of=/scratch/a bs=1M count=3; exec sleep 300"]
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    async with plane(tmp_path) as one:
        await one.pod("greedy", {"image": "busybox", "command": command, "volumeMounts": mounts}, volumes=[volume])
        pod = await one.finished("greedy")
        message = 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". '
        assert (pod["status"]["phase"], pod["status"]["reason"], pod["status"]["message"]) == (
            "Failed",
            "Evicted",
            message,
        )
        assert ("Evicted", message) in await one.events("greedy")


def test_what_a_volume_holds_cannot_be_hidden(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "out").symlink_to("/usr")
    assert 1 << 20 <= limits.usage(tmp_path) < 2 << 20
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        here, above = os.open("d" * 200, os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)
    assert limits.usage(tmp_path) > 1 << 40


async def test_a_client_that_drops_its_command_leaves_no_process(tmp_path: Path) -> None:
    async with plane(tmp_path) as one, aiohttp.ClientSession() as session:
        await one.pod("web", {"image": "busybox", "command": ["sleep", "300"]})
        await one.ready("web")
        address = one.kubelet.endpoint.address
        assert address is not None
        script = "setsid sh -c 'echo up; exec sleep 31415' & sleep 31415"
        query = [("command", word) for word in ("sh", "-c", script)] + [("stdout", "true")]
        url = f"http://{address.host}:{address.port}/exec/{NAMESPACE}/web/main"
        headers = {"Authorization": f"Bearer {address.token}"}
        async with session.ws_connect(url, params=query, headers=headers) as socket:
            assert (await socket.receive_bytes(timeout=20)).endswith(b"up\n")
            await _until(lambda: len(_running("sleep", "31415")) == 2)
        await _until(lambda: not _running("sleep", "31415"))


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.02)


def _running(*argv: str) -> list[str]:
    wanted = "".join(f"{word}\0" for word in argv).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes() == wanted:
                    found.append(entry.name)
            except OSError:
                continue
    return found
