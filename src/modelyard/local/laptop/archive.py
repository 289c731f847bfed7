"""A whole laptop cluster as one file: what `export` writes and `import` reads.

A plain tar, so that its size says what it holds. It has a manifest first, then the API server's files and the volumes. What the
cluster makes again by itself (running pods, logs, sockets, the kubeconfig) is not in it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from modelyard.failure import Failed
from modelyard.local.apiserver.storage.sqlite import SQLiteJournal, StateUnusable
from modelyard.local.laptop.layout import Layout
from modelyard.version import version

FORMAT = 1
_MANIFEST = "modelyard-cluster.json"
_MOST_MANIFEST = 65536
_DATABASE = "apiserver/state.db"
_FILES = ("ports.json", "kubelet/network.json")
_FOLDERS = ("apiserver", "volumes")
_LEFT_OUT = frozenset(("apiserver/lock", _DATABASE, f"{_DATABASE}-wal", f"{_DATABASE}-shm"))
_SPARE_BYTES = 64 << 20
_MOST_MEMBERS = 1_000_000


class Manifest(msgspec.Struct):
    format: int
    program: str = ""
    created: float = 0.0
    operators: list[str] = []
    platform: str = "kubernetes"


class BadArchive(Failed):
    """It was not made by `export`, or was changed since."""


def write(layout: Layout, target: Path) -> None:
    """Nobody may write to the cluster's volumes meanwhile. The file is there whole or not at all, for its owner only."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            with tarfile.open(fileobj=file, mode="w:", format=tarfile.PAX_FORMAT) as tar:
                _write(layout, tar, target.parent)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        raise Failed(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def _write(layout: Layout, tar: tarfile.TarFile, scratch: Path) -> None:
    state = layout.read_state()
    manifest = Manifest(FORMAT, version(), time.time())
    if state is not None:
        manifest.operators, manifest.platform = state.operators, state.platform
    _add_bytes(tar, _MANIFEST, msgspec.json.encode(manifest))
    for folder in _FOLDERS:
        _add_tree(tar, layout.directory / folder, folder)
    for name in _FILES:
        with contextlib.suppress(FileNotFoundError):
            _add_bytes(tar, name, (layout.directory / name).read_bytes())
    with _database_copy(layout.directory / _DATABASE, scratch) as copy:
        _add_file(tar, copy, _DATABASE, copy.stat())


@contextlib.contextmanager
def _database_copy(database: Path, scratch: Path) -> Iterator[Path]:
    """As it is at one moment, while the API server goes on writing."""
    with tempfile.TemporaryDirectory(prefix=".modelyard-export-", dir=scratch) as folder:
        copy = Path(folder) / "state.db"
        source, target = sqlite3.connect(f"file:{database}?mode=ro", uri=True), sqlite3.connect(copy)
        try:
            source.backup(target)
        except sqlite3.Error as error:
            raise Failed(f"{database} cannot be copied: {error}") from None
        finally:
            source.close()
            target.close()
        copy.chmod(0o600)
        yield copy


def _add_tree(tar: tarfile.TarFile, folder: Path, name: str) -> None:
    if name in _LEFT_OUT:
        return
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode):
        info = _info(name, found)
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        for entry in sorted(os.listdir(folder)):
            _add_tree(tar, folder / entry, f"{name}/{entry}")
    elif stat.S_ISLNK(found.st_mode):
        info = _info(name, found)
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(folder)
        tar.addfile(info)
    elif stat.S_ISREG(found.st_mode):
        _add_file(tar, folder, name, found)
    # Sockets, pipes and devices mean nothing elsewhere.


def _add_file(tar: tarfile.TarFile, path: Path, name: str, found: os.stat_result) -> None:
    info = _info(name, found)
    info.size = found.st_size
    with path.open("rb") as file:
        tar.addfile(info, file)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
    tar.addfile(info, io.BytesIO(data))


def _info(name: str, found: os.stat_result) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    info.mtime = found.st_mtime
    return info


def read(source: Path, layout: Layout, before: Callable[[], None]) -> Manifest:
    """Makes the cluster in this folder. A bad file leaves everything as it was; `before` makes room for a good one."""
    try:
        layout.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix=".import-", dir=layout.directory) as folder:
            place = Path(folder)
            with tarfile.open(source, mode="r:") as tar:
                manifest = _read(tar, place, source)
            _check_database(place / "apiserver", source)
            before()
            for name in (*_FOLDERS, *_FILES):
                if (place / name).exists():
                    (layout.directory / name).parent.mkdir(exist_ok=True, mode=0o700)
                    os.rename(place / name, layout.directory / name)
            return manifest
    except tarfile.TarError as error:
        raise BadArchive(f"{source} was not written by `modelyard export`: {error}") from None
    except OSError as error:
        raise Failed(f"cannot import {source}: {error.strerror or error}: {error.filename}") from None


def _read(tar: tarfile.TarFile, place: Path, source: Path) -> Manifest:
    first = tar.next()
    if first is None or first.name != _MANIFEST or first.type != tarfile.REGTYPE or first.size > _MOST_MANIFEST:
        raise BadArchive(f"{source} was not written by `modelyard export`")
    content = tar.extractfile(first)
    assert content is not None
    try:
        manifest = msgspec.json.decode(content.read(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise BadArchive(f"{source} has no readable manifest: {error}") from None
    if manifest.format != FORMAT:
        raise BadArchive(
            f"{source} has format {manifest.format}, written by modelyard {manifest.program or '(unknown)'}; this one "
            f"({version()}) reads format {FORMAT}: import it with that version"
        )
    room = shutil.disk_usage(place).free - _SPARE_BYTES
    folders: list[tuple[Path, int]] = []
    for count, member in enumerate(tar):
        room -= member.size
        if room < 0:
            raise Failed(f"there is not enough room below {place.parent} for what {source} holds")
        if count > _MOST_MEMBERS:
            raise BadArchive(f"{source} is refused: it holds more than {_MOST_MEMBERS:,} files")
        if count:
            _extract(tar, member, place, source)
        if member.type == tarfile.DIRTYPE:
            folders.append((place / member.name, member.mode & 0o777))
    for folder, mode in reversed(folders):
        # Only now: a folder that its owner may not write to is filled first.
        folder.chmod(mode)
    return manifest


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, place: Path, source: Path) -> None:
    """Makes one file, folder or symbolic link, and follows no link on the way there."""
    path = _place_of(member.name, place)
    if path is None:
        raise BadArchive(f"{source} is refused: {member.name!r} does not belong into a cluster's folder")
    if path.parent != place and not path.parent.exists():
        path.parent.mkdir(mode=0o700)
    if member.type == tarfile.DIRTYPE:
        path.mkdir(mode=0o700)
    elif member.type == tarfile.SYMTYPE and member.name.startswith("volumes/"):
        path.symlink_to(member.linkname)
    elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and member.sparse is None:
        content = tar.extractfile(member)
        assert content is not None
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(content, file)
            os.fchmod(file.fileno(), member.mode & 0o777)
        os.utime(path, (member.mtime, member.mtime))
    else:
        raise BadArchive(f"{source} is refused: {member.name!r} is neither a file nor a folder nor a link in a volume")
    if os.geteuid() == 0:
        # Programs of pods may run as another user; the numbers are what counts inside a volume.
        os.chown(path, member.uid, member.gid, follow_symlinks=False)


def _place_of(name: str, place: Path) -> Path | None:
    """Where a member goes; None for one that has no business here, or that would go through a link."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        return None
    if name not in _FILES and parts[0] not in _FOLDERS:
        return None
    path = place
    for part in parts[:-1]:
        path = path / part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            return None
    return path / parts[-1]


def _check_database(folder: Path, source: Path) -> None:
    if not (folder / "state.db").is_file():
        raise BadArchive(f"{source} is refused: it holds no objects")
    try:
        SQLiteJournal(folder).close()
    except StateUnusable as error:
        raise BadArchive(f"{source} is refused: {error}") from None
