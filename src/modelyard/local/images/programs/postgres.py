"""Starts PostgreSQL as its container images do: makes the database directory once, from variables, then becomes the server.

Standard library only; runs in the image's own interpreter with the server's binaries first on PATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Settings(NamedTuple):
    directory: Path
    superuser: str
    superuser_password: str
    user: str
    password: str
    database: str
    method: str


def read_settings(environ: dict[str, str]) -> Settings:
    """Settings from either family of variables; `NAME_FILE` names a file that holds the value."""

    def value(name: str, default: str = "") -> str:
        if environ.get(f"{name}_FILE"):
            return Path(environ[f"{name}_FILE"]).read_text().strip()
        return environ.get(name, default)

    red_hat = any(name.startswith("POSTGRESQL_") for name in environ)
    if red_hat:
        directory = Path(environ.get("PGDATA") or "/var/lib/pgsql/data/userdata")
        user, password = value("POSTGRESQL_USER"), value("POSTGRESQL_PASSWORD")
        admin = value("POSTGRESQL_ADMIN_PASSWORD")
        if not admin and not (user and password):
            raise SystemExit(
                "postgres: set POSTGRESQL_ADMIN_PASSWORD, or POSTGRESQL_USER, POSTGRESQL_PASSWORD and POSTGRESQL_DATABASE"
            )
        return Settings(directory, "postgres", admin, user, password, value("POSTGRESQL_DATABASE"), "scram-sha-256")
    directory = Path(environ.get("PGDATA") or "/var/lib/postgresql/data")
    user = value("POSTGRES_USER", "postgres")
    method = value("POSTGRES_HOST_AUTH_METHOD", "scram-sha-256")
    password = value("POSTGRES_PASSWORD")
    if not password and method != "trust" and not (directory / "PG_VERSION").exists():
        raise SystemExit("postgres: the superuser password is not specified; set POSTGRES_PASSWORD (from a Secret)")
    return Settings(directory, user, password, "", "", value("POSTGRES_DB", user), method)


def initialise(settings: Settings) -> None:
    """Make the database directory, with its superuser, user and database."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    settings.directory.chmod(0o700)
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        secret = Path(scratch) / "password"
        secret.write_text(settings.superuser_password or os.urandom(18).hex())
        command = ["initdb", "-D", str(settings.directory), "-U", settings.superuser, f"--pwfile={secret}"]
        subprocess.run([*command, "-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-instructions"], check=True)
        with (settings.directory / "pg_hba.conf").open("w") as rules:
            rules.write(f"local all all trust\nhost all all 127.0.0.0/8 {settings.method}\n")
        with (settings.directory / "postgresql.conf").open("a") as config:
            # Laptop sizes; the image's own defaults reserve more shared memory than a small pod may use.
            config.write("\nmax_connections = 100\nshared_buffers = 64MB\n")
        options = f"-c listen_addresses='' -c unix_socket_directories={scratch}"
        control = ["pg_ctl", "-D", str(settings.directory), "-w"]
        subprocess.run([*control, "-o", options, "-l", f"{scratch}/log", "start"], check=True)
        try:
            set_up(settings, scratch)
        finally:
            subprocess.run([*control, "-m", "fast", "stop"], check=True)


def set_up(settings: Settings, socket: str) -> None:
    def sql(text: str, database: str = "postgres") -> None:
        command = ["psql", "-h", socket, "-U", settings.superuser, "-d", database, "-v", "ON_ERROR_STOP=1", "-q"]
        subprocess.run(command, input=text.encode(), check=True, env={**os.environ, "PGHOST": socket})

    if settings.user:
        sql(f"CREATE USER {quoted(settings.user)} WITH PASSWORD {literal(settings.password)};")
    if settings.database and settings.database != "postgres":
        owner = settings.user or settings.superuser
        sql(f"CREATE DATABASE {quoted(settings.database)} OWNER {quoted(owner)};")
    scripts = Path("/docker-entrypoint-initdb.d")
    for script in sorted(scripts.iterdir()) if scripts.is_dir() else []:
        if script.suffix == ".sql":
            print(f"running {script}", flush=True)
            sql(script.read_text(), settings.database or "postgres")
        elif script.suffix == ".sh":
            print(f"running {script}", flush=True)
            subprocess.run(["/bin/sh", str(script)], check=True, env={**os.environ, "PGHOST": socket})


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def main(arguments: list[str]) -> None:
    host, rest = arguments[1], arguments[2:]
    settings = read_settings(dict(os.environ))
    if not (settings.directory / "PG_VERSION").exists():
        initialise(settings)
    stale = settings.directory / "postmaster.pid"
    if stale.exists():
        # Pods do not share a database directory; the process that wrote this was killed with its pod.
        stale.unlink()
    command = program(settings, host, rest, tempfile.mkdtemp(dir="/tmp"))
    os.execvp(command[0], command)


def program(settings: Settings, host: str, arguments: list[str], directory: str) -> list[str]:
    """What to become: the server, or what speaks TLS in front of it, as these binaries cannot. Between the two is a socket in
    the directory, with rules of its own: who comes from there has come from anywhere."""
    server = ["postgres", "-D", str(settings.directory)]
    given, others = split(arguments)
    if given.get("ssl", "off").lower() not in ("on", "true", "yes", "1"):
        return [*server, "-h", host, "-c", "unix_socket_directories=", *arguments]
    port = given.get("port", "5432")
    rules = Path(directory) / "pg_hba.conf"
    rules.write_text(f"local all all {settings.method}\n")
    # Names of files are relative to the database.
    certificate = settings.directory / given.get("ssl_cert_file", "server.crt")
    key = settings.directory / given.get("ssl_key_file", "server.key")
    front = [sys.executable, "-I", str(Path(__file__).with_name("tls_front.py")), "postgres", host, port]
    kept = [f"--{name}={value}" for name, value in given.items() if not name.startswith("ssl")]
    private = [f"--unix_socket_directories={directory}", "--listen_addresses=", f"--hba_file={rules}"]
    return [
        *front,
        str(certificate),
        str(key),
        f"unix://{directory}/.s.PGSQL.{port}",
        *server,
        *others,
        *kept,
        *private,
    ]


def split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """The settings among the arguments (`-c name=value`, `--name=value`, `-p port`) by name, and the other arguments."""
    given: dict[str, str] = {}
    others: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-c", "-p") and rest:
            word += rest.pop(0)
        text = f"port={word[2:]}" if word.startswith("-p") else word[2:] if word.startswith(("-c", "--")) else ""
        name, equals, value = text.partition("=")
        if equals:
            given[name.replace("-", "_")] = value
        else:
            others.append(word)
    return given, others


if __name__ == "__main__":
    main(sys.argv[1:])
