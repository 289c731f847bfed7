"""Starts PostgreSQL as its container images do: makes the database directory once, from variables, then becomes the server.

Standard library only; runs in the image's own interpreter with the server's binaries first on PATH.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import NamedTuple

LOCK = "modelyard.lock"
SCRATCH = ".modelyard-first-start"
"""Where a first start works: inside the database directory, which may be a mount point that cannot be renamed."""
COMPLETE = "complete"
"""Lies in the scratch directory once its database has everything and only has to be moved."""


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


def hold(directory: Path) -> None:
    """Takes the directory for this process and for the server that it becomes; the kernel lets go when both have ended,
    however they end. Process ids say nothing here: every pod may count its own."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = os.pread(descriptor, 256, 0).decode(errors="replace").strip() or "another pod"
        raise SystemExit(
            f"postgres: {other} runs a server on {directory}; two servers on one database would destroy it. "
            "Delete that pod, or give this one a claim of its own"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, socket.gethostname().encode(), 0)
    os.set_inheritable(descriptor, True)


def prepare(settings: Settings) -> bool:
    """Makes the database if there is none, and says whether it did. A first start that was cut off is begun again, or
    finished if only the moving was left."""
    directory = settings.directory
    scratch = directory / SCRATCH
    made = scratch / "data"
    if not (scratch / COMPLETE).exists():
        if scratch.exists():
            shutil.rmtree(scratch)
        if (directory / "PG_VERSION").exists():
            return False
        if left := [name for name in ("base", "global") if (directory / name).exists()]:
            raise SystemExit(
                f"postgres: {directory} holds a part of a database ({', '.join(left)}) without PG_VERSION; "
                "restore the missing files, or empty the directory"
            )
        directory.chmod(0o700)
        scratch.mkdir(0o700)
        initialise(settings._replace(directory=made))
        (scratch / COMPLETE).touch()
    # The version is last: a directory that has it is whole.
    for name in sorted(os.listdir(made) if made.exists() else (), key=lambda name: name == "PG_VERSION"):
        os.replace(made / name, directory / name)
    shutil.rmtree(scratch)
    return True


def initialise(settings: Settings) -> None:
    """Makes a database directory, with its superuser, user and database."""
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        secret = Path(scratch) / "password"
        secret.write_text(settings.superuser_password or os.urandom(18).hex())
        command = ["initdb", "-D", str(settings.directory), "-U", settings.superuser, f"--pwfile={secret}"]
        subprocess.run([*command, "-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-instructions"], check=True)
        configure(settings)
        options = f"-c listen_addresses='' -c unix_socket_directories={scratch}"
        control = ["pg_ctl", "-D", str(settings.directory), "-w"]
        try:
            subprocess.run([*control, "-o", options, "-l", f"{scratch}/log", "start"], check=True)
            set_up(settings, scratch)
        finally:
            # Also when `start` was cut off: it may have begun.
            stopped = subprocess.run([*control, "-m", "fast", "stop"])
        stopped.check_returncode()


def configure(settings: Settings) -> None:
    (settings.directory / "pg_hba.conf").write_text(
        f"local all all trust\nhost all all 127.0.0.0/8 {settings.method}\n"
    )
    with (settings.directory / "postgresql.conf").open("a") as config:
        # Laptop sizes; the image's own defaults reserve more shared memory than a small pod may use.
        config.write("\nmax_connections = 100\nshared_buffers = 64MB\n")


def set_up(settings: Settings, socket: str) -> None:
    def sql(text: str, database: str = "postgres") -> None:
        command = ["psql", "-h", socket, "-U", settings.superuser, "-d", database, "-v", "ON_ERROR_STOP=1", "-q"]
        subprocess.run(command, input=text.encode(), check=True, env={**os.environ, "PGHOST": socket})

    for statement in wanted(settings).values():
        sql(statement)
    scripts = Path("/docker-entrypoint-initdb.d")
    for script in sorted(scripts.iterdir()) if scripts.is_dir() else []:
        if script.suffix == ".sql":
            print(f"running {script}", flush=True)
            sql(script.read_text(), settings.database or "postgres")
        elif script.suffix == ".sh":
            print(f"running {script}", flush=True)
            subprocess.run(["/bin/sh", str(script)], check=True, env={**os.environ, "PGHOST": socket})


def wanted(settings: Settings) -> dict[str, str]:
    """What the variables ask for beside the superuser, in words, and the statement that makes it."""
    found = {}
    if settings.user:
        found[f"role {settings.user}"] = (
            f"CREATE USER {quoted(settings.user)} WITH PASSWORD {literal(settings.password)};"
        )
    if settings.database and settings.database != "postgres":
        owner = settings.user or settings.superuser
        found[f"database {settings.database}"] = f"CREATE DATABASE {quoted(settings.database)} OWNER {quoted(owner)};"
    return found


def repair(settings: Settings) -> None:
    """Makes the role and the database that an older first start, when it was cut off, left out."""
    missing = lacking(settings)
    if not missing:
        return
    configure(settings)
    statements = wanted(settings)
    alone(settings, [statements[what] for what in missing])
    if still := lacking(settings):
        raise SystemExit(
            f"postgres: {settings.directory} lacks {' and '.join(still)}, which could not be made; see the lines above"
        )
    print(f"postgres: {settings.directory} lacked {' and '.join(missing)}; made now", flush=True)


def lacking(settings: Settings) -> list[str]:
    tables = {"role": ("pg_roles", "rolname"), "database": ("pg_database", "datname")}
    questions = []
    for what in wanted(settings):
        sort, _, name = what.partition(" ")
        table, column = tables[sort]
        questions.append(f"SELECT 'has {sort}' FROM {table} WHERE {column} = {literal(name)};")
    said = alone(settings, questions)
    return [what for what in wanted(settings) if f'"has {what.partition(" ")[0]}"' not in said]


def alone(settings: Settings, statements: list[str]) -> str:
    """What the server says to these statements without listening to anybody else: it needs no password and no port."""
    command = ["postgres", "--single", "-j", "-D", str(settings.directory), "postgres"]
    text = "".join(f"{statement}\n\n" for statement in statements)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(
            f"postgres: the database in {settings.directory} cannot be opened; see the lines above. If its first start "
            "was cut off, it holds nothing yet: delete the claim or empty the directory, and start again"
        )
    return done.stdout.decode(errors="replace")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def main(arguments: list[str]) -> None:
    host, rest = arguments[1], arguments[2:]
    settings = read_settings(dict(os.environ))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    settings.directory.mkdir(parents=True, exist_ok=True)
    hold(settings.directory)
    # Whoever wrote it has ended: this process holds the directory.
    (settings.directory / "postmaster.pid").unlink(missing_ok=True)
    if not prepare(settings):
        repair(settings)
    command = program(settings, host, rest, tempfile.mkdtemp(dir="/tmp"))
    os.execvp(command[0], command)


def _leave(number: int, _: FrameType | None) -> None:
    """Unwinds, so that a server that was started to be set up is stopped."""
    raise SystemExit(128 + number)


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
