"""Input that no client of good will sends: it is refused by name, and leaves no traceback in the log."""

from __future__ import annotations

import base64
import logging

import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.messages import Request
from tests.attack.bytes.confined import CONFIG_MAPS, request

ONE = CONFIG_MAPS + "/kube-root-ca.crt"
DIGITS = "9" * 4301


def bearer(token: str) -> Request:
    return request("GET", CONFIG_MAPS, headers={"authorization": f"Bearer {token}"}, user=None)


def continued(raw: bytes) -> Request:
    return request("GET", CONFIG_MAPS, query={"continue": [base64.urlsafe_b64encode(raw).decode()]})


def deep_claims() -> str:
    return base64.urlsafe_b64encode(b'{"a":' + b"[" * 30_000).decode() + ".b.c"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        pytest.param(bearer("é"), 401, id="a bearer that is not ASCII"),
        pytest.param(bearer("\udcff.b.c"), 401, id="a bearer that is not UTF-8"),
        pytest.param(bearer(deep_claims()), 401, id="a token with a deep head"),
        pytest.param(request("GET", CONFIG_MAPS, query={"resourceVersion": [DIGITS]}), 400, id="a long version"),
        pytest.param(request("GET", CONFIG_MAPS, query={"resourceVersion": ["٣"]}), 400, id="digits of another script"),
        pytest.param(request("GET", CONFIG_MAPS, query={"limit": [DIGITS]}), 400, id="a long limit"),
        pytest.param(request("GET", CONFIG_MAPS, query={"timeoutSeconds": ["9" * 30]}), 400, id="a long timeout"),
        pytest.param(request("DELETE", ONE, query={"gracePeriodSeconds": [DIGITS]}), 400, id="a long grace period"),
        pytest.param(continued(b"[" * 50_000), 400, id="a deep continue token"),
        pytest.param(continued(b'{"v":"meta.k8s.io/v1","rv":' + b"1" * 5000 + b"}"), 400, id="a long continue token"),
        pytest.param(continued(b"\xff"), 400, id="a continue token that is not UTF-8"),
        pytest.param(request("POST", CONFIG_MAPS, b"["), 400, id="half of a list"),
        pytest.param(request("POST", CONFIG_MAPS, b"a: !!bool x", "application/yaml"), 400, id="no bool"),
    ],
)
async def test_odd_input_is_refused_by_name(asked: Request, status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with ApiServer() as server:
        with caplog.at_level(logging.WARNING):
            reply = await server.handle(asked)
    assert reply.status == status
    assert not caplog.records


async def test_a_version_beyond_all_is_said_to_be_out_of_range() -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"prey","resourceVersion":"%s"}}'
    async with ApiServer() as server:
        await server.client().create(ConfigMap, {"metadata": {"name": "prey", "namespace": "default"}})
        for asked in (
            request("GET", ONE, query={"resourceVersion": [DIGITS]}),
            request("PUT", CONFIG_MAPS + "/prey", body % DIGITS.encode()),
        ):
            reply = await server.handle(asked)
            assert isinstance(reply.body, bytes)
            assert b"value out of range" in reply.body


@pytest.mark.parametrize("text", ["1:30", "190:20:30", "190:20:30.15", "59:" * 999 + "59"])
async def test_what_only_yaml_1_1_takes_for_a_number_is_a_text(text: str) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: six}}\ndata: {{a: {text}}}\n".encode()
    async with ApiServer() as server:
        reply = await server.handle(request("POST", CONFIG_MAPS, body, "application/yaml"))
        assert reply.status == 201
        assert isinstance(reply.body, bytes)
        assert f'"a":"{text}"'.encode() in reply.body
