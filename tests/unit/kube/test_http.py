"""The transport over sockets: trust, credentials, and failures said for people."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest
from aiohttp import web

from modelyard.kube.auth import Credential, Static
from modelyard.kube.builtin import Pod
from modelyard.kube.client import REQUEST_TIMEOUT, Client
from modelyard.kube.errors import Unauthorized, Unreachable
from modelyard.kube.http import Endpoint, HttpTransport
from tests.unit.kube.certificates import Pair, issue, server_context
from tests.unit.kube.recording_api import RecordingApi


class Rotating:
    """Credentials whose token is another one after each refusal."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    async def current(self) -> Credential:
        return Credential(f"Bearer {self.tokens[0]}")

    async def refused(self, used: Credential) -> bool:
        if len(self.tokens) > 1:
            self.tokens.pop(0)
            return True
        return False


async def only(*, allowed: str) -> RecordingApi:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") == f"Bearer {allowed}":
            return web.json_response({"metadata": {"name": "web"}})
        return web.json_response(
            {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}, status=401
        )

    return RecordingApi([answer])


async def get(endpoint: Endpoint, credential: Credential = Credential(), timeout: float = REQUEST_TIMEOUT) -> None:
    async with Client(HttpTransport(endpoint, Static(credential)), timeout=timeout) as client:
        await client.get(Pod, "shop", "web")


async def test_401_refreshes_the_credentials_and_retries_once() -> None:
    api = await only(allowed="new")
    async with api.serving() as url:
        async with Client(HttpTransport(Endpoint(url), Rotating("old", "new"))) as client:
            await client.get(Pod, "shop", "web")
    assert [asked.headers["Authorization"] for asked in api.asked] == ["Bearer old", "Bearer new"]


async def test_refused_token_says_what_to_do() -> None:
    api = await only(allowed="other")
    async with api.serving() as url:
        with pytest.raises(Unauthorized, match=r"refused our credentials .*log in again"):
            await get(Endpoint(url), Credential("Bearer wrong"))
    assert len(api.asked) == 1


async def test_impersonation_headers_are_sent() -> None:
    api = RecordingApi()
    async with api.serving() as url:
        await get(Endpoint(url), Credential(impersonation=(("Impersonate-User", "ann"),)))
    assert api.asked[0].headers["Impersonate-User"] == "ann"


async def test_nothing_is_compressed_on_loopback() -> None:
    api = RecordingApi()
    async with api.serving() as url:
        await get(Endpoint(url))
    assert api.asked[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://127.0.0.1:1", True),
        ("https://127.8.8.8", True),
        ("https://localhost:6443", True),
        ("https://[::1]:6443", True),
        ("https://10.0.0.1", False),
        ("https://api.example.org", False),
    ],
)
def test_loopback_is_recognised(server: str, expected: bool) -> None:
    assert Endpoint(server).loopback is expected


async def test_refused_connection() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match=rf"nothing listens at http://127.0.0.1:{port} \(connection refused\)"):
        await get(Endpoint(f"http://127.0.0.1:{port}"))


async def test_name_that_does_not_resolve() -> None:
    with pytest.raises(Unreachable, match=r"the name of https://no-such-host.invalid:6443 cannot be resolved"):
        await get(Endpoint("https://no-such-host.invalid:6443"))


async def test_server_that_does_not_answer_in_time() -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with RecordingApi([slow]).serving() as url:
        with pytest.raises(Unreachable, match="did not answer in time"):
            await get(Endpoint(url), timeout=0.1)


async def test_server_that_closes_without_an_answer() -> None:
    async def rude(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with RecordingApi([rude]).serving() as url:
        with pytest.raises(Unreachable, match=r"closed the connection|cannot be reached"):
            await get(Endpoint(url))


async def test_server_that_speaks_no_tls() -> None:
    async with RecordingApi().serving() as url:
        with pytest.raises(Unreachable, match="does not speak TLS"):
            await get(Endpoint(url.replace("http:", "https:")))


@pytest.fixture(scope="module")
def authority() -> Pair:
    return issue("test authority")


async def test_trusted_authority_and_client_certificate(tmp_path: Path, authority: Pair) -> None:
    async def who(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        subject = dict(part[0] for part in request.transport.get_extra_info("peercert")["subject"])
        assert subject == {"commonName": "joe"}
        return web.json_response({})

    server = issue("server", authority, hosts=("127.0.0.1",))
    user = issue("joe", authority)
    async with RecordingApi([who]).serving(server_context(tmp_path, server, client_ca=authority)) as url:
        await get(Endpoint(url, ca=authority.pem), Credential(certificate=user.pem, key=user.key_pem))


async def test_certificate_of_an_unknown_authority(tmp_path: Path, authority: Pair) -> None:
    server = issue("server", issue("someone else"), hosts=("127.0.0.1",))
    async with RecordingApi().serving(server_context(tmp_path, server)) as url:
        with pytest.raises(Unreachable, match=r"is not trusted: .*check certificate-authority-data"):
            await get(Endpoint(url, ca=authority.pem))


async def test_expired_certificate(tmp_path: Path, authority: Pair) -> None:
    server = issue("server", authority, hosts=("127.0.0.1",), days=-1)
    async with RecordingApi().serving(server_context(tmp_path, server)) as url:
        with pytest.raises(Unreachable, match="is not trusted: certificate has expired"):
            await get(Endpoint(url, ca=authority.pem))


async def test_certificate_for_another_name_needs_tls_server_name(tmp_path: Path, authority: Pair) -> None:
    server = issue("server", authority, hosts=("kubernetes",))
    async with RecordingApi().serving(server_context(tmp_path, server)) as url:
        with pytest.raises(Unreachable, match="tls-server-name"):
            await get(Endpoint(url, ca=authority.pem))
        await get(Endpoint(url, ca=authority.pem, tls_server_name="kubernetes"))


async def test_insecure_asks_for_no_trust(tmp_path: Path) -> None:
    server = issue("server", issue("someone else"), hosts=("elsewhere",))
    async with RecordingApi().serving(server_context(tmp_path, server)) as url:
        await get(Endpoint(url, insecure=True))


async def test_broken_certificates_are_named(authority: Pair) -> None:
    with pytest.raises(Unreachable, match=r"certificate authority given for .* is not a PEM"):
        await get(Endpoint("https://127.0.0.1:1", ca="nonsense"))
    other = issue("other", authority)
    credential = Credential(certificate=issue("joe", authority).pem, key=other.key_pem)
    with pytest.raises(Unreachable, match="do not fit together"):
        await get(Endpoint("https://127.0.0.1:1", ca=authority.pem), credential)


async def test_proxy_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(Unreachable, match=r"the proxy http://127.0.0.1:1 .*cannot be reached"):
        await get(Endpoint("http://10.255.255.1", proxy="http://127.0.0.1:1"))


async def test_requests_go_through_the_proxy() -> None:
    proxy = RecordingApi([{"metadata": {"name": "through"}}])
    async with proxy.serving() as url:
        async with Client(HttpTransport(Endpoint("http://api.invalid", proxy=url))) as client:
            assert (await client.get(Pod, "shop", "web"))["metadata"]["name"] == "through"


async def test_requests_wait_for_their_turn_and_streams_do_not_count() -> None:
    running, most = 0, 0

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal running, most
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b'{"type":"ADDED","object":{}}\n')
            await asyncio.Event().wait()
            return response
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return web.json_response({})

    async with RecordingApi([slow]).serving() as url:
        async with Client(HttpTransport(Endpoint(url), concurrency=2)) as client:
            watches = [client.watch(Pod, resource_version="1") for _ in range(5)]
            await asyncio.gather(*(anext(watch) for watch in watches))
            started = time.monotonic()
            await asyncio.gather(*(client.get(Pod, "shop", "web") for _ in range(8)))
            assert time.monotonic() - started < 5
            for watch in watches:
                await watch.aclose()
    assert most == 2
