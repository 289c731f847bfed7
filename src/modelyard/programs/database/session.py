"""What a statement may do in any of the databases: one session is one connection, used by one thread at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = tuple[Any, ...]


class DatabaseDown(Exception):
    """The database cannot be reached now. The message is the driver's, for logs."""


class Refused(Exception):
    """The database can be reached, but it refuses us: wrong password, no such database, no permission."""


class Duplicate(Exception):
    """A unique index refused a row; `index` is its name, or the columns where the database tells only these."""

    def __init__(self, index: str) -> None:
        super().__init__(index)
        self.index = index


class TooLarge(Exception):
    """The database takes no statement of this size. The message is for the caller of the API."""


class Conflicted(Exception):
    """The database gave up a transaction in favor of another one; it may be tried again from its start."""


@dataclass(frozen=True)
class Dialect:
    """What differs between the databases in the text of statements."""

    name: str
    id_column: str
    """The type of a primary key that counts up by itself and never repeats a number."""
    text: str
    """The type of a text of up to 255 characters that compares by its bytes."""
    long_text: str
    indexed_text: str
    """How an index names a long text column `{}`."""
    number: str
    big_integer: str
    small_integer: str
    document: str
    table_suffix: str
    for_update: str
    plans_by_statistics: bool
    """Whether its planner knows how many rows a condition matches; else a query must say where to start."""

    def stored(self, text: str) -> Value:
        """A text as a parameter for a text column."""
        return text

    def like(self, column: str, pattern: str, *, ignore_case: bool) -> tuple[str, Value]:
        """The condition that a text column matches a LIKE pattern whose escapes are backslashes, and its parameter."""
        raise NotImplementedError


class Session(ABC):
    """Statements have `?` for parameters, in every dialect, and contain no other question mark and no percent sign."""

    dialect: Dialect

    @abstractmethod
    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]: ...

    @abstractmethod
    def run(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        """Runs a change; gives the number of rows that it touched."""

    @abstractmethod
    def insert(self, statement: str, parameters: Sequence[Value]) -> int:
        """Runs an INSERT; gives the new row's id."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def tables(self) -> set[str]:
        """The names of the tables in the database (in PostgreSQL: in the schema that new tables go to)."""

    def row(self, statement: str, parameters: Sequence[Value] = ()) -> Row | None:
        found = self.rows(statement, parameters)
        return found[0] if found else None

    def lock(self, name: str) -> None:
        """Until the transaction ends, no other process holds this name. SQLite has one writer anyway."""
        return


def placeholders(count: int) -> str:
    return ", ".join("?" * count)
