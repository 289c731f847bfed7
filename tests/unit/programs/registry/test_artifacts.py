"""Scenarios 23 to 36: versions, and artifacts of every type."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.unit.programs.registry.conftest import Api

VERSIONS = "/model_versions"


@pytest.fixture
async def model(api: Api) -> str:
    return str((await api.made("/registered_models", name="m"))["id"])


@pytest.fixture
async def version(api: Api, model: str) -> str:
    return str((await api.made(VERSIONS, name="v", registeredModelId=model))["id"])


async def test_23_a_version_needs_a_model_that_exists(api: Api, model: str, version: str) -> None:
    for parent in ("999999", version):
        answer = await api.post(VERSIONS, {"name": "w", "registeredModelId": parent})
        assert (answer.status, answer.message) == (404, f"no registered model found for id {parent}: not found")
    answer = await api.post(VERSIONS, {"name": "w"})
    assert (answer.status, answer.message) == (422, "required field 'registeredModelId' is zero value.")


async def test_24_a_version_name_is_unique_in_its_model(api: Api, model: str, version: str) -> None:
    other = await api.made("/registered_models", name="other")
    assert (await api.post(VERSIONS, {"name": "v", "registeredModelId": other["id"]})).status == 201
    assert (await api.post(VERSIONS, {"name": "v", "registeredModelId": model})).status == 409


async def test_25_the_path_decides_about_the_parent(api: Api, model: str) -> None:
    other = await api.made("/registered_models", name="other")
    made = await api.made(f"/registered_models/{model}/versions", name="v", registeredModelId=other["id"])
    assert made["registeredModelId"] == model
    without = await api.made(f"/registered_models/{model}/versions", name="w")
    assert (await api.get(f"/registered_models/{model}/versions")).names == ["v", "w"]
    updated = await api.post(
        f"/registered_models/{model}/versions", {"id": without["id"], "name": "x", "author": "ann"}
    )
    assert (updated.status, updated.body["name"], updated.body["author"]) == (201, "w", "ann")
    assert (await api.get("/registered_models/999999/versions")).status == 404


async def test_26_a_nested_list_takes_a_name_as_it_is(api: Api, model: str) -> None:
    for name in ("v1", "x:v1", "v10"):
        await api.made(VERSIONS, name=name, registeredModelId=model)
    path = f"/registered_models/{model}/versions"
    assert (await api.get(path, name="v1")).names == ["v1"]
    assert (await api.get(path, name="it's")).body["items"] == []


async def test_27_a_version_is_found_by_name_and_parent(api: Api, model: str) -> None:
    made = await api.made(VERSIONS, name="v:8", registeredModelId=model)
    assert (await api.get("/model_version", name="v:8", parentResourceId=model)).body == made
    answer = await api.get("/model_version", name="v:8")
    assert answer.status == 400
    assert answer.message.startswith("invalid parameters call, supply either")


async def test_28_a_name_is_unique_among_artifacts_of_one_type(api: Api, version: str) -> None:
    path = f"{VERSIONS}/{version}/artifacts"
    assert (await api.post(path, {"artifactType": "model-artifact", "name": "n"})).status == 201
    assert (await api.post(path, {"artifactType": "model-artifact", "name": "n"})).status == 409
    assert (await api.post(path, {"artifactType": "doc-artifact", "name": "n"})).status == 201
    listed = (await api.get(path)).body["items"]
    assert [item["artifactType"] for item in listed] == ["model-artifact", "doc-artifact"]
    only = (await api.get(path, artifactType="doc-artifact")).body["items"]
    assert [item["artifactType"] for item in only] == ["doc-artifact"]
    assert (await api.get(path, artifactType="zz")).message.startswith("invalid artifact type zz")
    assert (await api.post(path, {"name": "x"})).message.startswith("invalid artifact type, must be either")
    assert (await api.post(f"{VERSIONS}/999999/artifacts", {"artifactType": "doc-artifact"})).status == 404


async def test_29_an_artifact_without_name_gets_one_and_an_id_means_update(api: Api, version: str) -> None:
    path = f"{VERSIONS}/{version}/artifacts"
    made = await api.made(path, artifactType="model-artifact", uri="s3://a")
    assert str(uuid.UUID(made["name"])) == made["name"]
    assert "state" not in made
    body: dict[str, Any] = {"artifactType": "model-artifact", "id": made["id"], "uri": "s3://b"}
    updated = await api.post(path, body)
    assert (updated.status, updated.body["uri"], updated.body["name"]) == (200, "s3://b", made["name"])
    assert (await api.post(path, {**body, "artifactType": "doc-artifact"})).status == 400
    assert (await api.post(path, {**body, "id": "999999"})).status == 404


async def test_30_a_metric_is_updated_by_its_name(api: Api, version: str) -> None:
    path = f"{VERSIONS}/{version}/artifacts"
    first = await api.post(path, {"artifactType": "metric", "name": "acc", "value": 0.5})
    second = await api.post(path, {"artifactType": "metric", "name": "acc", "value": 0.6})
    assert (first.status, second.status) == (201, 200)
    assert (second.id, second.body["value"]) == (first.id, 0.6)
    assert (await api.get(path)).body["size"] == 1
    answer = await api.post(path, {"artifactType": "metric", "name": "other"})
    assert (answer.status, answer.message) == (400, "metric value is required")


async def test_31_a_parameter_keeps_its_type_when_it_is_omitted(api: Api, version: str) -> None:
    path = f"{VERSIONS}/{version}/artifacts"
    bad = await api.post(path, {"artifactType": "parameter", "name": "p", "value": "1", "parameterType": "zzz"})
    assert (bad.status, "zzz" in bad.message) == (400, True)
    await api.made(path, artifactType="parameter", name="p", value="1", parameterType="number")
    again = await api.made(path, artifactType="parameter", name="p", value="2")
    assert (again["value"], again["parameterType"]) == ("2", "number")


async def test_32_one_artifact_can_belong_to_two_versions(api: Api, model: str, version: str) -> None:
    other = await api.made(VERSIONS, name="w", registeredModelId=model)
    made = await api.made(f"{VERSIONS}/{version}/artifacts", artifactType="model-artifact", name="n")
    again = await api.post(f"{VERSIONS}/{other['id']}/artifacts", {"artifactType": "model-artifact", "id": made["id"]})
    assert again.status == 200
    for each in (version, other["id"]):
        items = (await api.get(f"{VERSIONS}/{each}/artifacts")).body["items"]
        assert [item["id"] for item in items] == [made["id"]]


async def test_a_metric_that_two_versions_share_is_updated_under_either(api: Api, model: str, version: str) -> None:
    other = await api.made(VERSIONS, name="w", registeredModelId=model)
    made = await api.made(f"{VERSIONS}/{version}/artifacts", artifactType="metric", name="acc", value=1)
    path = f"{VERSIONS}/{other['id']}/artifacts"
    await api.made(path, artifactType="metric", id=made["id"])
    again = await api.post(path, {"artifactType": "metric", "name": "acc", "value": 2})
    assert (again.status, again.id) == (200, made["id"])
    assert (await api.get(path)).body["size"] == 1


async def test_33_an_artifact_of_nothing_need_not_have_a_unique_name(api: Api) -> None:
    for _ in range(2):
        await api.made("/artifacts", artifactType="doc-artifact", name="n", unknown="is ignored here")
    assert (await api.get("/artifacts")).body["size"] == 2
    assert (await api.get("/artifact", name="n")).status == 400


async def test_34_the_model_artifact_is_found_beside_a_document_of_its_name(api: Api, version: str) -> None:
    path = f"{VERSIONS}/{version}/artifacts"
    await api.made(path, artifactType="doc-artifact", name="n")
    made = await api.made(path, artifactType="model-artifact", name="n")
    assert (await api.get("/model_artifact", name="n", parentResourceId=version)).body == made
    several = await api.get("/artifact", name="n", parentResourceId=version)
    assert (several.status, "multiple" in several.message) == (404, True)


async def test_35_a_patch_cannot_change_the_type_of_an_artifact(api: Api) -> None:
    made = await api.made("/model_artifacts", name="n", state="LIVE")
    assert made["artifactType"] == "model-artifact"
    answer = await api.patch(f"/artifacts/{made['id']}", {"description": "x"})
    immutable = "cannot change artifact type from 'model-artifact' to '{}': artifact type is immutable"
    assert (answer.status, answer.message) == (400, immutable.format("unknown"))
    answer = await api.patch(f"/artifacts/{made['id']}", {"artifactType": "doc-artifact", "description": "x"})
    assert (answer.status, answer.message) == (400, immutable.format("doc-artifact"))
    patched = await api.patch(f"/model_artifacts/{made['id']}", {"description": "x"})
    assert (patched.status, patched.body["state"], patched.body["description"]) == (200, "LIVE", "x")
    assert (await api.made("/model_artifacts", name="default"))["state"] == "UNKNOWN"


async def test_36_a_metric_is_no_model_artifact(api: Api, version: str) -> None:
    made = await api.made(f"{VERSIONS}/{version}/artifacts", artifactType="metric", name="acc", value=1)
    assert (await api.get(f"/model_artifacts/{made['id']}")).status == 404
    assert (await api.patch(f"/model_artifacts/{made['id']}", {})).status == 404
    assert (await api.get("/model_artifacts")).body["items"] == []
    assert (await api.get(f"/artifacts/{made['id']}")).body["value"] == 1
