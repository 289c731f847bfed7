"""Which permission each MLflow request needs."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.programs.mlflow_plugin.modelyard_mlflow.rules import Name, Named, need


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/api/2.0/mlflow/experiments/create", {"name": "e"}, ("experiments", "create", "e")),
        ("GET", "/api/2.0/mlflow/experiments/get-by-name?experiment_name=e", {}, ("experiments", "get", "e")),
        ("GET", "/api/2.0/mlflow/experiments/get?experiment_id=3", {}, ("experiments", "get", "3")),
        ("POST", "/api/2.0/mlflow/experiments/search", {}, ("experiments", "list", "")),
        ("POST", "/api/2.0/mlflow/experiments/delete", {"experiment_id": "3"}, ("experiments", "delete", "3")),
        (
            "POST",
            "/ajax-api/2.0/mlflow/experiments/set-experiment-tag",
            {"experiment_id": "3"},
            ("experiments", "update", "3"),
        ),
        ("POST", "/api/2.0/mlflow/runs/create", {"experiment_id": "3"}, ("experiments", "update", "3")),
        ("POST", "/api/2.0/mlflow/runs/log-batch", {"run_id": "r"}, ("experiments", "update", "r")),
        ("GET", "/api/2.0/mlflow/runs/get?run_id=r", {}, ("experiments", "get", "r")),
        ("POST", "/api/2.0/mlflow/runs/search", {"experiment_ids": ["7"]}, ("experiments", "get", "7")),
        ("POST", "/api/2.0/mlflow/runs/search", {"experiment_ids": ["7", "8"]}, ("experiments", "get", "7 8")),
        ("POST", "/api/2.0/mlflow/runs/delete", {"run_id": "r"}, ("experiments", "update", "r")),
        ("GET", "/api/2.0/mlflow/metrics/get-history?run_id=r", {}, ("experiments", "get", "r")),
        ("POST", "/api/3.0/mlflow/traces", {}, ("experiments", "update", "")),
        ("POST", "/api/3.0/mlflow/traces/search", {}, ("experiments", "list", "")),
        (
            "PUT",
            "/api/2.0/mlflow-artifacts/artifacts/workspaces/demo/5/r/artifacts/x",
            {},
            ("experiments", "update", "5"),
        ),
        ("GET", "/api/2.0/mlflow-artifacts/artifacts/5/r/artifacts/x", {}, ("experiments", "get", "5")),
        ("GET", "/api/2.0/mlflow-artifacts/artifacts?path=5/r/artifacts", {}, ("experiments", "get", "5")),
        ("POST", "/api/2.0/mlflow/registered-models/create", {"name": "m"}, ("registeredmodels", "create", "m")),
        ("GET", "/api/2.0/mlflow/registered-models/get?name=m", {}, ("registeredmodels", "get", "m")),
        ("GET", "/api/2.0/mlflow/registered-models/search", {}, ("registeredmodels", "list", "")),
        ("DELETE", "/api/2.0/mlflow/registered-models/delete", {"name": "m"}, ("registeredmodels", "delete", "m")),
        ("POST", "/api/2.0/mlflow/registered-models/alias", {"name": "m"}, ("registeredmodels", "update", "m")),
        ("GET", "/api/2.0/mlflow/registered-models/alias?name=m", {}, ("registeredmodels", "get", "m")),
        ("POST", "/api/2.0/mlflow/model-versions/create", {"name": "m"}, ("registeredmodels", "update", "m")),
        ("POST", "/api/3.0/mlflow/datasets/create", {"name": "d"}, ("datasets", "create", "d")),
        ("DELETE", "/api/3.0/mlflow/datasets/x", {}, ("datasets", "delete", "")),
        ("POST", "/api/3.0/mlflow/datasets/x/records", {}, ("datasets", "update", "")),
        ("POST", "/api/3.0/mlflow/gateway/secrets/create", {}, ("gatewaysecrets", "create", "")),
        ("GET", "/api/3.0/mlflow/gateway/model-definitions/list", {}, ("gatewaymodeldefinitions", "list", "")),
        ("POST", "/gateway/chat/mlflow/invocations", {}, ("gatewayendpoints", "create", "chat")),
        ("DELETE", "/api/3.0/mlflow/prompt-optimization/jobs/j", {}, ("jobs", "delete", "")),
    ],
)
def test_requests_need_permissions(
    method: str, path: str, body: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    bare, _, text = path.partition("?")
    query = [(name, value) for name, _, value in (part.partition("=") for part in text.split("&") if part)]
    found = need(method, bare, query, body, "demo")
    assert found is not None
    assert (found.resource, found.verb, " ".join(name.value for name in found.names)) == expected


@pytest.mark.parametrize(
    "path", ["/", "/health", "/version", "/metrics", "/static-files/main.js", "/api/3.0/mlflow/server-info"]
)
def test_health_and_pages_need_none(path: str) -> None:
    assert need("GET", path, [], {}) is None


def test_using_an_endpoint_is_a_subresource() -> None:
    found = need("POST", "/gateway/chat/mlflow/invocations", [], {})
    assert found is not None
    assert (found.subresource, found.names) == ("use", (Name(Named.VALUE, "chat"),))


MINE, VICTIM = "1", "2"


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "names"),
    [
        # MLflow reads the body of anything but a GET: the query is not a place for a name.
        ("POST", "experiments/delete", [("experiment_id", MINE)], {"experiment_id": VICTIM}, [VICTIM]),
        ("POST", "experiments/delete", [("experiment_id", MINE)], {}, []),
        ("POST", "runs/delete", [("run_id", MINE)], {"run_id": VICTIM}, [VICTIM]),
        ("HEAD", "runs/get", [("run_id", MINE)], {}, []),
        # A field that the endpoint does not look at names nothing.
        ("POST", "runs/delete", [], {"experiment_id": MINE, "run_id": VICTIM}, [VICTIM]),
        ("POST", "runs/log-batch", [], {"experiment_id": MINE, "run_id": VICTIM}, [VICTIM]),
        ("POST", "runs/search", [], {"experiment_id": MINE, "experiment_ids": [VICTIM]}, [VICTIM]),
        ("GET", "runs/get", [("experiment_id", MINE), ("run_id", VICTIM)], {}, [VICTIM]),
        ("GET", "traces/tr-2/info", [("experiment_id", MINE)], {}, []),
        ("DELETE", "logged-models/m-2", [], {"experiment_id": MINE}, []),
        ("POST", "model-versions/create", [("name", MINE)], {"name": VICTIM}, [VICTIM]),
        # Both ways to name a run count, and both spellings of a field.
        ("GET", "runs/get", [("run_id", MINE), ("run_uuid", VICTIM)], {}, [MINE, VICTIM]),
        ("GET", "metrics/get-history-bulk", [("run_id", MINE), ("run_id", VICTIM)], {}, [MINE, VICTIM]),
        ("POST", "experiments/delete", [], {"experimentId": VICTIM}, [VICTIM]),
        ("POST", "registered-models/rename", [], {"name": MINE, "new_name": VICTIM}, [MINE, VICTIM]),
    ],
)
def test_a_request_names_exactly_what_mlflow_will_act_on(
    method: str, path: str, query: list[tuple[str, str]], body: dict[str, Any], names: list[str]
) -> None:
    found = need(method, f"/api/2.0/mlflow/{path}", query, body)
    assert found is not None
    assert [name.value for name in found.names] == names


@pytest.mark.parametrize(
    "path", ["workspaces/other/1/r/x", "1/../2/r/x", "workspaces/demo/../other/1/x", "x/1", "workspaces"]
)
def test_an_artifact_path_that_may_lead_elsewhere_names_no_experiment(path: str) -> None:
    for method, url, query in (
        ("GET", f"/api/2.0/mlflow-artifacts/artifacts/{path}", []),
        ("GET", "/api/2.0/mlflow-artifacts/artifacts", [("path", path)]),
        ("GET", "/api/2.0/mlflow-artifacts/artifacts", [("path", "1/r"), ("path", path)]),
    ):
        found = need(method, url, query, {}, "demo")
        assert found is not None
        assert found.names == ()


def test_only_a_post_can_be_a_search() -> None:
    found = need("DELETE", "/api/3.0/mlflow/logged-models/get-rid-of-it", [], {})
    assert found is not None
    assert found.verb == "update"
