"""What the client sends for each call, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from modelyard.kube import errors
from modelyard.kube.builtin import Deployment, Namespace, Pod, ServiceAccount
from modelyard.kube.client import Client
from modelyard.kube.http import Endpoint, HttpTransport
from modelyard.kube.kinds import Kind
from modelyard.kube.transport import Around
from modelyard.runtime.process.manager import Manager
from tests.unit.kube.recording_api import Asked, RecordingApi

WEB = {"metadata": {"namespace": "shop", "name": "web"}}
PATH = "/apis/apps/v1/namespaces/shop/deployments"


@asynccontextmanager
async def connected(api: RecordingApi) -> AsyncIterator[Client]:
    async with api.serving() as url, Client(HttpTransport(Endpoint(url))) as client:
        yield client


async def asked_for(call: Callable[[Client], Awaitable[object]]) -> Asked:
    api = RecordingApi()
    async with connected(api) as client:
        await call(client)
    return api.asked[-1]


Call = Callable[[Client], Awaitable[object]]
CALLS: list[tuple[str, Call, str, str, dict[str, str], str, Any]] = [
    ("get", lambda c: c.get(Deployment, "shop", "web"), "GET", f"{PATH}/web", {}, "", None),
    ("get cluster scoped", lambda c: c.get(Namespace, "", "shop"), "GET", "/api/v1/namespaces/shop", {}, "", None),
    ("get status", lambda c: c.get(Deployment, "shop", "web", subresource="status"), "GET", f"{PATH}/web/status", {}, "", None),
    (
        "list", lambda c: c.list(Deployment, "shop", labels="a=b", fields="metadata.name=x", limit=5), "GET", PATH,
        {"labelSelector": "a=b", "fieldSelector": "metadata.name=x", "limit": "5"}, "", None,
    ),
    ("list everywhere", lambda c: c.list(Pod), "GET", "/api/v1/pods", {}, "", None),
    ("create", lambda c: c.create(Deployment, WEB), "POST", PATH, {}, "application/json", WEB),
    (
        "create dry", lambda c: c.create(Deployment, WEB, dry_run=True, field_manager="me"), "POST", PATH,
        {"dryRun": "All", "fieldManager": "me"}, "application/json", WEB,
    ),
    (
        "create a subresource", lambda c: c.create(ServiceAccount, WEB, subresource="token"), "POST",
        "/api/v1/namespaces/shop/serviceaccounts/web/token", {}, "application/json", WEB,
    ),
    ("update", lambda c: c.update(Deployment, WEB), "PUT", f"{PATH}/web", {}, "application/json", WEB),
    ("update status", lambda c: c.update(Deployment, WEB, subresource="status"), "PUT", f"{PATH}/web/status", {}, "application/json", WEB),
    (
        "apply", lambda c: c.apply(Deployment, WEB, field_manager="me"), "PATCH", f"{PATH}/web",
        {"fieldManager": "me", "force": "false"}, "application/apply-patch+yaml", {"apiVersion": "apps/v1", "kind": "Deployment", **WEB},
    ),
    (
        "apply by force", lambda c: c.apply(Deployment, WEB, field_manager="me", force=True, dry_run=True, subresource="status"),
        "PATCH", f"{PATH}/web/status", {"fieldManager": "me", "force": "true", "dryRun": "All"}, "application/apply-patch+yaml",
        {"apiVersion": "apps/v1", "kind": "Deployment", **WEB},
    ),
    ("merge patch", lambda c: c.patch(Deployment, "shop", "web", {"a": None}), "PATCH", f"{PATH}/web", {}, "application/merge-patch+json", {"a": None}),
    (
        "JSON patch", lambda c: c.patch(Deployment, "shop", "web", [{"op": "remove", "path": "/a"}], type="json"), "PATCH",
        f"{PATH}/web", {}, "application/json-patch+json", [{"op": "remove", "path": "/a"}],
    ),
    (
        "strategic patch", lambda c: c.patch(Deployment, "shop", "web", {"a": 1}, type="strategic"), "PATCH", f"{PATH}/web", {},
        "application/strategic-merge-patch+json", {"a": 1},
    ),
    (
        "scale", lambda c: c.scale(Deployment, "shop", "web", 3), "PATCH", f"{PATH}/web/scale", {}, "application/merge-patch+json",
        {"spec": {"replicas": 3}},
    ),
    (
        "delete", lambda c: c.delete(Deployment, "shop", "web"), "DELETE", f"{PATH}/web", {}, "application/json",
        {"apiVersion": "v1", "kind": "DeleteOptions"},
    ),
    (
        "guarded delete",
        lambda c: c.delete(Deployment, "shop", "web", propagation="Foreground", uid="u", resource_version="7", grace=0),
        "DELETE", f"{PATH}/web", {}, "application/json",
        {
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "7"},
        },
    ),
    (
        "delete a collection", lambda c: c.delete_collection(Deployment, "shop", labels="a=b", dry_run=True), "DELETE", PATH,
        {"labelSelector": "a=b"}, "application/json", {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]},
    ),
    (
        "logs", lambda c: c.logs("shop", "web-1", container="main", previous=True, tail=0, since=60), "GET",
        "/api/v1/namespaces/shop/pods/web-1/log", {"container": "main", "previous": "true", "tailLines": "0", "sinceSeconds": "60"}, "", None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "method", "path", "query", "content_type", "body"),
    [row[1:] for row in CALLS],
    ids=[row[0] for row in CALLS],
)
async def test_call_becomes_request(
    call: Call, method: str, path: str, query: dict[str, str], content_type: str, body: Any
) -> None:
    asked = await asked_for(call)
    assert (asked.method, asked.path, asked.query) == (method, path, query)
    if content_type:
        assert asked.headers["Content-Type"] == content_type
        assert json.loads(asked.body) == body
    else:
        assert asked.body == b""


@pytest.mark.parametrize("call", [
    lambda c: c.get(Deployment, "shop", ""),
    lambda c: c.delete(Deployment, "shop", ""),
    lambda c: c.update(Deployment, {"metadata": {"namespace": "shop"}}),
    lambda c: c.patch(Deployment, "shop", "", {}),
])  # fmt: skip
async def test_empty_name_never_addresses_the_collection(call: Call) -> None:
    api = RecordingApi()
    async with connected(api) as client:
        with pytest.raises(ValueError, match="a Deployment was addressed without a name"):
            await call(client)
    assert api.asked == []


async def test_list_follows_pages_and_types_its_items() -> None:
    api = RecordingApi()
    api.answers = [
        {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]},
        {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b"}}]},
    ]
    async with connected(api) as client:
        found = await client.list(Deployment, limit=1)
    assert found.items[1] == {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b"}}
    assert found.resource_version == "9"
    assert api.asked[1].query == {"limit": "1", "continue": "more"}


async def test_list_whose_pages_expired_is_read_in_one_piece() -> None:
    api = RecordingApi()
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "the continue parameter is too old"}
    api.answers = [
        {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]},
        (410, gone, {}),
        {"metadata": {"resourceVersion": "12"}, "items": [{"metadata": {"name": "b"}}]},
    ]
    async with connected(api) as client:
        found = await client.list(Pod, limit=1)
    assert [item["metadata"]["name"] for item in found.items] == ["b"]
    assert api.asked[2].query == {}


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (403, "Forbidden", errors.Forbidden),
        (500, "InternalError", errors.ServerError),
    ],
)
async def test_refusal_carries_its_status(code: int, reason: str, expected: type[errors.ApiError]) -> None:
    api = RecordingApi()
    status = {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": "no",
        "details": {"causes": [{"field": "a"}]},
    }
    api.answers = [(code, status, {})]
    async with connected(api) as client:
        with pytest.raises(expected, match="no") as caught:
            await client.get(Pod, "shop", "web")
    assert type(caught.value) is expected
    assert caught.value.causes == [{"field": "a"}]
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("code", "body", "expected", "message"),
    [
        (502, "<html>Bad Gateway</html>", errors.ServerError, "HTTP 502: <html>Bad Gateway"),
        (404, "404 page not found\n", errors.NotFound, "HTTP 404: 404 page not found"),
        (503, "", errors.ServerError, "GET /api/v1/namespaces/shop/pods/web was answered with HTTP 503"),
        (403, '{"error": "x"}', errors.Forbidden, 'HTTP 403: {"error": "x"}'),
    ],
)
async def test_refusal_without_a_status_gets_one(
    code: int, body: str, expected: type[errors.ApiError], message: str
) -> None:
    api = RecordingApi()
    api.answers = [(code, body, {})]
    async with connected(api) as client:
        with pytest.raises(expected) as caught:
            await client.get(Pod, "shop", "web")
    assert message in str(caught.value)
    assert caught.value.status["kind"] == "Status"
    assert caught.value.code == code


async def test_find_gives_none_for_what_is_absent() -> None:
    api = RecordingApi()
    api.answers = [(404, {"kind": "Status", "code": 404, "reason": "NotFound"}, {})]
    async with connected(api) as client:
        assert await client.find(Pod, "shop", "web") is None


@pytest.mark.parametrize("code", [429, 503])
async def test_retry_after_is_honoured(code: int) -> None:
    api = RecordingApi()
    api.answers = [
        (code, "busy", {"Retry-After": "0"}),
        (code, "busy", {"Retry-After": "0"}),
        {"metadata": {"name": "web"}},
    ]
    async with connected(api) as client:
        assert (await client.create(Pod, WEB))["metadata"]["name"] == "web"
    assert [asked.body for asked in api.asked] == [api.asked[0].body] * 3


async def test_retry_after_is_bounded() -> None:
    api = RecordingApi()
    api.answers = [(429, "busy", {"Retry-After": "0"})]
    async with api.serving() as url, Client(HttpTransport(Endpoint(url)), retries=2) as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.get(Pod, "shop", "web")
    assert caught.value.retry_after == 0
    assert len(api.asked) == 3


async def test_unavailable_without_retry_after_is_the_callers_to_judge() -> None:
    api = RecordingApi()
    api.answers = [(503, "down", {})]
    async with connected(api) as client:
        with pytest.raises(errors.ServerError):
            await client.get(Pod, "shop", "web")
    assert len(api.asked) == 1


async def test_answer_that_is_no_json_says_so() -> None:
    api = RecordingApi()
    api.answers = [(200, "<html>login</html>", {})]
    async with connected(api) as client:
        with pytest.raises(errors.Unreachable, match="is this a Kubernetes API"):
            await client.get(Pod, "shop", "web")


async def test_watch_gives_the_bytes_of_the_object() -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{"b":1, "a":"\xc2\x85"}}\n')
        return response

    api = RecordingApi([stream])
    async with connected(api) as client:
        events = [
            event
            async for event in client.watch(
                Pod, "shop", resource_version="5", labels="a=b", timeout=7, metadata_only=True
            )
        ]
    assert [(event.type, event.raw) for event in events] == [("ADDED", b'{"b":1, "a":"\xc2\x85"}')]
    assert events[0].object == {"b": 1, "a": "\x85"}
    assert api.asked[0].query == {
        "watch": "true", "resourceVersion": "5", "labelSelector": "a=b", "allowWatchBookmarks": "true", "timeoutSeconds": "7",
    }  # fmt: skip
    assert "as=PartialObjectMetadata;" in api.asked[0].headers["Accept"]


async def test_leaving_a_watch_closes_its_connection() -> None:
    closed = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{}}\n')
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()
        return response

    api = RecordingApi([stream])
    async with connected(api) as client:
        watch = client.watch(Pod, resource_version="5")
        await anext(watch)
        await watch.aclose()
        await asyncio.wait_for(closed.wait(), 5)


async def test_followed_logs_are_lines() -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in (b"one\ntw", b"o\x85\nthr", b"ee"):
            await response.write(chunk)
        return response

    api = RecordingApi([stream])
    async with connected(api) as client:
        found = [line async for line in client.follow_logs("shop", "web-1", tail=10)]
    assert found == ["one", "two�", "three"]
    assert api.asked[0].query == {"follow": "true", "tailLines": "10"}


AGGREGATED_CORE = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": ""},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {"resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "scope": "Namespaced"},
                        {"resource": "namespaces", "responseKind": {"kind": "Namespace"}, "scope": "Cluster"},
                    ],
                }
            ],
        }
    ],
}  # fmt: skip


async def test_discovery_in_two_requests() -> None:
    async def groups(request: web.Request) -> web.StreamResponse:
        if request.path == "/api":
            return web.json_response(AGGREGATED_CORE)
        resources = [{"resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced"}]
        items = [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": resources}]}]
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})

    api = RecordingApi([groups])
    async with connected(api) as client:
        assert await client.discover() == {Pod, Namespace, Deployment}
    assert len(api.asked) == 2
    assert "apidiscovery.k8s.io;v=v2" in api.asked[0].headers["Accept"]


async def test_discovery_group_by_group_on_older_servers() -> None:
    documents: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "groups": [{"name": name, "versions": [{"version": "v1"}]} for name in ("apps", "metrics.k8s.io")],
        },
        "/api/v1": {
            "resources": [
                {"name": "pods", "kind": "Pod", "namespaced": True},
                {"name": "pods/log", "kind": "Pod", "namespaced": True},
            ]
        },
        "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path not in documents:
            return web.json_response({"kind": "Status", "code": 503}, status=503)
        return web.json_response(documents[request.path])

    async with connected(RecordingApi([answer])) as client:
        found = await client.discover()
    assert found == {Pod, Deployment}
    assert Kind("metrics.k8s.io", "v1", "NodeMetrics", "nodes", False) not in found


def _exec_server(status: dict[str, Any]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def serve(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        received = b""
        if "stdin" in request.query:
            async for message in socket:
                assert message.type is aiohttp.WSMsgType.BINARY
                if message.data == b"\xff\x00":
                    break
                received += message.data[1:]
        await socket.send_bytes(b"\x01out:" + received)
        await socket.send_bytes(b"\x02err:" + " ".join(request.query.getall("command")).encode())
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket

    return serve


async def test_exec_gives_output_and_exit_code() -> None:
    failed = {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
    }
    api = RecordingApi([_exec_server({"status": "Success"}), _exec_server(failed)])
    async with connected(api) as client:
        done = await client.exec("shop", "web-1", ["cat", "-n"], stdin=b"hello" * 20000)
        assert (done.code, done.stdout, done.stderr) == (0, b"out:" + b"hello" * 20000, b"err:cat -n")
        assert (await client.exec("shop", "web-1", ["false"], container="main")).code == 3
    assert api.asked[0].path == "/api/v1/namespaces/shop/pods/web-1/exec"
    assert api.asked[1].query["container"] == "main"


async def test_exec_that_is_refused_raises_the_refusal() -> None:
    api = RecordingApi([(404, {"kind": "Status", "code": 404}, {})])
    async with connected(api) as client:
        with pytest.raises(errors.NotFound, match="HTTP 404"):
            await client.exec("shop", "web-1", ["true"])


async def test_exec_works_through_a_transport_around_another() -> None:
    api = RecordingApi([_exec_server({"status": "Success"})])
    async with connected(api) as client:
        assert (await client.through(Around).exec("shop", "web-1", ["true"], stdin=b"x")).stdout == b"out:x"


async def test_exec_works_with_the_client_that_a_manager_gives_to_controllers() -> None:
    api = RecordingApi([_exec_server({"status": "Success"})])
    async with connected(api) as client:
        assert (await Manager(client, []).client.exec("shop", "web-1", ["true"], stdin=b"x")).stdout == b"out:x"


async def test_exec_needs_sockets() -> None:
    class InProcess:
        async def send(self, *_: object, **__: object) -> Any: ...

        async def close(self) -> None: ...

    for client in (Client(InProcess()), Client(Around(InProcess()))):
        with pytest.raises(errors.Unreachable, match="in-process server has no WebSockets"):
            await client.exec("shop", "web-1", ["true"])
