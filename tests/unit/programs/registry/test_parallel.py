"""Writers at the same time, at one server and at two replicas on one database: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from modelyard.programs.database import Database, Session, Source
from modelyard.programs.database.session import Row, Value
from modelyard.programs.database.sqlite import DIALECT, SqliteSession
from modelyard.programs.registry.kinds import MODEL, VERSION
from modelyard.programs.registry.operations import Wanted, listed
from modelyard.programs.registry.process import Config, Server
from modelyard.programs.registry.schema import prepare
from modelyard.programs.registry.store import Store
from modelyard.programs.web import Cors
from tests.unit.programs.registry.conftest import Api


@pytest.fixture
async def replicas(source: Source, api: Api) -> AsyncIterator[list[Api]]:
    """The server of the test, and another one on its database."""
    other = Server(Config("127.0.0.1", 0, source, Cors()))
    await other.start()
    await other.connect()
    yield [api, Api(other.address, api.client, api.database)]
    await other.stop()


async def test_patches_of_different_fields_all_stay(replicas: list[Api]) -> None:
    model = await replicas[0].made("/registered_models", name="m")
    fields = ("owner", "description", "readme", "maturity", "provider", "logo", "license", "licenseLink", "libraryName")
    path = f"/registered_models/{model['id']}"
    answers = await asyncio.gather(
        *(replicas[number % 2].patch(path, {name: name}) for number, name in enumerate(fields))
    )
    assert {answer.status for answer in answers} == {200}
    found = (await replicas[1].get(path)).body
    assert {name: found[name] for name in fields} == {name: name for name in fields}
    times = [int(answer.body["lastUpdateTimeSinceEpoch"]) for answer in answers]
    assert len(set(times)) == len(times)


async def test_no_metric_of_parallel_runs_is_lost_at_two_replicas(replicas: list[Api]) -> None:
    experiment = await replicas[0].made("/experiments", name="e")
    runs = [
        (await replicas[0].made("/experiment_runs", name=f"r{n}", experimentId=experiment["id"]))["id"]
        for n in range(3)
    ]
    posts = [
        (
            replica,
            f"/experiment_runs/{run}/artifacts",
            {"artifactType": "metric", "name": name, "value": step, "step": step},
        )
        for step in range(10)
        for run in runs
        for name in ("loss", "accuracy")
        for replica in (replicas[step % 2],)
    ]
    answers = await asyncio.gather(*(replica.post(path, body) for replica, path, body in posts))
    assert {answer.status for answer in answers} <= {200, 201}
    for run in runs:
        history = (await replicas[0].get(f"/experiment_runs/{run}/metric_history")).body["items"]
        seen = sorted((item["name"], item["step"]) for item in history)
        assert seen == sorted((name, step) for name in ("loss", "accuracy") for step in range(10))
        assert sorted((await replicas[1].get(f"/experiment_runs/{run}/artifacts")).names) == ["accuracy", "loss"]


async def test_one_name_is_given_once_at_two_replicas(replicas: list[Api]) -> None:
    model = await replicas[0].made("/registered_models", name="m")
    body = {"name": "v", "registeredModelId": model["id"], "externalId": "e"}
    answers = await asyncio.gather(*(replicas[n % 2].post("/model_versions", body) for n in range(24)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 23


async def test_parallel_creates_get_ids_of_their_own_and_all_stay(replicas: list[Api]) -> None:
    bodies = [{"name": f"m{number}", "externalId": f"e{number}"} for number in range(60)]
    answers = await asyncio.gather(
        *(replicas[number % 2].post("/registered_models", body) for number, body in enumerate(bodies))
    )
    assert {answer.status for answer in answers} == {201}
    assert len({answer.id for answer in answers}) == 60
    assert set((await replicas[0].get("/registered_models")).names) == {body["name"] for body in bodies}


async def test_a_client_that_hangs_up_harms_no_other_write(api: Api) -> None:
    """Half of the clients go away in the middle of their request."""
    model = await api.made("/registered_models", name="m")
    path = f"/registered_models/{model['id']}"

    async def one(number: int) -> None:
        async with aiohttp.ClientSession() as client:
            writing = asyncio.ensure_future(Api(api.address, client, "").patch(path, {"owner": f"o{number}"}))
            if number % 2:
                await asyncio.sleep(0)
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await writing
            else:
                assert (await writing).status == 200

    await asyncio.gather(*(one(number) for number in range(40)))
    assert (await api.patch(path, {"description": "still here"})).status == 200


class Counting(SqliteSession):
    """Counts the statements that it runs."""

    count = 0

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]:
        self.count += 1
        return super().rows(statement, parameters)


async def test_a_page_of_a_hundred_rows_is_one_statement(tmp_path: Path) -> None:
    """Upstream asks its database 101 times."""
    database = Database(lambda writer: Counting(tmp_path / "r.db", writer=writer), DIALECT, threads=1)
    await database.write(prepare)
    custom = {f"k{n}": {"metadataType": "MetadataStringValue", "string_value": "v"} for n in range(5)}

    def fill(session: Session) -> None:
        store = Store(session)
        model = store.insert(MODEL, {"name": "m", "customProperties": {}}, scope=0, parent_id=None).id
        for number in range(100):
            doc = {"name": f"v{number}", "registeredModelId": str(model), "customProperties": dict(custom)}
            store.insert(VERSION, doc, scope=model, parent_id=model)

    await database.write(fill)

    def page(session: Session) -> tuple[int, int]:
        assert isinstance(session, Counting)
        return len(listed(session, Wanted((VERSION,)), (), 100)), session.count

    rows, statements = await database.read(page)
    database.close()
    assert (rows, statements) == (100, 1)
