"""Paths and methods: what a URL means, and how the server says that there is nothing or that it may not be done."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import ConfigMap
from tests.cluster.api.calls import MERGE, call, config_map
from tests.cluster.api.definitions import definition, install, version
from tests.cluster.conftest import Api

STATUS = "the server could not find the requested resource"
TEXT = "404 page not found\n"
NOT_SERVED = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/apis/apps/v9", STATUS),
        ("/apis/apps/v9/deployments", STATUS),
        ("/apis/apps/v1/nopes", STATUS),
        ("/api/v2", STATUS),
        ("/api/v2/pods", STATUS),
        ("/api/v1/nopes", STATUS),
        ("/api/v1/pods/x", STATUS),
        ("/api/v1/namespaces/default/nodes/x", STATUS),
        ("/api/v1/namespaces/default/pods/x/nope", STATUS),
        ("/apis/nothing.example.com", TEXT),
        ("/apis/nothing.example.com/v1", TEXT),
        ("/apis/nothing.example.com/v1/foos", TEXT),
        ("/nope", TEXT),
    ],
)
async def test_a_path_with_nothing_is_a_status_in_builtin_groups_and_text_elsewhere(
    api: Api, path: str, said: str
) -> None:
    answer = await call(api, "GET", path)
    assert answer.status == 404
    assert (answer.body if said is TEXT else answer.message) == said


async def test_a_custom_group_answers_with_text_for_what_it_has_not(api: Api) -> None:
    kind = (await install(api, definition(version()))).kind
    for path in ("v9", f"v9/{kind.plural}", "v1/nopes", f"v1/{kind.plural}/x"):
        assert (await call(api, "GET", f"/apis/{kind.group}/{path}")).body == TEXT


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/namespaces/default/pods"),
        ("PATCH", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/namespaces/default/pods/x"),
        ("DELETE", "/api/v1/namespaces"),
        ("POST", "/api/v1/pods"),
        ("HEAD", "/api/v1/namespaces/default"),
        ("HEAD", "/api/v1/namespaces/default/pods"),
        ("HEAD", "/version"),
        ("POST", "/version"),
        ("POST", "/api"),
        ("POST", "/apis/apps/v1"),
    ],
)
async def test_a_method_that_a_path_does_not_have(api: Api, method: str, path: str) -> None:
    answer = await call(api, method, path, {} if method == "PATCH" else None, type=MERGE)
    assert answer.status == 405
    assert method == "HEAD" or (answer.reason, answer.message) == ("MethodNotAllowed", NOT_SERVED)


async def test_all_namespaces_at_once_cannot_be_emptied(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ConfigMap, config_map(namespace, "kept"))
    answer = await call(api, "DELETE", "/api/v1/configmaps")
    assert (answer.status, answer.message) == (405, NOT_SERVED)
    assert await api.client.find(ConfigMap, namespace, "kept") is not None


@pytest.mark.parametrize("endpoint", ["livez", "readyz", "healthz"])
async def test_health_check_by_check(api: Api, endpoint: str) -> None:
    for path in (f"/{endpoint}", f"/{endpoint}/ping", f"/{endpoint}/etcd"):
        for method in ("GET", "POST"):
            answer = await call(api, method, path)
            assert (answer.status, answer.body) == (200, "ok")
    for path in (f"/{endpoint}/", f"/{endpoint}/nope"):
        assert (await call(api, "GET", path)).body == TEXT
    lines = (await call(api, "GET", f"/{endpoint}", verbose="", exclude="etcd")).body.splitlines()
    assert {"[+]ping ok", "[+]log ok", "[+]etcd excluded: ok"} <= set(lines)
    assert lines[-1] == f"{endpoint} check passed"


async def test_a_resource_version_that_is_no_number(api: Api) -> None:
    answer = await call(api, "GET", "/api/v1/namespaces/default", resourceVersion="abc")
    assert (answer.status, answer.reason) == (500, "")
    assert answer.message == 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/default/endpoints"),
        ("GET", "/api/v1/namespaces/default/endpoints/nope"),
        ("DELETE", "/api/v1/namespaces/default/endpoints/nope"),
    ],
)
async def test_every_request_to_a_deprecated_kind_is_warned(api: Api, method: str, path: str) -> None:
    answer = await call(api, method, path)
    said = {name.lower(): value for name, value in answer.headers.items()}
    assert said["warning"] == '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'


async def test_requests_are_counted_for_monitors(api: Api) -> None:
    namespace = await api.namespace()
    await call(api, "GET", f"/api/v1/namespaces/{namespace}/configmaps/nope")
    await call(api, "GET", f"/api/v1/namespaces/{namespace}/configmaps")
    lines = (await call(api, "GET", "/metrics", accept="text/plain")).body.splitlines()
    assert "# TYPE apiserver_request_total counter" in lines
    counted = [line for line in lines if line.startswith("apiserver_request_total{")]
    for labels in (
        ('code="404"', 'resource="configmaps"', 'scope="resource"', 'verb="GET"', 'version="v1"'),
        ('code="200"', 'resource="configmaps"', 'scope="namespace"', 'verb="LIST"', 'version="v1"'),
        ('code="201"', 'resource="namespaces"', 'verb="POST"'),
    ):
        assert any(all(label in line for label in labels) for line in counted), labels


@pytest.mark.parametrize("form", ["Table", "Nothing"])
async def test_a_review_cannot_be_shown_as_something_else(api: Api, form: str) -> None:
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await call(api, "POST", path, review, accept=f"application/json;as={form};v=v1;g=meta.k8s.io")
    assert (answer.status, answer.reason) == (406, "NotAcceptable")
    assert answer.message.startswith("only the following media types are accepted: application/json")
