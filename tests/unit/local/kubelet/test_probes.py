"""One probe each, against real sockets: what passes, and what is said when it does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from modelyard.kube.kinds import Object
from modelyard.local.kubelet.probes import Outcome, Target, check
from tests.unit.kube.certificates import issue, server_context

HOST = "127.68.1.1"


class Server:
    port = 0
    tls_port = 0
    seen: list[dict[str, str]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    one = Server()
    one.seen = []

    async def answer(request: web.Request) -> web.Response:
        one.seen.append({name.lower(): value for name, value in request.headers.items()})
        if request.path == "/slow":
            await asyncio.sleep(5)
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "http://127.68.1.1:1/"})
        return web.Response(status=int(request.query.get("status", "200")), text="body")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    await web.TCPSite(
        runner, HOST, 0, ssl_context=server_context(tmp_path, issue("localhost", hosts=("localhost",)))
    ).start()
    one.port, one.tls_port = (address[1] for address in runner.addresses)
    yield one
    await runner.cleanup()


async def run_nothing(command: Sequence[str], timeout: float) -> tuple[int, str]:
    match command[0]:
        case "ok":
            return 0, "fine"
        case "bad":
            return 1, "it is bad\n"
    raise TimeoutError


@pytest.fixture
async def target(server: Server) -> AsyncIterator[Target]:
    async with aiohttp.ClientSession() as session:
        yield Target(HOST, {"http": server.port, "https": server.tls_port}, run_nothing, session)


def closed_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ({"path": "/x", "port": "http"}, Outcome(True, "body")),
        ({"path": "x?status=204", "port": "http"}, Outcome(True, "")),
        ({"path": "/moved", "port": "http"}, Outcome(True, "")),
        ({"path": "/x", "port": "https", "scheme": "HTTPS"}, Outcome(True, "body")),
        (
            {"path": "/?status=500", "port": "https", "scheme": "HTTPS"},
            Outcome(False, "HTTP probe failed with statuscode: 500"),
        ),
        ({"path": "/?status=404", "port": "http"}, Outcome(False, "HTTP probe failed with statuscode: 404")),
        ({"path": "/?status=503", "port": "http"}, Outcome(False, "HTTP probe failed with statuscode: 503")),
        ({"path": "/", "port": "nope"}, Outcome(False, "couldn't find port: nope", error=True)),
    ],
)
async def test_http_probes(target: Target, action: Object, expected: Outcome) -> None:
    assert await check({"httpGet": action}, target) == expected


async def test_an_http_probe_sends_the_kubelets_headers_and_those_of_the_spec(server: Server, target: Target) -> None:
    headers = [{"name": "X-Who", "value": "me"}, {"name": "Host", "value": "app.example"}]
    await check({"httpGet": {"port": server.port, "httpHeaders": headers}}, target)
    sent = server.seen[0]
    assert (sent["x-who"], sent["host"]) == ("me", "app.example")
    assert sent["user-agent"].startswith("kube-probe/")


async def test_a_closed_port_says_connection_refused(target: Target) -> None:
    port = closed_port()
    refused = f"dial tcp {HOST}:{port}: connect: connection refused"
    assert await check({"tcpSocket": {"port": port}}, target) == Outcome(False, refused)
    assert await check({"httpGet": {"path": "/", "port": port}}, target) == Outcome(
        False, f'Get "http://{HOST}:{port}/": {refused}'
    )


async def test_a_slow_answer_is_a_timeout(server: Server, target: Target) -> None:
    found = await check({"httpGet": {"path": "/slow", "port": "http"}, "timeoutSeconds": 0.1}, target)
    url = f"http://{HOST}:{server.port}/slow"
    assert found.output == f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'


async def test_tcp_and_exec_probes(server: Server, target: Target) -> None:
    assert await check({"tcpSocket": {"port": "http"}}, target) == Outcome(True)
    assert await check({"exec": {"command": ["ok"]}}, target) == Outcome(True, "fine")
    assert await check({"exec": {"command": ["bad"]}}, target) == Outcome(False, "it is bad\n")
    assert not (await check({"exec": {"command": ["hang"]}, "timeoutSeconds": 3}, target)).success
