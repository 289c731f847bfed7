"""Export and import: what goes out of one registry arrives in another."""

from __future__ import annotations

import io
import json
from pathlib import Path

import aiohttp
import pytest

from modelyard.programs.database import Source
from modelyard.programs.registry.process import Config, Server
from modelyard.programs.registry.transfer import TransferError, export_registry, import_registry
from modelyard.programs.web import Cors
from tests.unit.programs.registry.conftest import Api


async def started(path: Path) -> Server:
    server = Server(Config("127.0.0.1", 0, Source("sqlite", str(path)), Cors()))
    await server.start()
    await server.connect()
    return server


async def fill(api: Api) -> None:
    await api.made("/registered_models", name="shifts the ids")
    custom = {"k": {"metadataType": "MetadataIntValue", "int_value": "5"}}
    model = (await api.made("/registered_models", name="m", customProperties=custom))["id"]
    versions = [(await api.made("/model_versions", name=n, registeredModelId=model))["id"] for n in ("v1", "v2")]
    shared = await api.made(
        f"/model_versions/{versions[0]}/artifacts", artifactType="model-artifact", name="a", uri="u"
    )
    await api.made(f"/model_versions/{versions[1]}/artifacts", artifactType="model-artifact", id=shared["id"])
    environment = (await api.made("/serving_environments", name="prod"))["id"]
    service = await api.made(
        f"/serving_environments/{environment}/inference_services", name="s", registeredModelId=model
    )
    await api.made(f"/inference_services/{service['id']}/serves", name="x", modelVersionId=versions[1])
    experiment = (await api.made("/experiments", name="e"))["id"]
    run = (await api.made("/experiment_runs", name="r", experimentId=experiment))["id"]
    for step in range(3):
        await api.made(f"/experiment_runs/{run}/artifacts", artifactType="metric", name="loss", value=step, step=step)
    # What changes a metric without a line of history.
    metric = (await api.get(f"/experiment_runs/{run}/artifacts")).body["items"][0]["id"]
    changed = await api.patch(
        f"/artifacts/{metric}", {"artifactType": "metric", "value": 9, "externalId": "e", "step": 7}
    )
    assert changed.status == 200
    await api.made("/artifacts", artifactType="doc-artifact", name="alone")


def without_ids(text: str) -> list[object]:
    made = ("id", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch")
    lines = [json.loads(line) for line in text.splitlines()]
    return [
        (line["path"], {k: v for k, v in line["object"].items() if k not in made and not k.endswith("Id")})
        for line in lines
    ]


async def test_an_import_makes_what_was_exported(tmp_path: Path) -> None:
    first, second = await started(tmp_path / "a.db"), await started(tmp_path / "b.db")
    try:
        async with aiohttp.ClientSession() as client:
            await fill(Api(first.address, client, "sqlite"))
            target = Api(second.address, client, "sqlite")
            for number in range(5):
                await target.made("/serving_environments", name=f"other ids here {number}")
                await target.made("/artifacts", artifactType="doc-artifact", name=f"other ids here {number}")
            out, again = io.StringIO(), io.StringIO()
            count = await export_registry(first.address, out)
            assert await import_registry(second.address, out.getvalue().splitlines()) == count
            await export_registry(second.address, again)
            versions = (await target.get("/model_versions")).body["items"]
            shared = [
                (await target.get(f"/model_versions/{v['id']}/artifacts")).body["items"][0]["id"] for v in versions
            ]
    finally:
        await first.stop()
        await second.stop()
    assert len(set(shared)) == 1
    kept = [line for line in again.getvalue().splitlines() if "other ids here" not in line]
    assert without_ids("\n".join(kept)) == without_ids(out.getvalue())


async def test_a_bad_line_is_named(tmp_path: Path) -> None:
    server = await started(tmp_path / "a.db")
    address = server.address
    try:
        with pytest.raises(TransferError, match="line 2 is not a line of an export"):
            await import_registry(address, ["", "{}"])
    finally:
        await server.stop()
    with pytest.raises(TransferError, match="does not answer"):
        await export_registry(address, io.StringIO())
