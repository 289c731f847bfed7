"""A tenant before a proxy that guards a service: nothing passes that nobody allowed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from modelyard.kube.builtin import Namespace, Role, RoleBinding, ServiceAccount, SubjectAccessReview, TokenReview
from modelyard.kube.client import Client
from modelyard.local.apiserver import ApiServer
from modelyard.programs.access_proxy import Gate, Proxy, parse
from modelyard.programs.reverse_proxy import upstream_session
from tests.accounts import token_of

REWRITTEN = {
    "authorization": {
        "rewrites": {"byQueryParameter": {"name": "namespace"}},
        "resourceAttributes": {"resource": "services", "namespace": "{{ .Value }}"},
    }
}


class Reviews:
    """Questions to the API server of this test."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def review(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        kinds = {each.kind: each for each in (TokenReview, SubjectAccessReview)}
        answer = await self._client.create(kinds[kind], {"spec": dict(spec)})
        status: dict[str, Any] = answer["status"]
        return status


async def _backend(request: web.Request) -> web.Response:
    return web.Response(text=f"reached as {request.headers.get('X-Remote-User', 'nobody')}")


@asynccontextmanager
async def proxied(config: dict[str, Any], *arguments: str) -> AsyncIterator[tuple[str, str]]:
    """The address of a proxy in front of a backend, and the token of an account that may get Services in `own`."""
    app = web.Application()
    app.router.add_get("/{path:.*}", _backend)
    async with ApiServer() as server, TestServer(app) as backend, upstream_session() as session:
        client = server.client()
        for name in ("own", "victim"):
            await client.create(Namespace, {"metadata": {"name": name}})
        place = {"name": "tenant", "namespace": "own"}
        await client.create(ServiceAccount, {"metadata": place})
        rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}]
        await client.create(Role, {"metadata": place, "rules": rules})
        subjects = [{"kind": "ServiceAccount", **place}]
        await client.create(
            RoleBinding, {"metadata": place, "roleRef": {"kind": "Role", "name": "tenant"}, "subjects": subjects}
        )
        options = parse(["--insecure-listen-address=:1", f"--upstream={backend.make_url('')}", *arguments])
        proxy = Proxy(options, Gate(Reviews(client), config, []), session)
        front = web.Application()
        front.router.add_route("*", "/{path:.*}", proxy.handle)
        async with TestServer(front) as served:
            yield str(served.make_url("")).rstrip("/"), await token_of(client, "own", "tenant")


async def get(url: str, token: str = "", **headers: str) -> tuple[int, str]:
    sent = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers={**sent, **headers}) as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?namespace=own", 200),
        ("?namespace=victim", 403),
        ("", 400),
        ("?Namespace=own", 400),
        ("?namespace=own&namespace=victim", 403),
        ("?namespace=", 403),
    ],
)
async def test_with_rewrites_nothing_passes_without_a_value_or_with_another(query: str, status: int) -> None:
    async with proxied(REWRITTEN) as (url, token):
        found, text = await get(f"{url}/{query}", token)
    assert found == status, text
    assert ("reached" in text) == (status == 200)


async def test_a_tenant_cannot_say_who_it_is_on_a_path_where_nobody_is_asked() -> None:
    arguments = ("--ignore-paths=/healthz", "--auth-header-fields-enabled")
    async with proxied(REWRITTEN, *arguments) as (url, _):
        assert await get(f"{url}/healthz", **{"X-Remote-User": "admin"}) == (200, "reached as nobody")


async def test_a_star_in_an_ignored_path_does_not_reach_below() -> None:
    async with proxied(REWRITTEN, "--ignore-paths=/public/*") as (url, _):
        assert (await get(f"{url}/public/logo"))[0] == 200
        assert (await get(f"{url}/public/a/secret"))[0] == 401
        assert (await get(f"{url}/public/..%2fsecret"))[0] == 401
