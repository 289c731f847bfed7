"""Where a laptop cluster keeps things, and who holds it."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from modelyard.failure import Failed

_LEAST_SPACE = 64_000_000


class Held(Failed):
    """Another process runs this laptop cluster."""


class State(msgspec.Struct):
    """What a running laptop cluster says about itself."""

    pid: int
    started: float
    operators: list[str]
    platform: str = "kubernetes"
    ready: bool = False
    """Every part was ready once."""
    settled: bool = False
    """Also what `--apply` asked for was waited for."""
    problem: str = ""
    """Why what `--apply` asked for is not ready."""
    server: str = ""
    gateway: str = ""
    served: dict[str, str] = {}
    """Routes by name, with their addresses, as they were once everything was ready."""
    parts: dict[str, int] = {}
    restarts: dict[str, int] = {}
    broken: dict[str, str] = {}
    """Parts that ended and are not ready again, with the cause."""


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

    def broken_parts(self) -> list[str]:
        """The parts of a running cluster that do not run, each in a sentence."""
        state = self.read_state()
        if state is None:
            return []
        found = [
            f"the laptop cluster's {part} is down: {cause}; see: modelyard logs {part}{self.argument}"
            for part, cause in sorted(state.broken.items())
        ]
        return found if found or state.ready else ["the laptop cluster is still starting"]

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
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        except BlockingIOError:
            return True
        return False

    @contextlib.contextmanager
    def hold(self) -> Iterator[int]:
        """Holds the folder for this process; the kernel lets go when it ends, however it ends. A process that inherits the
        descriptor holds it too."""
        with self._lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Held(self.holder()) from None
            yield lock.fileno()

    def holder(self) -> str:
        state = self.read_state()
        who = f"process {state.pid}, started {ago(state.started)}" if state else "another process"
        return f"{self.directory} is held by {who}; stop it with: modelyard down{self.argument}"

    @property
    def argument(self) -> str:
        """What a command line needs to mean this folder."""
        return f" --dir {shlex.quote(str(self.directory))}" if self.directory != default_directory() else ""

    def require_running(self) -> State:
        state = self.read_state()
        if state is None or not self.is_running():
            raise Failed(
                f"no laptop cluster runs in {self.directory}; start one with: modelyard up{self.argument}{other_clusters()}"
            )
        return state

    def require_space(self) -> None:
        """A cluster on a full disk loses what it is told; this is said before it starts."""
        free = shutil.disk_usage(self.directory).free
        if free < _LEAST_SPACE:
            raise Failed(
                f"the disk of {self.directory} is full ({free // 1_000_000} MB are free, {_LEAST_SPACE // 1_000_000} MB are "
                "needed): free some space, or choose a folder on another disk with --dir"
            )


def default_directory() -> Path:
    """$MODELYARD_DIR, else the cluster in `.up` of this folder, else the user's own."""
    if named := os.environ.get("MODELYARD_DIR"):
        return Path(named).resolve()
    return here() or _data_directory("XDG_DATA_HOME", "share")


def here() -> Path | None:
    """`.up` of this folder, where `make up` puts a cluster. One of another user is not ours: its kubeconfig may name any program."""
    folder = Path(".up").resolve()
    try:
        mine = (folder / "apiserver").stat().st_uid == os.getuid()
    except OSError:
        return None
    return folder if mine else None


def remember(layout: Layout) -> None:
    """Notes the folder for `modelyard list`. The cluster runs as well where that cannot be written."""
    with contextlib.suppress(OSError):
        folder = _known_directory()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        note = folder / hashlib.sha256(str(layout.directory).encode()).hexdigest()[:20]
        fresh = note.with_suffix(f".{os.getpid()}")
        fresh.write_text(str(layout.directory))
        os.replace(fresh, note)


def known_clusters() -> list[Layout]:
    """Those that were started here and still have a folder; notes of others are deleted."""
    found = {default_directory()}
    with contextlib.suppress(OSError):
        for note in _known_directory().iterdir():
            with contextlib.suppress(OSError, UnicodeDecodeError):
                folder = Path(note.read_text())
                if Layout(folder).exists():
                    found.add(folder)
                elif not note.suffix:  # One with a suffix is being written just now.
                    note.unlink()
    return [layout for layout in map(Layout, sorted(found)) if layout.exists()]


def other_clusters() -> str:
    """The end of a sentence that says that no cluster was found: which ones run, and how to choose."""
    running = [str(layout.directory) for layout in known_clusters() if layout.is_running()]
    return f". Clusters run in: {', '.join(running)}; choose one with --dir" if running else ""


def _known_directory() -> Path:
    return _data_directory("XDG_STATE_HOME", "state") / "clusters"


def _data_directory(variable: str, folder: str) -> Path:
    root = os.environ.get(variable) or Path.home() / ".local" / folder
    return (Path(root) / "modelyard").resolve()


def directory_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        type=Path,
        default=default_directory(),
        metavar="DIR",
        help="the folder of the laptop cluster (default: $MODELYARD_DIR, else .up of this folder, else ~/.local/share/modelyard)",
    )


def layout_of(args: Any) -> Layout:
    return Layout(args.dir)


def require_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise Failed(
            "the laptop cluster runs on Linux (WSL included); on this system use `modelyard run` with a cluster, "
            "or a Linux virtual machine"
        )


def ago(moment: float) -> str:
    seconds = max(int(time.time() - moment), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
