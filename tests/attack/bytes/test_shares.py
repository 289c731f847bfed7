"""A flood of one client takes that client's share of the server: everybody else's requests are answered in between."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Coroutine
from typing import Any

import aiohttp
import pytest

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, ConfigMap
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.messages import Reply, UserInfo
from modelyard.local.apiserver.requests.turns import Turns
from modelyard.local.apiserver.sockets import http
from tests.attack.bytes.confined import CONFIG_MAPS, request
from tests.attack.bytes.test_bodies import PODS

TENANT = UserInfo("tenant", groups=("system:authenticated",))


async def everything_for_the_tenant(server: ApiServer) -> None:
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await server.client().create(ClusterRole, {"metadata": {"name": "flood"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flood"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]
    binding = {"metadata": {"name": "flood"}, "roleRef": reference, "subjects": subjects}
    await server.client().create(ClusterRoleBinding, binding)


async def answered_before(flood: list[asyncio.Task[Reply]], other: Coroutine[Any, Any, Reply]) -> int:
    """How many requests of the flood were answered when the other one was."""
    # A task, so that it comes after those of the flood.
    assert (await asyncio.create_task(other)).status in (200, 201)
    done = sum(task.done() for task in flood)
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    return done


async def test_a_flood_of_lists_does_not_hold_up_a_read_of_somebody_else() -> None:
    async with ApiServer() as server:
        await everything_for_the_tenant(server)
        for number in range(300):
            body = {"metadata": {"name": f"c{number}", "namespace": "default"}, "data": {"a": "x" * 1000}}
            await server.client().create(ConfigMap, body)
        asked = request(
            "GET", CONFIG_MAPS, headers={"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, user=TENANT
        )
        flood = [asyncio.create_task(server.handle(asked)) for _ in range(150)]
        assert await answered_before(flood, server.handle(request("GET", CONFIG_MAPS + "/c1"))) < 50


async def test_a_flood_of_large_bodies_does_not_hold_up_a_write_of_somebody_else() -> None:
    pods = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[%s]}}'
    large = (pods % ",".join(['{"name":"a","image":"b"}'] * 12_000)).encode()
    small = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"small"}}'
    async with ApiServer() as server:
        await everything_for_the_tenant(server)
        flood = [asyncio.create_task(server.handle(request("POST", PODS, large, user=TENANT))) for _ in range(20)]
        assert await answered_before(flood, server.handle(request("POST", CONFIG_MAPS, small))) < 4


async def test_large_bodies_of_two_clients_take_turns() -> None:
    data = ",".join(f'"k{number}":"v"' for number in range(30_000))
    large = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"large"}},"data":{{{data}}}}}'.encode()
    async with ApiServer() as server:
        await everything_for_the_tenant(server)
        flood = [
            asyncio.create_task(server.handle(request("POST", CONFIG_MAPS, large, user=TENANT))) for _ in range(20)
        ]
        await asyncio.sleep(0)
        named = large.replace(b'"large"', b'"mine"')
        assert await answered_before(flood, server.handle(request("POST", CONFIG_MAPS, named))) < 8


async def test_whoever_waits_and_goes_away_loses_nobody_a_turn() -> None:
    turns = Turns()
    assert turns.take("a") is None
    turns._since -= 1.0
    first, second = turns.take("a"), turns.take("a")
    assert first is not None
    assert second is not None
    first.cancel()
    async with asyncio.timeout(10):
        await second


async def test_requests_that_never_get_complete_are_bounded_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_HELD", 2_000_000)
    async with ApiServer() as server:
        server.admit_token("the-token")
        url = await server.listen()
        context = ssl.create_default_context(cadata=server.root_certificate())
        port = int(url.rpartition(":")[2])
        head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n".encode()
        held = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
            writer.write(head + b"x" * 200_000)
            held.append((reader, writer))
        async with asyncio.timeout(30):
            assert await held[0][0].read() == b""
        body = json.dumps({"metadata": {"name": "c"}, "data": {"a": "x" * 500_000}})
        headers = {"Authorization": "Bearer the-token", "Content-Type": "application/json"}
        async with aiohttp.ClientSession() as session:
            async with session.post(url + CONFIG_MAPS, data=body, headers=headers, ssl=context) as answer:
                assert answer.status == 201
        for _, writer in held:
            writer.transport.abort()
