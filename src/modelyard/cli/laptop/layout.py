"""Where a laptop cluster keeps things, and who holds it."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from modelyard.cli.output import Failed


class Held(Failed):
    """Another process runs this laptop cluster."""


class State(msgspec.Struct):
    """What a running laptop cluster says about itself."""

    pid: int
    started: float
    operators: list[str]
    platform: str = "kubernetes"
    ready: bool = False
    problem: str = ""
    """Why what `--apply` asked for is not ready."""
    server: str = ""
    gateway: str = ""
    served: dict[str, str] = {}
    """Routes by name, with their addresses, as they were once everything was ready."""
    parts: dict[str, int] = {}
    restarts: dict[str, int] = {}


class Layout:
    """The folder of one laptop cluster. It may be moved while the cluster is down."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.kubeconfig = self.directory / "kubeconfig"
        self.apiserver = self.directory / "apiserver"
        self.volumes = self.directory / "volumes"
        self.kubelet = self.directory / "kubelet"
        self.building = self.kubelet / "building.txt"
        """What the kubelet builds an image of just now, in one line; not there if it builds none."""
        self.logs = self.directory / "logs"
        self.state_file = self.directory / "state.json"
        self._lock = self.directory / "lock"

    def create(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for part in (self.apiserver, self.volumes, self.kubelet, self.logs):
                part.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise Failed(f"cannot use {self.directory}: {error.strerror}; choose another folder with --dir") from None

    def exists(self) -> bool:
        return self.apiserver.is_dir()

    def read_state(self) -> State | None:
        """What the cluster last said; `is_running` tells whether that is still true."""
        try:
            return msgspec.json.decode(self.state_file.read_bytes(), type=State)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def read_building(self) -> str:
        try:
            return self.building.read_text()
        except OSError:
            return ""

    def write_state(self, state: State) -> None:
        fresh = self.state_file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=2))
        os.replace(fresh, self.state_file)

    def is_running(self) -> bool:
        try:
            with self._lock.open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Holds the folder for this process; the kernel lets go when it ends, however it ends."""
        with self._lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Held(self.holder()) from None
            yield

    def holder(self) -> str:
        state = self.read_state()
        who = f"process {state.pid}, started {_ago(state.started)}" if state else "another process"
        return f"{self.directory} is held by {who}; stop it with: modelyard down{self.argument}"

    @property
    def argument(self) -> str:
        """What a command line needs to mean this folder."""
        return f" --dir {shlex.quote(str(self.directory))}" if self.directory != default_directory() else ""

    def require_running(self) -> State:
        state = self.read_state()
        if state is None or not self.is_running():
            raise Failed(f"no laptop cluster runs in {self.directory}; start one with: modelyard up{self.argument}")
        return state


def default_directory() -> Path:
    root = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(os.environ.get("MODELYARD_DIR") or Path(root) / "modelyard").resolve()


def directory_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        type=Path,
        default=default_directory(),
        metavar="DIR",
        help="the folder of the laptop cluster (default: $MODELYARD_DIR, else ~/.local/share/modelyard)",
    )


def layout_of(args: Any) -> Layout:
    return Layout(args.dir)


def require_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise Failed(
            "the laptop cluster runs on Linux (WSL included); on this system use `modelyard run` with a cluster, "
            "or a Linux virtual machine"
        )


def _ago(moment: float) -> str:
    seconds = max(int(time.time() - moment), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
