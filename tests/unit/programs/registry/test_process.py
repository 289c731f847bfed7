"""The server as a process, and its way into databases: argv as the operator renders it, foreign databases, sudden ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

import modelyard
from modelyard.programs.database.source import postgres_options
from modelyard.programs.registry.process import read_config
from modelyard.programs.settings import UsageError
from tests.unit.programs.databases import free_port
from tests.unit.programs.registry.conftest import Api

PROGRAM = Path(modelyard.__file__).parent / "programs" / "__main__.py"


def command(*arguments: str) -> list[str]:
    """As the recipe starts it: from its files, without the package."""
    return [sys.executable, str(PROGRAM), "proxy", *arguments]


@contextlib.asynccontextmanager
async def started(database: Path) -> AsyncIterator[tuple[Api, subprocess.Popen[bytes]]]:
    port = free_port()
    process = subprocess.Popen(command("--hostname=127.0.0.1", f"--port={port}", f"--embedmd-database-dsn={database}"))
    async with aiohttp.ClientSession() as client:
        api = Api(f"http://127.0.0.1:{port}", client, "sqlite")
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    if (await api.get("/readyz/health")).status == 200:
                        break
                await asyncio.sleep(0.02)
        try:
            yield api, process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


async def test_every_acknowledged_write_survives_a_kill(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    async with started(tmp_path / "r.db") as (api, process):

        async def write(worker: int) -> None:
            for number in range(10_000):
                name = f"{worker}-{number}"
                try:
                    answer = await api.post("/registered_models", {"name": name})
                except (aiohttp.ClientError, ConnectionError):
                    return
                assert answer.status == 201
                acknowledged.append(name)
                if len(acknowledged) == 200:
                    process.send_signal(signal.SIGKILL)

        await asyncio.gather(*(write(worker) for worker in range(8)))
    assert len(acknowledged) >= 200
    async with started(tmp_path / "r.db") as (api, _):
        found = set((await api.get("/registered_models")).names)
    assert set(acknowledged) <= found


async def test_a_term_signal_ends_it_with_code_0(tmp_path: Path) -> None:
    async with started(tmp_path / "r.db") as (_, process):
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0


def test_a_database_of_the_upstream_server_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mlmd.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript('CREATE TABLE "Type" (id INTEGER); CREATE TABLE "Context" (id INTEGER);')
    done = subprocess.run(
        command(f"--port={free_port()}", f"--embedmd-database-dsn={path}"), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "{{ALERT}} this database belongs to the upstream model registry server" in done.stderr
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall() == [
            ("Context",),
            ("Type",),
        ]


@pytest.mark.parametrize(
    "arguments",
    [["--nope"], ["--datastore-type=mlmd"], ["--embedmd-database-type=oracle"], ["--alpha-sunset-date=soon"]],
)
def test_a_wrong_flag_is_told(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        read_config(arguments, {})


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("port: 1\nhostname: file\nembedmd-database-dsn: file.db\n")
    config, _ = read_config(
        ["-p", "3", "--config", str(file)], {"MR_PORT": "2", "MR_HOSTNAME": "variable", **os.environ}
    )
    assert (config.host, config.port, config.source.address) == ("variable", 3, "file.db")


def test_the_arguments_that_the_operator_renders_are_understood() -> None:
    config, _ = read_config(
        ["--hostname=0.0.0.0", "--port=8080", "--embedmd-database-type=postgres",
         "--embedmd-database-dsn=postgresql://user:p@ss/w%rd@[::1]:5433/models?sslmode=require",
         "--embedmd-database-ssl-root-cert=/etc/postgres_ssl_rootcert/ca.crt"],
        {"POSTGRES_SSLPASSWORD": "secret"},
    )  # fmt: skip
    options = postgres_options(config.source.address)
    assert options == {
        "user": "user", "password": "p@ss/w%rd", "host": "::1", "port": "5433", "dbname": "models", "sslmode": "require",
    }  # fmt: skip
    assert (config.source.type, config.source.tls.root_certificate) == ("postgres", "/etc/postgres_ssl_rootcert/ca.crt")
    assert "secret" not in repr(config)
    assert "p@ss" not in repr(config)
