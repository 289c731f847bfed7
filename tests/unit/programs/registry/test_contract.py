"""Requests made from the OpenAPI document, right ones and nearly right ones: no answer is a 5xx, and none is outside of the document."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.programs.registry.conftest import Api
from tests.unit.programs.registry.contract import Contract

IDS = st.sampled_from(
    ["1", "2", "3", "0", "-1", "999999999", "1000000000", "abc", "%D9%A1", "1.0", "%20", "1%00", "..", "a%2Fb"]
)
PARAMETERS = {
    "filterQuery": ["name = 'a'", "id > 0", "state IN ('LIVE')", "bogus ((", "x.y.z = 1", "description LIKE '%'"],
    "pageSize": ["0", "1", "2", "-1", "x", "2147483648"],
    "orderBy": ["ID", "CREATE_TIME", "LAST_UPDATE_TIME", "NAME"],
    "sortOrder": ["ASC", "desc", "UP"],
    "nextPageToken": ["", "e30=", "not a token"],
    "name": ["a", "", "it's", "ä"],
    "externalId": ["e", ""],
    "parentResourceId": ["1", "0", "x"],
    "artifactType": ["metric", "model-artifact", "zz"],
    "stepIds": ["1", "1,2", "a", ","],
}


async def fill(api: Api) -> dict[str, list[str]]:
    """One of each kind, so that requests can succeed; gives the ids by the path before them."""
    model = (await api.made("/registered_models", name="first"))["id"]
    version = (await api.made("/model_versions", name="v", registeredModelId=model))["id"]
    environment = (await api.made("/serving_environments", name="e"))["id"]
    body = {"registeredModelId": model, "servingEnvironmentId": environment}
    service = (await api.made("/inference_services", name="s", **body))["id"]
    await api.made(f"/inference_services/{service}/serves", name="x", modelVersionId=version)
    experiment = (await api.made("/experiments", name="x"))["id"]
    run = (await api.made("/experiment_runs", name="r", experimentId=experiment))["id"]
    await api.made(f"/experiment_runs/{run}/artifacts", artifactType="metric", name="loss", value=1, step=2)
    artifact = (await api.made(f"/model_versions/{version}/artifacts", artifactType="model-artifact", name="a"))["id"]
    return {
        "registered_models": [model], "model_versions": [version], "serving_environments": [environment],
        "inference_services": [service], "experiments": [experiment], "experiment_runs": [run],
        "artifacts": [artifact], "model_artifacts": [artifact],
    }  # fmt: skip


def requests(contract: Contract, known: dict[str, list[str]]) -> st.SearchStrategy[tuple[str, str, Any, Any]]:
    """Method, path with its query, body, and the operation that describes them."""
    made = []
    for method, path, operation in contract.operations():
        names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
        chosen = {name: st.sampled_from(PARAMETERS[name]) for name in names}
        query = st.fixed_dictionaries({}, optional=chosen) if chosen else st.just({})
        ids = IDS
        if "{id}" in path:
            good = st.sampled_from(known[path.split("/{id}")[0].rsplit("/", 1)[-1]])
            ids = st.one_of(good, good, good, IDS)
        one = st.tuples(st.just(method), st.just(path), ids, query, contract.bodies(operation), st.just(operation))
        made.append(one)
    return st.one_of(made)


@pytest.mark.parametrize("version", ["v1alpha3", "v1"])
async def test_every_answer_is_described(api: Api, version: str) -> None:
    api = api if version == "v1alpha3" else api.v1
    contract = Contract((await api.get("/openapi.json", version=version)).body)
    known = await fill(Api(api.address, api.client, api.database))
    sent: list[Any] = []

    examples = 250 if api.database == "sqlite" else 80

    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
    )
    @given(requests(contract, known))
    def collect(one: Any) -> None:
        sent.append(one)

    collect()
    statuses = set()
    for method, path, row_id, query, body, operation in sent:
        where = path.replace("{id}", row_id)
        if query:
            where += "?" + "&".join(
                f"{name}={value.replace('%', '%25').replace(' ', '%20')}" for name, value in query.items()
            )
        answer = await api.send(method, where, body)
        statuses.add(answer.status)
        assert answer.status < 500, (method, where, body, answer)
        assert answer.status != 405, (method, where)
        assert not contract.problems(operation, answer.status, answer.body), (method, where, body, answer.body)
    assert {200, 201, 400, 404} <= statuses


async def test_a_judge_that_finds_nothing_is_no_judge(api: Api) -> None:
    contract = Contract((await api.get("/openapi.json")).body)
    operation = contract.document["paths"][f"{api.prefix}/registered_models"]["post"]
    good = await api.made("/registered_models", name="m")
    assert not contract.problems(operation, 201, good)
    wrong: list[object] = [{**good, "id": 1}, {**good, "state": "NOPE"}, {**good, "other": 1}, {"name": "m"}, []]
    for bad in wrong:
        assert contract.problems(operation, 201, bad)
    assert contract.problems(operation, 204, good)
