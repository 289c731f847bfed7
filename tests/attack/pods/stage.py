"""A hostile container on the keeper, run by whoever runs this: `python stage.py ISOLATION DIRECTORY` with a scene on its input.

It needs the standard library and the kubelet's own modules only, so that any interpreter that a plain user reaches can run it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelyard.local.kubelet.processes import capabilities
from modelyard.local.kubelet.processes.runtime import Exit, Launch, Runtime, StartFailed, scope
from modelyard.local.kubelet.processes.sandbox import Isolation, Mount, View, detect

_PYTHON = "/usr/bin/python3"
_EXCHANGE = 2


@dataclass
class Stage:
    isolation: Isolation
    directory: Path
    exits: asyncio.Queue[tuple[str, Exit]] = field(default_factory=asyncio.Queue)
    starts: int = 0

    def __post_init__(self) -> None:
        self.runtime = Runtime(self.directory / "kubelet", linger=1.0)
        self.runtime.on_exit = lambda identity, exit: self.exits.put_nowait((identity, exit))
        self.sandbox = detect(self.isolation)

    def launch(self, script: str, scene: dict[str, Any]) -> Launch:
        self.starts += 1
        mounts = [Mount(**item | {"source": Path(item["source"])}) for item in scene.get("mounts", [])]
        place = self.directory / "kubelet" / "containers" / str(self.starts)
        place.mkdir(parents=True)
        message = place / "message"
        message.touch()
        files = {scene.get("message_path", "/dev/termination-log"): message}
        uid, gid = (os.getuid(), os.getgid()) if os.getuid() else (scene.get("uid", 0), scene.get("uid", 0))
        view = View(place / "root", mounts, [], files, "hostile", uid, gid)
        prepared = self.sandbox.prepare(
            view, [_PYTHON, "-S", "-c", script], {"PATH": "/usr/bin:/bin"} | scene.get("env", {})
        )
        identity = f"{scope(str(self.directory / 'kubelet'))}/pod/main/{self.starts}"
        return Launch(
            identity, prepared.argv, prepared.env, prepared.cwd, place / "log", prepared.mode, prepared.plan, prepared.wrapper,
            uid=uid, gid=gid, capabilities=capabilities.wanted(scene.get("context", {}))[0],
        )  # fmt: skip

    async def run(self, script: str, scene: dict[str, Any]) -> tuple[int, str]:
        """Its exit code and what it wrote; -1 and the reason if it could not be started."""
        launch = self.launch(script, scene)
        try:
            await self.runtime.start(launch)
        except StartFailed as error:
            return -1, str(error)
        exit = (await asyncio.wait_for(self.exits.get(), 30))[1]
        return exit.code, "\n".join(line.split(" ", 3)[3] for line in launch.log.read_text().splitlines())


async def play(stage: Stage, scene: dict[str, Any]) -> dict[str, Any]:
    match scene["play"]:
        case "run":
            code, output = await stage.run(scene["script"], scene)
            return {"code": code, "output": output, "line": await _line_holds(stage)}
        case "environment":
            return await _environment(stage, scene)
        case "swap":
            return await _swap(stage, scene)
        case "command":
            return await _command(stage, scene)
    raise ValueError(scene["play"])


async def _line_holds(stage: Stage) -> bool:
    return (await stage.run("print('still here')", {}))[1] == "still here"


async def _environment(stage: Stage, scene: dict[str, Any]) -> dict[str, Any]:
    """Who has the container's variable: the container, and who on the way to it."""
    process = await stage.runtime.start(stage.launch("import time; print(1, flush=True); time.sleep(60)", scene))
    inside = f"/proc/{process.pid}/environ"
    async with asyncio.timeout(20):
        while scene["look_for"].encode() not in Path(inside).read_bytes():
            await asyncio.sleep(0.01)
    outside = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (process.pid, os.getpid()):
            with contextlib.suppress(OSError):
                text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                if scene["look_for"].encode() in text:
                    outside.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
    await stage.runtime.kill(process.identity)
    return {"outside": outside}


async def _swap(stage: Stage, scene: dict[str, Any]) -> dict[str, Any]:
    """Starts containers while a directory of their volume and a link out of it change places all the time."""
    over = threading.Event()
    libc = ctypes.CDLL(None)
    one, other = scene["one"].encode(), scene["other"].encode()

    def swapping() -> None:
        while not over.is_set():
            libc.renameat2(-100, one, -100, other, _EXCHANGE)

    thread = threading.Thread(target=swapping)
    thread.start()
    try:
        seen = [await stage.run(scene["script"], scene) for _ in range(scene["tries"])]
    finally:
        over.set()
        thread.join()
    return {"seen": seen}


async def _command(stage: Stage, scene: dict[str, Any]) -> dict[str, Any]:
    """Runs a command that leaves its session, and gives it up; what is left of it afterwards."""
    launch = stage.launch("import time; print(1, flush=True); time.sleep(60)", scene)
    await stage.runtime.start(launch)
    async with asyncio.timeout(20):
        while not launch.log.exists() or not launch.log.read_text():
            await asyncio.sleep(0.01)
    null = os.open(os.devnull, os.O_RDONLY)
    read, write = os.pipe()
    script = f"setsid sh -c 'echo up; exec sleep {scene['mark']}' & sleep {scene['mark']}"
    done = await stage.runtime.execute(launch.identity, ["sh", "-c", script], null, write, write)
    await asyncio.to_thread(os.read, read, 10)
    if scene["how"] == "abandoned":
        await stage.runtime.abandon(done)
    else:
        await stage.runtime.close(shutdown=False)
        stage.runtime = Runtime(stage.directory / "kubelet", linger=1.0)
        await stage.runtime.connect()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            while _sleeping(scene["mark"]):
                await asyncio.sleep(0.02)
    return {"left": _sleeping(scene["mark"])}


def _sleeping(mark: str) -> int:
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found += (entry / "cmdline").read_bytes() == f"sleep\0{mark}\0".encode()
    return found


async def main(isolation: str, directory: str) -> None:
    stage = Stage(Isolation(isolation), Path(directory))
    await stage.runtime.connect()
    try:
        answer = await play(stage, json.load(sys.stdin))
    finally:
        await stage.runtime.close(shutdown=True)
    print(json.dumps(answer))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
