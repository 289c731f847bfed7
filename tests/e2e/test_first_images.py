"""The images that everybody tries first, and a user's own: real processes on the machine's own programs."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.e2e.pods import Plane, plane


@pytest.fixture
async def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Plane]:
    folder = tmp_path / "images.d"
    folder.mkdir()
    monkeypatch.setenv("MODELYARD_IMAGES", str(folder))
    async with plane(tmp_path) as one:
        yield one


async def test_python_runs_and_an_event_says_which(ground: Plane) -> None:
    server = {"image": "python:3.2-slim", "command": ["python", "-m", "http.server", "8000", "--directory", "/etc"]}
    probe = {"httpGet": {"path": "/hostname", "port": 8000}, "periodSeconds": 1}
    await ground.pod("web", server | {"readinessProbe": probe})
    pod = await ground.ready("web")
    url = f"http://{pod['status']['podIP']}:8000/hostname"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert await response.text() == "web\n"
    assert (await ground.execute("web", "python3", "-c", "import modelyard"))[0] != 0
    said = dict(await ground.events("web"))["ImageSubstituted"]
    assert said.startswith(f"Python {platform.python_version()} with the programs of this machine")
    assert said.endswith('runs in place of image "python:3.2-slim" (3.2 was asked for)')


async def test_busybox_is_the_shell_of_this_machine(ground: Plane) -> None:
    script = "echo one two | cut -d' ' -f2; python3 -c 'import modelyard' 2>/dev/null || echo alone"
    await ground.pod("box", {"image": "busybox:1.36", "command": ["sh", "-c", script]}, restartPolicy="Never")
    pod = await ground.finished("box")
    assert pod["status"]["phase"] == "Succeeded"
    assert await ground.log("box") == "two\nalone\n"
    assert "the shell and programs of this machine" in dict(await ground.events("box"))["ImageSubstituted"]


async def test_alpine_is_a_shell_too(ground: Plane) -> None:
    await ground.pod("alpine", {"image": "alpine:3.20", "args": ["sh", "-c", "echo $((6 * 7))"]}, restartPolicy="Never")
    pod = await ground.finished("alpine")
    assert pod["status"]["phase"] == "Succeeded"
    assert await ground.log("alpine") == "42\n"


async def test_hashicorps_http_echo_answers_with_its_text(ground: Plane) -> None:
    probe = {"httpGet": {"path": "/", "port": 5678}, "periodSeconds": 1}
    container = {"image": "hashicorp/http-echo:1.0", "args": ["-text=hello there"], "readinessProbe": probe}
    await ground.pod("echo", container)
    pod = await ground.ready("echo")
    async with aiohttp.ClientSession() as session, session.get(f"http://{pod['status']['podIP']}:5678/") as response:
        assert (await response.text()).strip() == "hello there"


async def test_a_recipe_in_a_file_is_enough_to_run_an_image(ground: Plane) -> None:
    folder = ground.directory / "images.d"
    (folder / "code").mkdir()
    (folder / "code" / "shop.py").write_text("import os\nprint('open in', os.environ['MODE'])\n")
    text = 'images = ["example.com/shop"]\nversion = "1.2"\nsource = ["code"]\ncommand = ["python", "-m", "shop"]\n[env]\nMODE = "demo"\n'
    (folder / "shop.toml").write_text(text)
    await ground.pod("shop", {"image": "example.com/shop:1.2"}, restartPolicy="Never")
    await ground.finished("shop")
    assert await ground.log("shop") == "open in demo\n"
    assert "ImageSubstituted" not in dict(await ground.events("shop"))
