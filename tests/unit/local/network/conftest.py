"""A gateway on a real TLS socket, in front of a small backend that tells what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.network.doors import ServiceToken
from modelyard.local.network.gateway import Gateway
from modelyard.local.network.published import Published
from modelyard.local.platform import crd_of
from modelyard.runtime.caching.caches import CacheSet
from tests.unit.kube.certificates import issue, server_context

BACKEND = "127.69.8.1"
WEB = "Ingress/demo/web"
HTML = {"Accept": "text/html"}


class Site:
    """What a browser and a client see."""

    def __init__(self, gateway: Gateway, client: Client, port: int) -> None:
        self.gateway = gateway
        self.client = client
        self.backend_port = port
        jar = aiohttp.CookieJar()
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False, resolver=ToLoopback()), cookie_jar=jar
        )

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.url(path), headers=headers, allow_redirects=False) as response:
            return response.status, await response.text()

    def url(self, path: str) -> str:
        return path if path.startswith("https:") else self.gateway.url + path

    async def log_in(self, source: str = "", path: str = "") -> str:
        """Opens a login link; gives the origin where the login counts."""
        link = self.gateway.doors.link(source, path)
        assert link is not None
        async with self.session.get(link, allow_redirects=False) as response:
            assert response.status == 303
        parts = urlsplit(link)
        return f"{parts.scheme}://{parts.netloc}"

    async def publish(self, name: str, namespace: str) -> None:
        """A Service whose endpoint is the backend."""
        spec = {"ports": [{"name": "http", "port": 80}]}
        await self.client.create(builtin.Service, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
        slice_ = {
            "metadata": {"name": f"{name}-1", "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": self.backend_port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [BACKEND], "conditions": {"ready": True}}],
        }
        await self.client.create(builtin.EndpointSlice, slice_)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(250):
            if await condition():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("it did not come")


class ToLoopback(aiohttp.abc.AbstractResolver):
    """What browsers do with names below localhost; other names lead here as those of a rebound DNS would."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[aiohttp.abc.ResolveResult]:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        pass


def ingress(name: str, namespace: str, path: str, service: str = "web", host: str = "") -> Object:
    backend = {"service": {"name": service, "port": {"number": 80}}}
    rule: Object = {"http": {"paths": [{"path": path, "pathType": "Prefix", "backend": backend}]}}
    if host:
        rule["host"] = host
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"rules": [rule]}}


def http_route(name: str, namespace: str, path: str, backend: Object) -> Object:
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": [{"port": 80, **backend}]}
    return {
        "apiVersion": builtin.HTTPRoute.api_version,
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"parentRefs": [{"name": "g"}], "rules": [rule]},
    }


async def echo(request: web.Request) -> web.StreamResponse:
    if request.headers.get("Upgrade", "").lower() == "websocket":
        ws = web.WebSocketResponse(protocols=("chat",))
        await ws.prepare(request)
        async for message in ws:
            await ws.send_str(f"{request.headers.get('Authorization', '-')} {message.data}")
        return ws
    if request.path.endswith("/headers"):
        return web.json_response({name.lower(): value for name, value in request.headers.items()})
    if request.path.endswith("/hostile"):
        hostile = {
            "Set-Cookie": f"{request.query['cookie']}=stolen; Path=/; Secure",
            "Strict-Transport-Security": "max-age=1",
            "Service-Worker-Allowed": "/",
            "X-Own": "1",
        }
        return web.Response(text="", headers=hostile)
    if request.path.endswith("/private"):
        return web.Response(status=401, text="who are you?")
    body = await request.text()
    said = [
        request.method,
        request.path_qs,
        request.headers.get("Authorization", "-"),
        request.headers.get("Cookie", "-"),
        body,
    ]
    return web.Response(text="|".join(said))


async def access(one: Published) -> ServiceToken:
    return ServiceToken(f"for-{one.namespace}-{one.name}", 3600)


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
        for name in ("demo", "other"):
            await client.create(builtin.Namespace, {"metadata": {"name": name}})
        for kind in (builtin.HTTPRoute, builtin.ReferenceGrant):
            await client.create(builtin.CustomResourceDefinition, crd_of(kind))
        caches = CacheSet(server.client())
        gateway = Gateway(
            server.client(),
            caches,
            tmp_path,
            server_context(tmp_path, issue("localhost", hosts=("localhost",))),
            access,
        )
        await gateway.start()
        one = Site(gateway, client, port)
        await one.publish("web", "demo")
        await one.publish("web", "other")
        await client.create(builtin.Ingress, ingress("web", "demo", "/app"))
        while not {builtin.HTTPRoute, builtin.ReferenceGrant} <= await client.discover():
            await asyncio.sleep(0.01)
        gateway.serve([builtin.Ingress, builtin.HTTPRoute, builtin.ReferenceGrant])
        await caches.wait_synced()
        yield one
        await one.session.close()
        await gateway.close()
        await caches.stop()
    await runner.cleanup()
