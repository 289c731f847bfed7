"""Scenario C30 of the catalog and the process around it: argv as the operator renders it, health, outages, sudden ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

import modelyard
from modelyard.programs.catalog.process import read_config
from modelyard.programs.database import Source
from modelyard.programs.settings import UsageError
from tests.unit.programs.catalog.conftest import Api, Place, settled
from tests.unit.programs.databases import free_port, postgres

PROGRAM = Path(modelyard.__file__).parent / "programs" / "__main__.py"


def command(*arguments: str) -> list[str]:
    """As the recipe starts it: from its files, without the package."""
    return [sys.executable, str(PROGRAM), "catalog", *arguments]


@contextlib.asynccontextmanager
async def started(
    directory: Path, *arguments: str, **environ: str
) -> AsyncIterator[tuple[Api, subprocess.Popen[bytes]]]:
    port = free_port()
    process = subprocess.Popen(
        command(f"--listen=127.0.0.1:{port}", *arguments), cwd=directory, env={**os.environ, **environ}
    )
    async with aiohttp.ClientSession() as client:
        api = Api(f"http://127.0.0.1:{port}", client)

        async def ready() -> bool:
            with contextlib.suppress(aiohttp.ClientError):
                return (await api.get("/readyz")).status == 200
            assert process.poll() is None
            return False

        await settled(ready, "the server is ready")
        try:
            yield api, process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


async def test_c30_health_tells_of_the_process_and_of_its_kinds(place: Place) -> None:
    place.models({"name": "m"})
    api = await place.start()
    assert (await api.get("/healthz")).body == {"status": "ok"}
    ready = {"plugins": dict.fromkeys(("agent", "mcp", "model", "skill"), True), "status": "ready"}
    assert (await api.get("/readyz")).body == ready
    wrong = await api.send("POST", "/readyz")
    assert (wrong.status, wrong.headers["Allow"]) == (405, "GET")
    for path in ("/api/model_catalog/v1/models", "/models/", "/nope"):
        missing = await api.get(path)
        assert (missing.status, missing.body["code"]) == (404, "Not Found")
    assert (await api.send("DELETE", "/models")).status == 405
    assert (await api.send("GET", "/models?q=%00")).status == 400
    assert (await api.send("GET", "/models?q=%zz")).status == 400
    assert (await api.send("GET", "/sources/a/models/%00")).status == 400


async def test_c30_reads_go_on_while_the_database_is_away(tmp_path: Path) -> None:
    # Not pytest's own directory: a server that must not run as root could not enter it.
    with tempfile.TemporaryDirectory(prefix="modelyard-database-", ignore_cleanup_errors=True) as directory:
        database = postgres(Path(directory))
        (tmp_path / "performance").mkdir()
        async with aiohttp.ClientSession() as client:
            place = Place(tmp_path, Source("postgres", database.dsn, threads=1), client=client)
            place.models({"name": "m"})
            api = await place.start()

            async def store_is(away: bool) -> bool:
                return ("store" in (await api.get("/readyz")).body.get("details", {})) is away

            await settled(lambda: store_is(True), "the store is missed: the server came up before its database")
            assert await api.names() == ["m"]
            database.start()
            await settled(lambda: store_is(False), "the store is there")
            database.stop()
            place.models({"name": "n"})

            async def shows_n() -> bool:
                return await api.names() == ["n"]

            await settled(shows_n, "the edit is served all the same")
            await settled(lambda: store_is(True), "the store is missed")
            assert (await api.get("/readyz")).status == 200
            await place.stop()


def test_c30_every_file_that_cannot_be_used_at_start_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("nonsense: 1")
    done = subprocess.run(
        command(f"--listen=127.0.0.1:{free_port()}", "--catalogs-path=none.yaml", "--catalogs-path=bad.yaml"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "none.yaml" in done.stderr
    assert "bad.yaml: the file: unknown key 'nonsense'" in done.stderr


async def test_a_term_signal_ends_it_with_code_0(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("model_catalogs: []")
    async with started(tmp_path) as (_, process):
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 30) == 0


async def test_a_kill_under_load_spoils_neither_the_store_nor_the_lists(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text(
        "model_catalogs: [{id: a, type: yaml, properties: {yamlCatalogPath: m.yaml}}]"
    )
    answered = 0

    def edit(number: int) -> None:
        fresh = tmp_path / "fresh"
        fresh.write_text("models:\n" + "".join(f"- {{name: m{number}-{one:03}}}\n" for one in range(200)))
        os.replace(fresh, tmp_path / "m.yaml")

    edit(0)
    async with started(tmp_path) as (api, process):

        async def read() -> None:
            nonlocal answered
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                while True:
                    answer = await api.get("/models", pageSize=50)
                    assert answer.status == 200
                    # One state of the file, never parts of two.
                    assert len({name.partition("-")[0] for name in answer.names}) == 1
                    answered += 1
                    if answered % 100 == 0:
                        edit(answered)
                    if answered == 500:
                        process.send_signal(signal.SIGKILL)

        await asyncio.gather(*(read() for _ in range(4)))
    assert answered >= 500
    edit(9999)
    async with started(tmp_path) as (api, _):
        assert (await api.get("/models")).names[0] == "m9999-000"
        assert (await api.source("a"))["status"] == "available"


def test_the_arguments_that_the_operator_renders_are_understood(tmp_path: Path) -> None:
    config, _ = read_config(
        ["--listen=0.0.0.0:8080", "--catalogs-path=/data/default-sources/sources.yaml",
         "--catalogs-path=/data/user-model-sources/sources.yaml", "--catalogs-path=/data/labeled-sources/x/sources.yaml",
         "--performance-metrics=/shared-benchmark-data"],
        {"PGHOST": "model-catalog-postgres", "PGUSER": "u", "PGPASSWORD": "p", "PGDATABASE": "d", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (config.host, config.port) == ("0.0.0.0", 8080)
    assert [str(path) for path in config.paths] == [
        "/data/default-sources/sources.yaml",
        "/data/user-model-sources/sources.yaml",
        "/data/labeled-sources/x/sources.yaml",
    ]
    assert [str(path) for path in config.performance] == ["/shared-benchmark-data"]
    assert config.source.type == "postgres"


def test_without_a_database_in_the_environment_the_store_is_a_file(tmp_path: Path) -> None:
    config, _ = read_config(["--catalogs-path", "a.yaml,b.yaml"], {"HOME": str(tmp_path)})
    assert (config.source.type, config.source.address) == ("sqlite", "model-catalog.db")
    assert [str(path) for path in config.paths] == ["a.yaml", "b.yaml"]


@pytest.mark.parametrize("arguments", [["--nope"], ["--listen=8080"], ["--listen=a:b"], ["--listen=:70000"]])
def test_a_wrong_flag_is_told(arguments: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_config(arguments, {"HOME": str(tmp_path)})
