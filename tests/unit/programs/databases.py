"""Database servers for tests: one of each for a test process, started when first asked for, in a directory of their own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_DEBIAN_POSTGRES = Path("/usr/lib/postgresql")


def need(found: str | None, what: str) -> str:
    """A program that the tests drive. A user without it skips them; where everything must hold, that is a failure."""
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{what} is not installed")
        pytest.skip(f"{what} is not installed")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Certificates:
    """Files with which a server speaks TLS."""

    certificate: Path
    key: Path
    authority: Path


@dataclass
class DatabaseServer:
    """A server that can be stopped and started again with its data."""

    type: str
    dsn: str
    port: int
    _start: Callable[[], subprocess.Popen[bytes]]
    _lets_in: Callable[[], bool] = lambda: True
    """The port of a server may be open a little before it lets anyone in."""
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self._start()
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                if self._lets_in():
                    return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.type} did not start: exit code {self._process.poll()}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            # PostgreSQL's fast shutdown. MariaDB ignores a polite signal that comes early; its data survive a rude one.
            self._process.send_signal(2 if self.type == "postgres" else 9)
            self._process.wait(30)
            self._process = None


def _postgres_bin() -> Path:
    newest = sorted(_DEBIAN_POSTGRES.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if newest:
        return newest[-1].parent
    return Path(need(shutil.which("postgres"), "PostgreSQL (postgres, initdb)")).resolve().parent


def postgres(directory: Path, *, durable: bool = False, tls: Certificates | None = None) -> DatabaseServer:
    """`durable` waits for the disk, as a server of a user does."""
    programs, port = _postgres_bin(), free_port()
    user = None
    if os.geteuid() == 0:
        user = "nobody"
        shutil.chown(directory, user)
    data = directory / "data"
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale"],
        check=True,
        stdout=subprocess.DEVNULL,
        user=user,
        env=environment,
        cwd=directory,
    )
    if tls is not None:
        with (data / "postgresql.conf").open("a") as settings:
            settings.write("ssl = on\n")
        for source, name in ((tls.certificate, "server.crt"), (tls.key, "server.key")):
            shutil.copy(source, data / name)
            (data / name).chmod(0o600)
            if user is not None:
                shutil.chown(data / name, user)
        (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")

    def start() -> subprocess.Popen[bytes]:
        with (directory / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    programs / "postgres",
                    "-D",
                    data,
                    "-p",
                    str(port),
                    "-k",
                    directory,
                    "-h",
                    "127.0.0.1",
                    *([] if durable else ["-F"]),
                ],
                stdout=log,
                stderr=log,
                user=user,
                cwd=directory,
            )

    def lets_in() -> bool:
        # The server writes how it fares into the last line of this file.
        return (data / "postmaster.pid").read_text().split()[-1] == "ready"

    return DatabaseServer(
        "postgres", f"postgresql://tests@127.0.0.1:{port}/postgres?sslmode=disable", port, start, lets_in
    )


def mysql(directory: Path, *, tls: Certificates | None = None) -> DatabaseServer:
    installer = need(shutil.which("mariadb-install-db"), "MariaDB (mariadb-install-db, mariadbd)")
    server = need(shutil.which("mariadbd") or _existing("/usr/sbin/mariadbd"), "MariaDB (mariadbd)")
    port, me = free_port(), pwd.getpwuid(os.geteuid()).pw_name
    data = directory / "data"
    usual = ["--no-defaults", f"--datadir={data}", f"--user={me}"]
    subprocess.run(
        [installer, *usual, "--auth-root-authentication-method=normal", "--skip-test-db"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    script = directory / "init.sql"
    script.write_text("CREATE DATABASE IF NOT EXISTS registry CHARACTER SET utf8mb4;\n")
    secure = []
    if tls is not None:
        secure = [f"--ssl-cert={tls.certificate}", f"--ssl-key={tls.key}", "--require-secure-transport=ON"]

    def start() -> subprocess.Popen[bytes]:
        with (directory / "log").open("ab") as log:
            return subprocess.Popen(
                [server, *usual, f"--port={port}", f"--socket={directory}/socket", "--bind-address=127.0.0.1",
                 f"--init-file={script}", "--innodb-flush-log-at-trx-commit=2", "--skip-name-resolve",
                 "--innodb-buffer-pool-size=64M", "--performance-schema=OFF", *secure],
                stdout=log,
                stderr=log,
            )  # fmt: skip

    return DatabaseServer("mysql", f"root@tcp(127.0.0.1:{port})/registry?charset=utf8mb4", port, start)


def _existing(path: str) -> str | None:
    return path if Path(path).exists() else None


@contextlib.contextmanager
def running(make: Callable[[Path], DatabaseServer]) -> Iterator[DatabaseServer]:
    # Not pytest's own directory: a server that must not run as root could not enter it.
    directory = Path(tempfile.mkdtemp(prefix="modelyard-database-"))
    try:
        server = make(directory)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
