"""Hostile pods as root and as a plain user, with our own namespaces and with bubblewrap."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from modelyard.local.kubelet.processes import keeper

_PLAIN = 12345
_SOURCES = Path(keeper.__file__).parents[4]
_GROUNDS = ("root-namespaces", "user-namespaces", "user-bubblewrap")


@dataclass(frozen=True)
class Ground:
    """Somebody on this machine who runs containers by one kind of isolation."""

    name: str
    directory: Path
    uid: int
    sources: Path
    """Where this somebody can read our code, which may be checked out in a directory of another user."""

    @property
    def is_root(self) -> bool:
        return self.uid == 0

    def play(self, **scene: Any) -> dict[str, Any]:
        isolation = self.name.partition("-")[2]
        done = subprocess.run(
            [_interpreter(self.uid), str(self.sources / "stage.py"), isolation, str(self.directory)],
            input=json.dumps(scene), capture_output=True, text=True, timeout=120, cwd="/",
            env={"PYTHONPATH": str(self.sources), "PATH": os.environ["PATH"]}, **as_user(self.uid),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def folder(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir()
        os.chown(path, self.uid, self.uid if os.getuid() == 0 else -1)
        return path


def as_user(uid: int) -> dict[str, Any]:
    return {} if os.getuid() == uid else {"user": uid, "group": uid, "extra_groups": []}


def _interpreter(uid: int) -> str:
    for path in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run([path, "-c", "import ctypes"], check=True, cwd="/", capture_output=True, **as_user(uid))
        except (OSError, subprocess.SubprocessError):
            continue
        return path
    pytest.skip("no interpreter that a plain user can run")


@pytest.fixture(scope="session")
def sources() -> Iterator[Path]:
    with TemporaryDirectory(prefix="pods-sources-") as directory:
        os.chmod(directory, 0o755)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(_SOURCES / "modelyard", Path(directory) / "modelyard", ignore=ignored)
        shutil.copy(Path(__file__).parent / "stage.py", directory)
        for folder, _, names in os.walk(directory):
            os.chmod(folder, 0o755)
            for name in names:
                os.chmod(Path(folder) / name, 0o644)
        yield Path(directory)


@pytest.fixture(params=_GROUNDS)
def ground(request: pytest.FixtureRequest, sources: Path) -> Iterator[Ground]:
    who, _, isolation = request.param.partition("-")
    if who == "root" and os.getuid() != 0:
        pytest.skip("needs root")
    if isolation == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    uid = 0 if who == "root" else os.getuid() or _PLAIN
    with TemporaryDirectory(prefix="pods-") as directory:
        if os.getuid() == 0:
            os.chown(directory, uid, uid)
        yield Ground(request.param, Path(directory), uid, sources)
