"""MySQL 8 and MariaDB by PyMySQL, which is imported only when such a database is asked for."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from modelyard.programs.database.session import (
    Conflicted,
    DatabaseDown,
    Dialect,
    Duplicate,
    Refused,
    Row,
    Session,
    TooLarge,
    Value,
)

_CONNECT_SECONDS = 2
_MOST_BYTES = 4
"""Of a character."""
_FRAME = 64
_USUAL_LARGEST = 2**24
_DUPLICATE = 1062
_CONFLICTS = frozenset((1205, 1213))
_REFUSALS = frozenset((1044, 1045, 1049, 1142, 1698, 3118))


class MysqlDialect(Dialect):
    """Columns hold bytes: every text collation of MySQL either ignores trailing blanks or exists in one of the two servers only.
    Beside such a column a text is compared by its bytes."""

    def like(self, column: str, pattern: str, *, ignore_case: bool) -> tuple[str, Value]:
        text = f"CONVERT({column} USING utf8mb4)"
        if ignore_case:
            # Lower case on both sides and a binary comparison: a collation would also take `e` for `é`.
            return f"LOWER({text}) COLLATE utf8mb4_bin LIKE ?", pattern.lower()
        return f"{text} COLLATE utf8mb4_bin LIKE ?", pattern


DIALECT = MysqlDialect(
    name="mysql",
    id_column="BIGINT AUTO_INCREMENT PRIMARY KEY",
    text="VARBINARY(1020)",
    long_text="LONGBLOB",
    indexed_text="{}(255)",
    number="DOUBLE",
    big_integer="BIGINT",
    small_integer="SMALLINT",
    document="LONGBLOB",
    table_suffix=" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    for_update=" FOR UPDATE",
    plans_by_statistics=True,
)


@dataclass(frozen=True)
class MysqlTarget:
    user: str
    password: str
    host: str
    port: int
    unix_socket: str | None
    database: str
    tls: ssl.SSLContext | None


class MysqlSession(Session):
    dialect = DIALECT

    def __init__(self, target: MysqlTarget) -> None:
        try:
            self._connection: Any = pymysql.connect(
                user=target.user,
                password=target.password,
                host=target.host,
                port=target.port,
                unix_socket=target.unix_socket,
                database=target.database,
                ssl=target.tls,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=60,
                write_timeout=60,
                client_flag=CLIENT.FOUND_ROWS,
                init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                sql_mode="STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
            )
        except pymysql.err.OperationalError as error:
            code = error.args[0] if error.args else 0
            raise (Refused if code in _REFUSALS else DatabaseDown)(_one_line(error)) from None
        except (pymysql.err.Error, OSError) as error:
            raise DatabaseDown(_one_line(error)) from None
        self._cursor = self._connection.cursor()
        self._largest = _USUAL_LARGEST
        self._largest = int(self.rows("SELECT @@max_allowed_packet")[0][0])

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]:
        self._execute(statement, parameters)
        return list(self._cursor.fetchall())

    def run(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        return self._execute(statement, parameters)

    def insert(self, statement: str, parameters: Sequence[Value]) -> int:
        self._execute(statement, parameters)
        return int(self._cursor.lastrowid)

    def begin(self) -> None:
        self._execute("BEGIN")

    def commit(self) -> None:
        self._execute("COMMIT")

    def rollback(self) -> None:
        self._execute("ROLLBACK")

    def close(self) -> None:
        try:
            self._connection.close()
        except pymysql.err.Error:
            self._connection._force_close()

    def tables(self) -> set[str]:
        found = self.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
        return {name.decode() if isinstance(name, bytes) else str(name) for (name,) in found}

    def _execute(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        # The driver would write bytes as hexadecimal digits; ours are UTF-8.
        values = tuple(value.decode() if isinstance(value, bytes) else value for value in parameters)
        self._check_size(statement, values)
        try:
            return int(self._cursor.execute(_with_percents(statement), values or None))
        except pymysql.err.IntegrityError as error:
            if error.args and error.args[0] == _DUPLICATE:
                raise Duplicate(str(error.args[1])) from None
            raise
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
            code = error.args[0] if error.args else 0
            if code in _CONFLICTS:
                raise Conflicted(_one_line(error)) from None
            raise DatabaseDown(_one_line(error)) from None
        except OSError as error:
            raise DatabaseDown(_one_line(error)) from None

    def _check_size(self, statement: str, values: tuple[Value, ...]) -> None:
        """The server hangs up on a longer statement, which looks like an outage."""
        if sum(len(value) for value in values if isinstance(value, str)) * _MOST_BYTES < self._largest:
            return
        size = len(self._cursor.mogrify(_with_percents(statement), values).encode()) + _FRAME
        if size > self._largest:
            raise TooLarge(
                f"The object needs a statement of {size} bytes, and the database takes {self._largest}: raise its max_allowed_packet"
            )


@functools.lru_cache(maxsize=256)
def _with_percents(statement: str) -> str:
    return statement.replace("?", "%s")


def _one_line(error: Exception) -> str:
    return " ".join(str(word) for word in error.args) or type(error).__name__
