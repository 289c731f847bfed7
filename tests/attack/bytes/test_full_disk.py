"""A disk that somebody filled: the server says so, goes on answering, and lets objects be deleted."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.errors import ApiError
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.storage.sqlite import StateUnusable
from tests.attack.bytes.confined import request


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return


async def _ready(server: ApiServer) -> int:
    return (await server.handle(request("GET", "/readyz"))).status


async def _story(disk: Path) -> dict[str, object]:
    async with ApiServer(disk / "state") as server:
        client = server.client()
        for number in range(20):
            body = {"metadata": {"name": f"c{number}", "namespace": "default"}, "data": {"a": "x" * 20_000}}
            await client.create(ConfigMap, body)
        _fill(disk)
        refused = ""
        for number in range(200):
            body = {"metadata": {"name": f"d{number}", "namespace": "default"}, "data": {"a": "x" * 100_000}}
            try:
                await client.create(ConfigMap, body)
            except ApiError as error:
                refused = str(error)
                break
        full = await _ready(server)
        await client.delete(ConfigMap, "default", "c0")
        (disk / "ballast").unlink()
        await client.create(ConfigMap, {"metadata": {"name": "after", "namespace": "default"}})
        last = await _ready(server)
    _fill(disk)
    try:
        async with ApiServer(disk / "new"):
            start = "started"
    except (StateUnusable, OSError) as error:
        start = str(error)
    return {"refused": refused, "full": full, "last": last, "start": start}


def test_a_full_disk_is_told_and_objects_can_be_deleted(tmp_path: Path) -> None:
    inner = (
        f"mount -t tmpfs -o size=6m none {tmp_path} && {sys.executable} -m tests.attack.bytes.test_full_disk {tmp_path}"
    )
    small_disk = ["unshare", "--map-root-user", "--mount", "sh", "-c", inner]
    if shutil.which("unshare") is None or subprocess.run([*small_disk[:3], "true"], check=False).returncode:
        assert not os.environ.get("CI"), "user namespaces are not allowed here"
        pytest.skip("user namespaces are not allowed here")
    done = subprocess.run(small_disk, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert "is full: make room on it, or delete objects" in told["refused"]
    assert (told["full"], told["last"]) == (500, 200)
    assert "full" in told["start"] or "No space left" in told["start"]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_story(Path(sys.argv[1])))))
