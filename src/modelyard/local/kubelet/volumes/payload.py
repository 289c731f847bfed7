"""Files of a volume that change together: written to a new directory, then swapped in with one rename of a symlink."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DATA = "..data"


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    mode: int


class PathError(ValueError):
    """A path of a volume's item that would lead out of the volume."""


def write(directory: Path, files: Mapping[str, File], *, owner: tuple[int, int] | None = None) -> bool:
    """Make the volume hold exactly these files; True if something changed. Readers see all old or all new, never a mix."""
    for path in files:
        parts = Path(path).parts
        if not parts or Path(path).is_absolute() or ".." in parts or parts[0].startswith(".."):
            raise PathError(f"path {path!r} must be relative and stay inside the volume")
    if _current(directory) == dict(files):
        return False
    directory.mkdir(parents=True, exist_ok=True)
    before = os.readlink(directory / DATA) if (directory / DATA).is_symlink() else None
    fresh = directory / f"..{time.strftime('%Y_%m_%d_%H_%M_%S')}.{time.time_ns() % 10**9:09d}"
    fresh.mkdir(mode=0o755)
    try:
        _fill(fresh, files, owner)
    except OSError:
        # It is tried again and again: what was written so far must not stay each time.
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _swap(directory / DATA, fresh.name)
    top = {Path(path).parts[0] for path in files}
    for name in top:
        link = directory / name
        if not link.is_symlink():
            _swap(link, f"{DATA}/{name}")
    for entry in os.scandir(directory):
        if entry.is_symlink() and entry.name != DATA and entry.name not in top:
            os.unlink(entry.path)
    if before is not None:
        shutil.rmtree(directory / before, ignore_errors=True)
    return True


def _fill(fresh: Path, files: Mapping[str, File], owner: tuple[int, int] | None) -> None:
    for path, file in files.items():
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        with os.fdopen(descriptor, "wb") as out:
            out.write(file.content)
            os.fchmod(descriptor, file.mode)
            if owner is not None:
                os.fchown(descriptor, *owner)


def _swap(link: Path, target: str) -> None:
    # No key begins with two dots, so this is nobody's file.
    temporary = link.with_name(f"..{link.name}_tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(target)
    temporary.rename(link)


def _current(directory: Path) -> dict[str, File] | None:
    data = directory / DATA
    if not data.is_symlink():
        return None
    root = directory / os.readlink(data)
    found: dict[str, File] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            found[str(path.relative_to(root))] = File(path.read_bytes(), path.stat().st_mode & 0o7777)
    return found
