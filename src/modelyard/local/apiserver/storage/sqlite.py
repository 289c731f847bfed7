"""The journal of a durable store: one SQLite file (WAL) in a directory that is locked against a second server."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from modelyard.local.apiserver.storage.store import WELL_KNOWN, Change, Stored, restored
from modelyard.version import version

FORMAT = 1
_APPLICATION = 0x6D6F6479
_SCHEMA = """
CREATE TABLE objects (born INTEGER PRIMARY KEY, storage TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, value BLOB NOT NULL);
INSERT INTO objects VALUES (0, '', '', 1, '');
"""
"""The row of born 0 is not an object: its version is the last one that was given out, its key the program that wrote last."""
_ROW = "(?,?,?,?,?)"
_MOST_ROWS = 500
_RESERVED_BYTES = 1024 * 1024

Durability = Literal["full", "relaxed"]


class StateUnusable(Exception):
    """The state directory cannot be used; the message says why and what to do. Nothing in it was changed."""


class SQLiteJournal:
    """`durable="full"` keeps acknowledged writes across power loss, `"relaxed"` across a crash of the process only."""

    def __init__(self, directory: Path, durable: Durability = "full") -> None:
        self._path = directory / "state.db"
        self._reserved = directory / "reserve"
        self._room_is_missing = False
        self._program = f"modelyard {version()}"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(directory)
        try:
            exists = _examine(self._path)
            self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            try:
                self._open(exists, durable)
            except sqlite3.DatabaseError as error:
                self._db.close()
                why = _no_room(self._path) if _is_full(error) else _damaged(self._path, error)
                raise StateUnusable(why) from error
            self._reserve()
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, exists: bool, durable: Durability) -> None:
        db = self._db
        if exists:
            found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        else:
            os.chmod(self._path, 0o600)
            db.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA application_id={_APPLICATION}; PRAGMA user_version={FORMAT}; COMMIT;"
            )
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durable == 'full' else 'NORMAL'}")
        db.execute("PRAGMA wal_autocheckpoint=4000")
        # Objects are read from memory, and the kernel keeps the pages of the file too. In KiB.
        db.execute("PRAGMA cache_size=-512")

    def load(self) -> tuple[int, list[Stored]]:
        try:
            program, version = self._db.execute("SELECT key, version FROM objects WHERE born = 0").fetchone()
            rules = WELL_KNOWN if program == self._program else None
            rows = self._db.execute("SELECT storage, key, version, value, born FROM objects WHERE born > 0")
            return version, [restored(storage, key, at, raw, born, rules) for storage, key, at, raw, born in rows]
        except (sqlite3.DatabaseError, msgspec.MsgspecError, TypeError) as error:
            self.close()
            raise StateUnusable(_damaged(self._path, error)) from error

    def _reserve(self) -> bool:
        """Keeps some room on the disk for deletions; whether it is there now."""
        with suppress(OSError):
            handle = os.open(self._reserved, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(handle, 0, _RESERVED_BYTES)
            except OSError:
                self._reserved.unlink()
                return False
            finally:
                os.close(handle)
            return True
        return False

    def append(self, changes: Sequence[Change], version: int) -> None:
        """Keeps changes. On a full disk what ends an object still finds room: nothing else makes any."""
        try:
            self._append(changes, version)
        except sqlite3.OperationalError as error:
            if not _is_full(error):
                raise
            self._room_is_missing = True
            if not all(change.new is None or change.new.deleting for change in changes):
                raise OSError(_no_room(self._path)) from error
            self._reserved.unlink(missing_ok=True)
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._append(changes, version)
        else:
            if self._room_is_missing:
                self._room_is_missing = not self._reserve()

    def _append(self, changes: Sequence[Change], version: int) -> None:
        # Of an object that changed several times in a batch only the last state counts.
        last: dict[int, Stored | None] = {}
        for change in changes:
            last[change.subject.born] = change.new
        gone = [born for born, new in last.items() if new is None]
        rows: list[object] = [0, "", self._program, version, b""]
        for born, new in last.items():
            if new is not None:
                rows += (born, new.storage, new.key, new.version, new.raw)
        count = len(rows) // 5
        if not gone and count <= _MOST_ROWS:
            # One statement is one transaction. Each statement that this thread runs makes it wait for the interpreter again.
            self._insert(rows, count)
            return
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for first in range(0, count, _MOST_ROWS):
                part = rows[first * 5 : (first + _MOST_ROWS) * 5]
                self._insert(part, len(part) // 5)
            db.executemany("DELETE FROM objects WHERE born = ?", [(born,) for born in gone])
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _insert(self, values: list[object], count: int) -> None:
        self._db.execute(f"INSERT OR REPLACE INTO objects VALUES {','.join([_ROW] * count)}", values)

    def close(self) -> None:
        self._db.close()
        os.close(self._lock)


def _locked(directory: Path) -> int:
    handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise StateUnusable(
            f"the state directory {directory} is in use by another API server: stop that one, or give this one a directory of its own"
        ) from None
    return handle


def _examine(path: Path) -> bool:
    """Whether a state file is there. Reads its header without opening the database, so that a foreign file stays untouched."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return False
    if not header:
        # A server that was killed in its very first moment leaves an empty file.
        return False
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise StateUnusable(_damaged(path, "it is not a SQLite database"))
    version, application = struct.unpack(">I", header[60:64])[0], struct.unpack(">I", header[68:72])[0]
    if application != _APPLICATION:
        raise StateUnusable(_damaged(path, "it is a database of another program"))
    if version > FORMAT:
        raise StateUnusable(
            f"the state file {path} has format {version}, written by a newer modelyard; this one reads up to {FORMAT}: upgrade, "
            "or use another state directory"
        )
    return True


def _is_full(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def _no_room(path: Path) -> str:
    return f"the disk that holds {path} is full: make room on it, or delete objects"


def _damaged(path: Path, why: object) -> str:
    return f"the state file {path} cannot be read ({why}): restore it from a copy, or move it away to start empty"
