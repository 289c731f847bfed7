"""The server as a process, and its way into databases: argv as the operator renders it, foreign databases, sudden ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import aiohttp
import pytest

import modelyard
from modelyard.programs.database import DatabaseDown, Refused, Session, Source, open_database
from modelyard.programs.database.source import DatabaseType, postgres_options
from modelyard.programs.registry.kinds import META
from modelyard.programs.registry.process import Alert, Config, Server, read_config
from modelyard.programs.settings import UsageError
from modelyard.programs.web import Cors
from modelyard.runtime.tls.certificates import issue, make_ca
from tests.unit.programs.databases import Certificates, free_port, mysql, postgres, running
from tests.unit.programs.registry.conftest import Api

PROGRAM = Path(modelyard.__file__).parent / "programs" / "__main__.py"


def command(*arguments: str) -> list[str]:
    """As the recipe starts it: from its files, without the package."""
    return [sys.executable, str(PROGRAM), "proxy", *arguments]


@contextlib.asynccontextmanager
async def started(source: Source, *options: str) -> AsyncIterator[tuple[Api, subprocess.Popen[bytes]]]:
    port = free_port()
    process = subprocess.Popen(command(*arguments(source), "--hostname=127.0.0.1", f"--port={port}", *options))
    async with aiohttp.ClientSession() as client:
        api = Api(f"http://127.0.0.1:{port}", client, source.type)
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


def arguments(source: Source) -> list[str]:
    return [f"--embedmd-database-type={source.type}", f"--embedmd-database-dsn={source.address}"]


async def test_every_acknowledged_write_survives_a_kill(empty_source: Source) -> None:
    """Models, and metrics with their history."""
    models: list[str] = []
    steps: list[int] = []
    async with started(empty_source) as (api, process):
        experiment = await api.made("/experiments", name="e")
        run = (await api.made("/experiment_runs", name="r", experimentId=experiment["id"]))["id"]

        def acknowledged() -> None:
            if len(models) + len(steps) == 200:
                process.send_signal(signal.SIGKILL)

        async def write(worker: int) -> None:
            for number in range(10_000):
                name, step = f"{worker}-{number}", worker * 10_000 + number
                metric = {"artifactType": "metric", "name": f"loss{worker % 2}", "value": 1, "step": step}
                try:
                    answer = await api.post("/registered_models", {"name": name})
                    assert answer.status == 201
                    models.append(name)
                    acknowledged()
                    answer = await api.post(f"/experiment_runs/{run}/artifacts", metric)
                    assert answer.status in (200, 201)
                    steps.append(step)
                    acknowledged()
                except (aiohttp.ClientError, ConnectionError):
                    return

        await asyncio.gather(*(write(worker) for worker in range(8)))
    assert len(models) + len(steps) >= 200
    async with started(empty_source) as (api, _):
        found = set((await api.get("/registered_models")).names)
        history = (await api.get(f"/experiment_runs/{run}/metric_history")).body["items"]
        metrics = (await api.get(f"/experiment_runs/{run}/artifacts")).names
    assert set(models) <= found
    assert set(steps) <= {item["step"] for item in history}
    assert sorted(metrics) == ["loss0", "loss1"]


async def test_a_term_signal_ends_it_with_code_0(tmp_path: Path) -> None:
    async with started(Source("sqlite", str(tmp_path / "r.db"))) as (_, process):
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0


def tables(source: Source, *statements: str) -> set[str]:
    """Runs statements in the database behind the server's back, and gives its tables."""
    database = open_database(source)

    def work(session: Session) -> set[str]:
        for statement in statements:
            session.run(statement)
        return session.tables()

    found = asyncio.run(database.write(work))
    database.close()
    return found


def end_of(source: Source) -> subprocess.CompletedProcess[str]:
    """The server on a database on which it does not start."""
    return subprocess.run(
        command(f"--port={free_port()}", *arguments(source)), capture_output=True, text=True, timeout=60
    )


def test_a_database_of_the_upstream_server_is_refused_and_left_as_it_is(empty_source: Source) -> None:
    quote = "`" if empty_source.type == "mysql" else '"'
    made = [f"CREATE TABLE {quote}{name}{quote} (id INTEGER)" for name in ("Type", "Context", "schema_migrations")]
    before = tables(empty_source, *made)
    done = end_of(empty_source)
    assert done.returncode == 1
    assert "{{ALERT}} this database belongs to the upstream model registry server" in done.stderr
    assert "registry-export" in done.stderr
    assert tables(empty_source) == before
    assert len(before) == 3


def test_tables_whose_change_was_cut_off_are_not_used(empty_source: Source) -> None:
    tables(
        empty_source, *(f"CREATE TABLE {META} (version INTEGER, dirty INTEGER)", f"INSERT INTO {META} VALUES (1, 1)")
    )
    done = end_of(empty_source)
    assert done.returncode == 1
    assert "{{ALERT}} database schema is in dirty state" in done.stderr


def test_tables_of_a_newer_server_are_not_used(empty_source: Source) -> None:
    tables(
        empty_source, *(f"CREATE TABLE {META} (version INTEGER, dirty INTEGER)", f"INSERT INTO {META} VALUES (9, 0)")
    )
    assert "start a newer server" in end_of(empty_source).stderr


async def test_a_database_that_never_comes_ends_the_start_with_an_alert() -> None:
    server = Server(Config("127.0.0.1", 0, Source("postgres", f"postgresql://me@127.0.0.1:{free_port()}/x"), Cors()))
    await server.start()
    try:
        with pytest.raises(Alert, match="could not be reached in 25 attempts"):
            await server.connect(pause=0)
    finally:
        await server.stop()


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_health_answers_while_the_first_connection_hangs(kind: DatabaseType) -> None:
    """A database that takes the connection and says nothing: upstream's probes hang with it, and the kubelet restarts the pod."""
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    address = f"postgresql://me@127.0.0.1:{port}/x" if kind == "postgres" else f"me@tcp(127.0.0.1:{port})/x"
    server = Server(Config("127.0.0.1", 0, Source(kind, address), Cors()))
    await server.start()
    connecting = asyncio.ensure_future(server.connect())
    try:
        async with aiohttp.ClientSession() as client:
            api = Api(server.address, client, kind)
            for path in ("/readyz/isDirty", "/readyz/health", "/registered_models"):
                assert (await api.get(path)).status == 503
            shown = (await api.get("/readyz/health", format="json")).body
            assert shown["status"] == "fail"
            assert not connecting.done()
    finally:
        connecting.cancel()
        silent.close()
        await server.stop()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    directory = tmp_path_factory.mktemp("certificates")
    now = datetime.now(UTC)
    authority = make_ca(now)
    pair = issue(authority, ["127.0.0.1", "localhost"], now)
    made = Certificates(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
    made.certificate.write_bytes(pair.certificate)
    made.key.write_bytes(pair.key)
    made.authority.write_bytes(authority.certificate)
    other = make_ca(now)
    (directory / "other.crt").write_bytes(other.certificate)
    return made


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_the_way_to_the_database_is_encrypted_and_its_certificate_checked(
    kind: DatabaseType, certificates: Certificates
) -> None:
    make = postgres if kind == "postgres" else mysql
    with running(partial(make, tls=certificates)) as database:
        address = database.dsn.replace("?sslmode=disable", "")
        flags = [
            "--embedmd-database-ssl-verify-server-cert",
            f"--embedmd-database-ssl-root-cert={certificates.authority}",
        ]
        async with started(Source(kind, address), *flags) as (api, _):
            assert (await api.post("/registered_models", {"name": "m"})).status == 201
        stranger = certificates.authority.with_name("other.crt")
        config, _ = read_config(
            [*arguments(Source(kind, address)), flags[0], f"--embedmd-database-ssl-root-cert={stranger}"], {}
        )
        refused = open_database(config.source)
        with pytest.raises((DatabaseDown, Refused), match=r"(?i)certificate"):
            await refused.read(lambda session: session.tables())
        refused.close()


async def test_the_end_of_the_older_version_and_other_origins_are_announced(tmp_path: Path) -> None:
    config, _ = read_config(
        [f"--embedmd-database-dsn={tmp_path / 'r.db'}", "--alpha-sunset-date=2027-03-01", "--port=0",
         "--cors-allowed-origins=https://a.example,https://b.example"],
        {},
    )  # fmt: skip
    server = Server(config)
    await server.start()
    await server.connect()
    try:
        async with aiohttp.ClientSession(headers={"Origin": "https://b.example"}) as client:
            api = Api(server.address, client, "sqlite")
            old, new = await api.get("/registered_models"), await api.v1.get("/registered_models")
            asked = {"Access-Control-Request-Method": "POST"}
            async with client.options(f"{server.address}{api.prefix}/registered_models", headers=asked) as preflight:
                allowed = preflight.headers
            async with client.get(f"{server.address}/readyz/health", headers={"Origin": "https://c.example"}) as other:
                assert "Access-Control-Allow-Origin" not in other.headers
    finally:
        await server.stop()
    assert old.headers["Deprecation"] == "true"
    assert old.headers["Sunset"] == "Mon, 01 Mar 2027 00:00:00 GMT"
    assert old.headers["Link"] == '</api/model_registry/v1/>; rel="successor-version"'
    assert "Deprecation" not in new.headers
    assert new.headers["Access-Control-Allow-Origin"] == "https://b.example"
    assert allowed["Access-Control-Max-Age"] == "300"
    assert "PATCH" in allowed["Access-Control-Allow-Methods"]
    assert "Access-Control-Allow-Credentials" not in allowed


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
