"""The gateway on a real TLS socket, in front of a small backend, with objects from the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.local.apiserver import ApiServer
from modelyard.local.network.gateway import Control, Gateway
from modelyard.local.network.login import COOKIE, Logins, same_site, without_session
from modelyard.runtime.cache import CacheSet
from tests.unit.local.network.certificate import server_context

BACKEND = "127.69.8.1"


class Site:
    """What a browser and a client see."""

    def __init__(self, gateway: Gateway, client: Client) -> None:
        self.gateway = gateway
        self.client = client
        jar = aiohttp.CookieJar(unsafe=True)
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), cookie_jar=jar)

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.gateway.url + path, headers=headers, allow_redirects=False) as response:
            return response.status, await response.text()


async def echo(request: web.Request) -> web.StreamResponse:
    if request.headers.get("Upgrade", "").lower() == "websocket":
        ws = web.WebSocketResponse(protocols=("chat",))
        await ws.prepare(request)
        async for message in ws:
            await ws.send_str(f"{request.headers.get('Authorization', '-')} {message.data}")
        return ws
    body = await request.text()
    said = [
        request.method,
        request.path_qs,
        request.headers.get("Authorization", "-"),
        request.headers.get("Cookie", "-"),
        body,
    ]
    return web.Response(text="|".join(said))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = web.TCPSite(runner, BACKEND, 0)
    await listener.start()
    port = runner.addresses[0][1]
    async with ApiServer() as server:
        client = server.client()
        await client.create(builtin.Namespace, {"metadata": {"name": "demo"}})
        await client.create(
            builtin.Service,
            {"metadata": {"name": "web", "namespace": "demo"}, "spec": {"ports": [{"name": "http", "port": 80}]}},
        )
        slice_ = {
            "metadata": {"name": "web-1", "namespace": "demo", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [BACKEND], "conditions": {"ready": True}}],
        }
        await client.create(builtin.EndpointSlice, slice_)
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        paths = [{"path": "/app", "pathType": "Prefix", "backend": backend}]
        await client.create(
            builtin.Ingress,
            {"metadata": {"name": "web", "namespace": "demo"}, "spec": {"rules": [{"http": {"paths": paths}}]}},
        )
        caches = CacheSet(server.client())
        gateway = Gateway(server.client(), caches, tmp_path, server_context(tmp_path))
        await gateway.start()
        gateway.serve([builtin.Ingress])
        await caches.wait_synced()
        one = Site(gateway, client)
        yield one
        await one.session.close()
        await gateway.close()
        await caches.stop()
    await runner.cleanup()


async def test_an_ingress_is_served_with_path_query_and_token(site: Site) -> None:
    status, text = await site.get("/app/x%20y?q=1%262", Authorization="Bearer mine")
    assert (status, text) == (200, "GET|/app/x%20y?q=1%262|Bearer mine|-|")


async def test_a_body_is_passed_on(site: Site) -> None:
    async with site.session.post(site.gateway.url + "/app", data=b"x" * 300_000) as response:
        assert (await response.text()).endswith("|" + "x" * 300_000)


async def test_an_unknown_path_lists_what_there_is(site: Site) -> None:
    status, text = await site.get("/nope")
    assert status == 404
    assert f"{site.gateway.url}/app   (Ingress/demo/web)" in text


async def test_a_login_link_works_once_and_the_cookie_stands_for_the_token(site: Site) -> None:
    link = site.gateway.login_link("secret-token", "/app/home")
    path = link.removeprefix(site.gateway.url)
    async with site.session.get(link, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/app/home")
        cookie = response.cookies[COOKIE]
        assert cookie["httponly"]
        assert cookie["secure"]
    assert await site.get("/app/home") == (200, "GET|/app/home|Bearer secret-token|-|")
    assert (await site.get(path))[0] == 403


async def test_a_token_of_the_request_wins_over_the_cookie(site: Site) -> None:
    await site.session.get(site.gateway.login_link("of-the-cookie"))
    assert "|Bearer own|" in (await site.get("/app", Authorization="Bearer own"))[1]


async def test_a_foreign_page_cannot_use_the_login(site: Site) -> None:
    await site.session.get(site.gateway.login_link("t"))
    async with site.session.post(site.gateway.url + "/app", headers={"Origin": "https://evil.example"}) as response:
        assert response.status == 403
    async with site.session.post(site.gateway.url + "/app", headers={"Origin": site.gateway.url}) as response:
        assert response.status == 200


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example"])
async def test_a_login_link_leads_nowhere_else(site: Site, target: str) -> None:
    async with site.session.get(site.gateway.login_link("t", target), allow_redirects=False) as response:
        assert response.headers["Location"] == "/"


async def test_links_are_made_for_whoever_has_the_secret_of_the_directory(site: Site, tmp_path: Path) -> None:
    control = Control.read(tmp_path)
    assert control is not None
    assert (tmp_path / "gateway.json").stat().st_mode & 0o077 == 0
    headers = {"Authorization": f"Bearer {control.secret}"}
    async with site.session.post(
        f"{control.url}/_modelyard/links", json={"token": "t", "next": "/app"}, headers=headers
    ) as response:
        link = (await response.json())["url"]
    assert (await site.get(link.removeprefix(control.url)))[0] == 303
    async with site.session.post(f"{control.url}/_modelyard/links", json={"token": "t"}) as response:
        assert response.status == 401


async def test_websockets_pass_through(site: Site) -> None:
    await site.session.get(site.gateway.login_link("t"))
    async with site.session.ws_connect(site.gateway.url + "/app/ws", protocols=("chat",)) as ws:
        assert ws.protocol == "chat"
        await ws.send_str("hello")
        assert await ws.receive_str() == "Bearer t hello"


async def test_a_backend_without_ready_endpoints_is_503_with_its_name(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelyard.local.network.gateway._HOLD", 0.1)
    await site.client.delete(builtin.EndpointSlice, "demo", "web-1")
    for _ in range(100):
        status, text = await site.get("/app")
        if status == 503:
            break
        await asyncio.sleep(0.02)
    assert (status, text) == (503, "no ready endpoint behind Ingress/demo/web\n")


async def test_an_ingress_says_where_it_is_served(site: Site) -> None:
    port = int(site.gateway.url.rpartition(":")[2])
    for _ in range(100):
        found = await site.client.get(builtin.Ingress, "demo", "web")
        if (found.get("status") or {}).get("loadBalancer"):
            break
        await asyncio.sleep(0.02)
    expected = [{"hostname": "localhost", "ports": [{"port": port, "protocol": "TCP"}]}]
    assert found["status"]["loadBalancer"]["ingress"] == expected


def test_sessions_end_and_codes_are_good_once() -> None:
    now = [0.0]
    logins = Logins(lambda: now[0])
    code = logins.issue("t")
    session = logins.redeem(code)
    assert session is not None
    assert logins.token(session) == "t"
    assert logins.redeem(code) is None
    late = logins.issue("t")
    now[0] = 700.0
    assert logins.redeem(late) is None
    now[0] = 13 * 3600.0
    assert logins.token(session) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [(f"a=1; {COOKIE}=x; b=2", "a=1; b=2"), (f"{COOKIE}=x", None), ("a=1", "a=1")],
)
def test_the_backend_does_not_see_our_cookie(header: str, expected: str | None) -> None:
    assert without_session(header) == expected


def test_origins_are_compared_with_the_host() -> None:
    assert same_site("https://localhost:8443", "localhost:8443")
    assert not same_site("https://localhost:1", "localhost:8443")
