"""The server behind sockets: TLS, tokens, limits, and what a hostile client cannot do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from modelyard.local.apiserver import ApiServer, process
from modelyard.local.apiserver.requests.messages import ANONYMOUS, Reply, Request, parse_query
from modelyard.local.apiserver.server import ADMIN

TOKEN = "the-token"


class Web:
    """A client that can send anything."""

    def __init__(self, url: str, certificate: str, server: ApiServer) -> None:
        self.server = server
        context = ssl.create_default_context(cadata=certificate)
        self.url = url
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    async def send(
        self, method: str, path: str, *, token: str = TOKEN, headers: dict[str, str] | None = None, **more: Any
    ) -> tuple[int, Any]:
        given = ({"Authorization": f"Bearer {token}"} if token else {}) | (headers or {})
        async with self.session.request(method, self.url + path, headers=given, **more) as response:
            text = await response.text()
            try:
                return response.status, json.loads(text)
            except ValueError:
                return response.status, text


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with ApiServer() as server:
        server.admit_token(TOKEN)
        url = await server.listen()
        client = Web(url, server.root_certificate(), server)
        yield client
        await client.session.close()


async def test_tls_and_token_let_in(web: Web) -> None:
    status, body = await web.send("GET", "/api/v1/namespaces/default")
    assert (status, body["metadata"]["name"]) == (200, "default")


async def test_service_kubernetes_points_at_the_server(web: Web) -> None:
    _, service = await web.send("GET", "/api/v1/namespaces/default/services/kubernetes")
    port = int(web.url.rpartition(":")[2])
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    _, endpoints = await web.send("GET", "/api/v1/namespaces/default/endpoints/kubernetes")
    assert endpoints["subsets"][0]["addresses"] == [{"ip": "127.0.0.1"}]


async def test_watch_streams_and_ends_with_its_client(web: Web) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    path = "/api/v1/namespaces?watch=true"
    async with web.session.get(web.url + path, headers=headers) as response:
        line = await response.content.readline()
        assert json.loads(line)["type"] == "ADDED"
    async with asyncio.timeout(10):
        while len(web.server.watches):
            await asyncio.sleep(0.01)


async def test_wrong_token_is_401_and_none_is_anonymous(web: Web) -> None:
    assert (await web.send("GET", "/api/v1/namespaces", token="wrong"))[0] == 401
    status, body = await web.send("GET", "/api/v1/namespaces", token="")
    assert status == 403
    assert 'User "system:anonymous" cannot list resource "namespaces"' in body["message"]
    assert (await web.send("GET", "/livez", token="")) == (200, "ok")
    assert (await web.send("GET", "/version", token=""))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:443", "169.254.169.254", "[::2]", "a b"])
async def test_foreign_host_header_is_refused(web: Web, host: str) -> None:
    status, body = await web.send("GET", "/api/v1/namespaces", headers={"Host": host})
    assert status in (400, 403)
    assert status == 400 or "this server is not known as" in body["message"]


async def test_foreign_origin_is_refused(web: Web) -> None:
    status, body = await web.send("GET", "/api/v1/namespaces", headers={"Origin": "https://evil.example"})
    assert (status, body["reason"]) == (403, "Forbidden")
    assert (await web.send("GET", "/api/v1/namespaces", headers={"Origin": "https://localhost:1"}))[0] == 200


async def test_body_over_the_limit_is_413(web: Web) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    headers = {"Content-Type": "application/json"}
    body = b'{"data":"' + b"x" * (3 << 20) + b'"}'
    status, answer = await web.send("POST", path, data=body, headers=headers)
    assert (status, answer["message"]) == (413, "Request entity too large: limit is 3145728")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * (1 << 20)

    # The server may close the connection while the client still sends.
    with contextlib.suppress(aiohttp.ClientError):
        assert (await web.send("POST", path, data=chunks(), headers=headers))[0] == 413


@pytest.mark.parametrize(
    "path",
    [
        "/", "//", "/api", "/apis/", "/api/v1/", "/api/v1//", "/apis/apps/v1/namespaces//deployments", "/api/v1/namespaces/a/b/c/d/e/f",
        "/api/v1/namespaces/default/pods/..%2f..%2f..%2fetc%2fpasswd", "/../../etc/passwd", "/%00", "/api/v1/namespaces/%ff%fe",
        "/api/v1/watch", "/api/v1/watch/namespaces/default/pods/x/y", "/openapi/v3/../../..", "/apis/%s/%d",
        "/api/v1/pods?limit=99999999999999999999999", "/api/v1/pods?continue=%00", "/api/v1/pods?labelSelector=%ff",
        "/api/v1/pods?fieldSelector==", "/api/v1/pods?resourceVersion=-1", "/api/v1/pods?timeoutSeconds=x&watch=1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_no_path_crashes_the_server(method: str, path: str) -> None:
    async with ApiServer() as server:
        server.admit_token(TOKEN)
        path, _, query = path.partition("?")
        for user in (ADMIN, ANONYMOUS):
            request = Request(method, path, parse_query(query), {"content-type": "application/json"}, b"{}", user)
            reply = await server.handle(request)
            assert 200 <= reply.status < 500 or (reply.status == 504 and "limit" in query)


_DEEP = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * 5000 + b"1" + b"}" * 5001 + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"\x00", b"null", b"1", b'"x"', b"[]", b"{}" * 2, b"\xff\xfe", _DEEP, b"[" * 100_000, b'{"metadata":null}',
        b'{"metadata":[]}', b'{"metadata":{"name":1}}', b'{"metadata":{"name":"a","labels":[]}}', b'{"metadata":{"name":"a","finalizers":{}}}',
        b'{"metadata":{"name":"a","ownerReferences":[1]}}', b'{"metadata":{"name":"a","annotations":{"a":null}}}',
        b'{"metadata":{"name":"a","managedFields":[{"operation":"Update"}]}}', b'{"metadata":{"name":"a","managedFields":"x"}}',
        b'{"kind":1,"apiVersion":[]}', b'{"metadata":{"name":"\\ud800"}}', b'{"metadata":{"generateName":"\\u0000"}}',
        b'{"data":{"a":1e999}}', b'{"a":1,"a":2,"metadata":{"name":"a"}}',
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments"]
)
async def test_no_body_crashes_the_server(path: str, body: bytes) -> None:
    async with ApiServer() as server:
        made = await server.handle(
            Request("POST", "/api/v1/namespaces/default/configmaps", body=b'{"metadata":{"name":"x"}}', user=ADMIN)
        )
        assert made.status == 201
        replies: list[Reply] = []
        for kind in ("application/json", "application/yaml"):
            replies.append(await server.handle(Request("POST", path, {}, {"content-type": kind}, body, ADMIN)))
        for kind in (
            "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ):  # fmt: skip
            query = {"fieldManager": ["m"]}
            replies.append(
                await server.handle(Request("PATCH", f"{path}/x", query, {"content-type": kind}, body, ADMIN))
            )
        replies.append(await server.handle(Request("DELETE", f"{path}/y", {}, {}, body, ADMIN)))
        for reply in replies:
            assert isinstance(reply.body, bytes)
            assert b"see its log" not in reply.body


async def test_process_writes_a_private_kubeconfig_and_keeps_its_token(tmp_path: Path) -> None:
    for _ in range(2):
        serving = asyncio.create_task(process.serve(tmp_path, durable="relaxed"))
        file = tmp_path / "kubeconfig"
        async with asyncio.timeout(20):
            while not file.exists():
                assert not serving.done()
                await asyncio.sleep(0.01)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        config = yaml.safe_load(file.read_text())
        token = config["users"][0]["user"]["token"]
        assert token == (tmp_path / "admin-token").read_text()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        file.unlink()
