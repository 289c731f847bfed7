"""SQLite: a file, one writer, many readers. Commits reach the disk before they are acknowledged."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from modelyard.programs.database.session import DatabaseDown, Dialect, Duplicate, Refused, Row, Session, Value
from modelyard.programs.filter_query import pattern_regex

_CACHE_KIB = 4096
_UNIQUE = "UNIQUE constraint failed: "


class SqliteDialect(Dialect):
    def like(self, column: str, pattern: str, *, ignore_case: bool) -> tuple[str, Value]:
        if not ignore_case:
            return f"{column} LIKE ? ESCAPE '\\'", pattern
        if pattern.isascii():
            return f"lower({column}) LIKE ? ESCAPE '\\'", pattern.lower()
        return f"matches_any_case(?, {column})", pattern


DIALECT = SqliteDialect(
    name="sqlite",
    id_column="INTEGER PRIMARY KEY AUTOINCREMENT",
    text="TEXT",
    long_text="TEXT",
    indexed_text="{}",
    number="REAL",
    big_integer="INTEGER",
    small_integer="INTEGER",
    document="BLOB",
    table_suffix="",
    for_update="",
    plans_by_statistics=False,
)


def _matches_any_case(pattern: str, text: str | None) -> bool:
    return text is not None and pattern_regex(pattern, ignore_case=True).fullmatch(text) is not None


class SqliteSession(Session):
    dialect = DIALECT

    def __init__(self, path: Path, *, writer: bool) -> None:
        self._writer = writer
        try:
            self._connection = sqlite3.connect(
                path, timeout=10, isolation_level=None, check_same_thread=False, cached_statements=128
            )
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "case_sensitive_like = ON",
                f"cache_size = -{_CACHE_KIB}",
                "temp_store = MEMORY",
            ):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.create_function("matches_any_case", 2, _matches_any_case, deterministic=True)
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error):
                raise Refused(f"{path} is not an SQLite database") from None
            raise DatabaseDown(f"cannot open {path}: {error}") from None

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def run(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        return self._execute(statement, parameters).rowcount

    def insert(self, statement: str, parameters: Sequence[Value]) -> int:
        return self._execute(statement, parameters).lastrowid or 0

    def begin(self) -> None:
        self._execute("BEGIN IMMEDIATE" if self._writer else "BEGIN")

    def commit(self) -> None:
        self._execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._execute("ROLLBACK")

    def savepoint(self, verb: str) -> None:
        """`SAVEPOINT`, `RELEASE` or `ROLLBACK TO` of the one savepoint that the writer uses."""
        self._execute(f"{verb} one")

    def close(self) -> None:
        self._connection.close()

    def tables(self) -> set[str]:
        return {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _execute(self, statement: str, parameters: Sequence[Value] = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement, parameters)
        except sqlite3.IntegrityError as error:
            text = str(error)
            if text.startswith(_UNIQUE):
                raise Duplicate(text.removeprefix(_UNIQUE)) from None
            raise
        except sqlite3.DatabaseError as error:
            raise DatabaseDown(str(error)) from error
