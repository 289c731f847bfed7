"""Where a database is and how to get in: the forms in which operators and people write it. Opens nothing before it is asked."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, unquote

from modelyard.programs.database.pool import Database
from modelyard.programs.database.session import Dialect, Session
from modelyard.programs.database.sqlite import DIALECT as SQLITE
from modelyard.programs.database.sqlite import SqliteSession

DatabaseType = Literal["sqlite", "postgres", "mysql"]
TYPES: tuple[DatabaseType, ...] = ("sqlite", "postgres", "mysql")
_POSTGRES_URL = re.compile(r"postgres(?:ql)?://(?P<rest>.*)", re.DOTALL)
_MYSQL = re.compile(r"(?:(?P<user>.*)@)?(?P<net>tcp|unix)?(?:\((?P<address>[^)]*)\))?/(?P<rest>.*)", re.DOTALL)


class SourceError(Exception):
    """The address of a database cannot be read, or its driver or certificate is missing."""


@dataclass(frozen=True)
class Tls:
    """Certificate files for the way to the database; empty names are absent."""

    certificate: str = ""
    key: str = ""
    root_certificate: str = ""
    authorities: str = ""
    """A file, or for MySQL also a directory of files."""
    verify: bool = False
    cipher: str = ""
    key_password: str = field(default="", repr=False)

    @property
    def asked(self) -> bool:
        return bool(self.certificate or self.key or self.root_certificate or self.authorities or self.verify)


@dataclass(frozen=True)
class Source:
    """A database's type and address. The address may contain a password, so it is never shown."""

    type: DatabaseType
    address: str = field(repr=False)
    tls: Tls = Tls()
    threads: int = 8


def type_of(address: str) -> DatabaseType:
    """The type that an address without one means."""
    if _POSTGRES_URL.match(address):
        return "postgres"
    if re.search(r"@(tcp|unix)\(", address):
        return "mysql"
    return "sqlite"


def open_database(source: Source) -> Database:
    """A pool for that database. Connections are made when the first work needs one."""
    if source.type == "sqlite":
        path = Path(source.address).expanduser()
        if not path.absolute().parent.is_dir():
            raise SourceError(f"the directory of the database file {path} does not exist: create it first")
        return Database(lambda writer: SqliteSession(path, writer=writer), SQLITE, threads=2)
    try:
        connect, dialect = _postgres(source) if source.type == "postgres" else _mysql(source)
    except ModuleNotFoundError as error:
        raise SourceError(f"a {source.type} database needs {error.name}: pip install 'modelyard[databases]'") from None
    return Database(connect, dialect, threads=source.threads)


def _postgres(source: Source) -> tuple[Callable[[bool], Session], Dialect]:
    from modelyard.programs.database.postgres import DIALECT, PostgresSession

    options = {**postgres_options(source.address), **_postgres_tls(source.tls)}
    return (lambda writer: PostgresSession(options)), DIALECT


def postgres_options(address: str) -> dict[str, str]:
    """libpq's keywords of a URL or of `key=value` words. Operators paste raw passwords into URLs, so the last `@` ends it."""
    found = _POSTGRES_URL.fullmatch(address.strip())
    if found is None:
        return _words(address)
    rest, _, query = found["rest"].partition("?") if "@" not in found["rest"] else _query_after_host(found["rest"])
    credentials, _, place = rest.rpartition("@")
    hosts, _, database = place.partition("/")
    user, colon, password = credentials.partition(":")
    options = {"user": unquote(user), "dbname": unquote(database)}
    if colon:
        options["password"] = _unquoted_password(password)
    names, ports = [], []
    for part in hosts.split(",") if hosts else []:
        name, port = _host_and_port(part)
        names.append(unquote(name))
        ports.append(port or "5432")
    options |= {"host": ",".join(names), "port": ",".join(ports)} if names else {}
    options |= dict(parse_qsl(query, keep_blank_values=True))
    return {key: value for key, value in options.items() if value or key == "password"}


def _query_after_host(rest: str) -> tuple[str, str, str]:
    credentials, _, place = rest.rpartition("@")
    place, mark, query = place.partition("?")
    return f"{credentials}@{place}", mark, query


def _unquoted_password(text: str) -> str:
    """A password that was pasted as it is may contain percent signs that escape nothing."""
    return unquote(text) if re.fullmatch(r"(?:[^%]|%[0-9A-Fa-f]{2})*", text) else text


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        name, _, port = text[1:].partition("]")
        return name, port.lstrip(":")
    name, _, port = text.partition(":")
    return name, port


def _words(text: str) -> dict[str, str]:
    """`host=db user='a b'`, with backslashes as escapes."""
    options, rest = {}, text.strip()
    while rest:
        found = re.match(r"(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s\\]|\\.)*))\s*", rest, re.DOTALL)
        if found is None:
            raise SourceError(
                "the database address is neither a postgres:// URL nor words such as host=db user=me dbname=x"
            )
        value = found[2] if found[2] is not None else found[3]
        options[found[1]] = re.sub(r"\\(.)", r"\1", value)
        rest = rest[found.end() :]
    return options


def _postgres_tls(tls: Tls) -> dict[str, str]:
    options: dict[str, str] = {}
    if tls.asked:
        options["sslmode"] = "verify-full" if tls.verify else "require"
        options |= {"sslcert": tls.certificate, "sslkey": tls.key}
        options["sslrootcert"] = tls.root_certificate or tls.authorities
    if tls.key_password:
        options["sslpassword"] = tls.key_password
    return {key: value for key, value in options.items() if value}


def _mysql(source: Source) -> tuple[Callable[[bool], Session], Dialect]:
    from modelyard.programs.database.mysql import DIALECT, MysqlSession, MysqlTarget

    found = _MYSQL.fullmatch(source.address.strip())
    if found is None:
        raise SourceError("the MySQL address has not the form user:password@tcp(host:port)/database")
    user, _, password = (found["user"] or "").partition(":")
    database, _, query = found["rest"].partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    address = found["address"] or "127.0.0.1:3306"
    host, port = ("localhost", "3306") if found["net"] == "unix" else _host_and_port(address)
    target = MysqlTarget(
        # The address has no escapes of its own; the operator writes a colon in a user's name so, for it would end the name.
        user=user.replace("%3A", ":"),
        password=password,
        host=host,
        port=int(port) if port.isdigit() else 3306,
        unix_socket=address if found["net"] == "unix" else None,
        database=unquote(database),
        tls=_mysql_tls(source.tls, options.get("tls", "")),
    )
    return (lambda writer: MysqlSession(target)), DIALECT


def _mysql_tls(tls: Tls, word: str) -> ssl.SSLContext | None:
    if not tls.asked and not tls.cipher and word in ("", "false", "preferred"):
        return None
    context = ssl.create_default_context()
    try:
        for path in filter(None, (tls.root_certificate, tls.authorities)):
            if os.path.isdir(path):
                _load_directory(context, Path(path))
            else:
                context.load_verify_locations(path)
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.key or None, tls.key_password or None)
        if tls.cipher:
            context.set_ciphers(tls.cipher)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(filter(None, (tls.root_certificate, tls.authorities, tls.certificate, tls.key)))
        raise SourceError(f"cannot use the certificates for the database ({named}): {error}") from None
    if not (tls.verify or word == "true"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED if (tls.root_certificate or tls.authorities) else ssl.CERT_NONE
    return context


def _load_directory(context: ssl.SSLContext, directory: Path) -> None:
    """Every certificate of a mounted ConfigMap; what Kubernetes keeps there for itself starts with two dots."""
    for path in sorted(directory.iterdir()):
        if path.is_file() and not path.name.startswith(".."):
            context.load_verify_locations(path)
