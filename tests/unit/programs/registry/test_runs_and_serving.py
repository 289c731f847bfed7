"""Scenarios 53 to 60: experiments, serving, outages, the two API versions."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import aiohttp
import pytest

from modelyard.programs.database import Source
from modelyard.programs.registry.process import Config, Server
from modelyard.programs.web import Cors
from tests.unit.programs.databases import DatabaseServer
from tests.unit.programs.registry.conftest import Api


@pytest.fixture
async def run(api: Api) -> str:
    experiment = await api.made("/experiments", name="e")
    return str((await api.made("/experiment_runs", name="r", experimentId=experiment["id"]))["id"])


async def test_53_a_run_cannot_end_before_it_starts(api: Api, run: str) -> None:
    experiment = (await api.get(f"/experiment_runs/{run}")).body["experimentId"]
    times = {"startTimeSinceEpoch": "100", "endTimeSinceEpoch": "50"}
    answer = await api.post("/experiment_runs", {"experimentId": experiment, **times})
    assert answer.status == 400
    assert answer.message == "EndTimeSinceEpoch (50) cannot be less than StartTimeSinceEpoch (100)"
    made = await api.made("/experiment_runs", experimentId=experiment, startTimeSinceEpoch="100", status="FINISHED")
    path = f"/experiment_runs/{made['id']}"
    assert (await api.patch(path, {"endTimeSinceEpoch": "50"})).status == 400
    assert (await api.patch(path, {"endTimeSinceEpoch": "abc"})).status == 400
    assert (await api.patch(path, {"description": "d"})).body["status"] == "FINISHED"
    assert await api.filtered("/experiment_runs", "startTimeSinceEpoch > 50") == [made["name"]]


async def test_54_a_run_belongs_to_an_experiment(api: Api, run: str) -> None:
    experiment = (await api.get(f"/experiment_runs/{run}")).body["experimentId"]
    assert (await api.post("/experiment_runs", {"experimentId": "999999"})).status == 404
    made = await api.made(f"/experiments/{experiment}/experiment_runs")
    assert str(uuid.UUID(made["name"])) == made["name"]
    assert (made["status"], made["state"]) == ("RUNNING", "LIVE")
    assert (await api.post("/experiment_runs", {"experimentId": experiment, "name": "r"})).status == 409
    assert (await api.get("/experiments/999999/experiment_runs")).status == 404


async def test_55_parallel_metrics_lose_no_history(api: Api, run: str) -> None:
    path = f"/experiment_runs/{run}/artifacts"
    bodies = [{"artifactType": "metric", "name": "loss", "value": value, "step": value} for value in range(60)]
    answers = await asyncio.gather(*(api.post(path, body) for body in bodies))
    assert sorted({answer.status for answer in answers}) in ([200, 201], [201])
    assert len({answer.id for answer in answers}) == 1
    history = (await api.get(f"/experiment_runs/{run}/metric_history")).body["items"]
    assert sorted(item["value"] for item in history) == list(range(60))
    listed = (await api.get(path)).body["items"]
    assert len(listed) == 1
    assert listed[0]["value"] in range(60)
    assert listed[0]["experimentRunId"] == run
    assert listed[0]["customProperties"] == {}


async def test_56_metric_history_is_selected_by_name_and_step(api: Api, run: str) -> None:
    path = f"/experiment_runs/{run}/artifacts"
    for step in range(3):
        await api.made(path, artifactType="metric", name="loss", value=step / 2, step=step, externalId="e")
    history = f"/experiment_runs/{run}/metric_history"
    assert (await api.get(history, name="los")).body["items"] == []
    found = (await api.get(history, name="loss", stepIds="0,2")).body["items"]
    assert [item["step"] for item in found] == [0, 2]
    assert all("externalId" not in item for item in found)
    answer = await api.get(history, stepIds="a")
    assert (answer.status, answer.message) == (400, "invalid step ID 'a': must be a valid integer")
    assert len(await api.filtered("/experiment_runs/metric_history", f"experimentRunId = {run} AND value > 0")) == 2
    assert await api.filtered("/experiment_runs/metric_history", "experimentRunId = 999999") == []
    assert (await api.get("/experiment_runs/999999/metric_history")).status == 404
    metric = (await api.get(path)).body["items"][0]["id"]
    await api.patch(f"/artifacts/{metric}", {"artifactType": "metric", "value": 9})
    assert (await api.get(history)).body["size"] == 3


async def test_57_an_inference_service_knows_its_model_and_version(api: Api) -> None:
    model = (await api.made("/registered_models", name="m"))["id"]
    environment = (await api.made("/serving_environments", name="e"))["id"]
    body = {"registeredModelId": model, "servingEnvironmentId": environment}
    made = await api.made("/inference_services", **body)
    assert str(uuid.UUID(made["name"])) == made["name"]
    assert made["desiredState"] == "DEPLOYED"
    for field in ("registeredModelId", "servingEnvironmentId", "modelVersionId"):
        assert (await api.post("/inference_services", {**body, field: "999999"})).status == 404
    path = f"/inference_services/{made['id']}"
    assert (await api.get(f"{path}/model")).body["name"] == "m"
    assert (await api.get(f"{path}/version")).status == 404
    first = await api.made("/model_versions", name="v1", registeredModelId=model)
    await api.made("/model_versions", name="v2", registeredModelId=model)
    assert (await api.get(f"{path}/version")).body["name"] == "v2"
    assert (await api.patch(path, {"modelVersionId": first["id"], "desiredState": "UNDEPLOYED"})).status == 200
    assert (await api.get(f"{path}/version")).body["name"] == "v1"
    assert (await api.patch(path, {"runtime": "r"})).body["desiredState"] == "UNDEPLOYED"


async def test_58_a_serve_is_checked(api: Api) -> None:
    model = (await api.made("/registered_models", name="m"))["id"]
    environment = (await api.made("/serving_environments", name="e"))["id"]
    service = await api.made("/inference_services", registeredModelId=model, servingEnvironmentId=environment)
    path = f"/inference_services/{service['id']}/serves"
    gated = {"hf_gated": {"metadataType": "MetadataStringValue", "string_value": "manual"}}
    bad = await api.made("/model_versions", name="gated", registeredModelId=model, customProperties=gated)
    answer = await api.post(path, {"modelVersionId": bad["id"]})
    assert (answer.status, "cannot deploy gated HuggingFace model" in answer.message) == (400, True)
    private = {"hf_private": {"metadataType": "MetadataStringValue", "string_value": "true"}}
    bad = await api.made("/model_versions", name="private", registeredModelId=model, customProperties=private)
    answer = await api.post(path, {"modelVersionId": bad["id"]})
    assert (answer.status, "cannot deploy private HuggingFace model" in answer.message) == (400, True)
    good = await api.made("/model_versions", name="good", registeredModelId=model)
    assert (await api.post(path, {"modelVersionId": good["id"], "lastKnownState": "BAD"})).status == 400
    made = await api.made(path, modelVersionId=good["id"], name="s")
    assert (made["lastKnownState"], "inferenceServiceId" in made) == ("UNKNOWN", False)
    assert (await api.post(path, {"modelVersionId": good["id"], "name": "s"})).status == 409
    assert (await api.post(path, {"modelVersionId": "999999"})).status == 404
    assert (await api.get(path)).names == ["s"]


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_59_an_outage_is_503_and_ends_without_a_restart(kind: str, request: pytest.FixtureRequest) -> None:
    database: DatabaseServer = request.getfixturevalue(f"{kind}_server")
    source = Source("postgres" if kind == "postgres" else "mysql", database.dsn)
    database.stop()
    server = Server(Config("127.0.0.1", 0, source, Cors()))
    await server.start()
    connecting = asyncio.ensure_future(server.connect(pause=0.05))
    async with aiohttp.ClientSession() as client:
        api = Api(server.address, client, kind)
        try:
            early = await api.get("/registered_models")
            assert early.status == 503
            assert early.body.startswith("Datastore service is down or unavailable.")
            assert (await api.get("/readyz/isDirty")).status == 503
            database.start()
            await asyncio.wait_for(connecting, 30)
            name = f"outage {uuid.uuid4()}"
            made = await api.made("/registered_models", name=name)
            database.stop()
            for answer in (
                await api.get(f"/registered_models/{made['id']}"),
                await api.get("/registered_models"),
                await api.post("/registered_models", {"name": "other"}),
            ):
                assert (answer.status, answer.body["code"]) == (503, "Service Unavailable")
            assert (await api.get("/readyz/health")).status == 503
            database.start()
            async with asyncio.timeout(30):
                while (await api.get("/readyz/health")).status != 200:
                    await asyncio.sleep(0.02)
            assert (await api.get(f"/registered_models/{made['id']}")).body == made
        finally:
            connecting.cancel()
            await server.stop()


async def test_60_the_two_versions_differ_in_steps_and_experiments(api: Api) -> None:
    model = (await api.made("/registered_models", name="m"))["id"]
    version = (await api.made("/model_versions", name="v", registeredModelId=model))["id"]
    path = f"/model_versions/{version}/artifacts"
    for step in (7, "8"):
        await api.made(path, artifactType="metric", name=f"acc{step}", value=1, step=step)
    assert [item["step"] for item in (await api.get(path)).body["items"]] == [7, 8]
    assert [item["step"] for item in (await api.v1.get(path)).body["items"]] == ["7", "8"]
    for missing in (
        "/experiments",
        "/experiment_runs",
        "/experiment_runs/metric_history",
        "/experiment_runs/1/artifacts",
    ):
        assert (await api.v1.get(missing)).status == 404
    answers = await asyncio.gather(*(api.post("/registered_models", {"name": "one"}) for _ in range(48)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 47


async def test_health_answers_in_text_and_json(api: Api) -> None:
    for path in ("/readyz/isDirty", "/readyz/health"):
        answer = await api.get(path)
        assert (answer.status, answer.body) == (200, "OK")
        assert (await api.send("POST", path)).status == 405
    shown = (await api.get("/readyz/health", format="json")).body
    assert shown["status"] == "pass"
    assert shown["checks"]["database"]["Details"] == {"schema_version": 1, "schema_dirty": False}


async def test_a_body_above_the_limit_is_413(tmp_path: Path) -> None:
    server = Server(Config("127.0.0.1", 0, Source("sqlite", str(tmp_path / "r.db")), Cors()))
    await server.start()
    await server.connect()
    async with aiohttp.ClientSession() as client:
        answer = await Api(server.address, client, "sqlite").post("/registered_models", raw=b" " * (16 * 2**20 + 1))
    await server.stop()
    assert (answer.status, answer.body["code"]) == (413, "Request Entity Too Large")
