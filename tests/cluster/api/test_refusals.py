"""Requests that are wrong in odd ways, or in more than one: what the differential fuzzer found, kept as tests for both servers."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from tests.cluster.api.calls import MERGE, call
from tests.cluster.conftest import Api

BAD_LABEL: Object = {"name": "a", "labels": {"bad key!": "x"}}


async def test_metadata_of_a_budget_is_looked_at_when_all_else_is_right(api: Api) -> None:
    path = builtin.PodDisruptionBudget.path(await api.namespace())
    both = await call(api, "POST", path, {"metadata": BAD_LABEL, "spec": {"selector": {}, "minAvailable": -1}})
    assert [field for field, _ in both.causes] == ["spec.minAvailable"]
    one = await call(api, "POST", path, {"metadata": BAD_LABEL, "spec": {"selector": {}, "minAvailable": 1}})
    assert [field for field, _ in one.causes] == ["metadata.labels"]


async def test_a_refusal_brings_the_warnings_along(api: Api) -> None:
    path = builtin.Service.path(await api.namespace())
    answer = await call(api, "POST", path, {"metadata": {"name": "a"}, "spec": {"ports": []}, "surprise": 1})
    assert answer.status == 422
    assert answer.headers["Warning"] == '299 - "unknown field \\"surprise\\""'


@pytest.mark.parametrize(
    ("kind", "field"),
    [(builtin.ConfigMap, "binaryData"), (builtin.Secret, "data")],
    ids=lambda value: value.kind if isinstance(value, Kind) else value,
)
async def test_an_empty_map_is_a_change_to_an_immutable_object(api: Api, kind: Kind, field: str) -> None:
    namespace = await api.namespace()
    await call(api, "POST", kind.path(namespace), {"metadata": {"name": "a"}, "immutable": True})
    answer = await call(api, "PATCH", kind.path(namespace, "a"), {field: {}}, type=MERGE)
    assert answer.causes == [(field, "Forbidden: field is immutable when `immutable` is set")]


async def test_an_empty_map_is_stored_as_none(api: Api) -> None:
    namespace = await api.namespace()
    made = await call(api, "POST", builtin.ConfigMap.path(namespace), {"metadata": {"name": "a"}, "data": {}})
    assert made.status == 201
    assert "data" not in made.body
    answer = await call(api, "PATCH", builtin.ConfigMap.path(namespace, "a"), {"binaryData": {}}, type=MERGE)
    assert answer.body == made.body


async def test_a_claim_may_not_ask_for_less_than_it_has(api: Api) -> None:
    path = builtin.PersistentVolumeClaim.path(await api.namespace())
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await call(api, "POST", path, {"metadata": {"name": "a"}, "spec": spec})
    less = {"spec": {"resources": {"requests": {"storage": "0"}}}}
    answer = await call(api, "PATCH", f"{path}/a", less, type=MERGE)
    assert [field for field, _ in answer.causes] == [
        "spec.resources[storage]",
        "spec",
        "spec.resources.requests.storage",
    ]
    assert answer.causes[-1][1] == "Forbidden: field can not be less than status.capacity"
