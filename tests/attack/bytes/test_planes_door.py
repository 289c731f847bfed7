"""What anybody can send to the plane's webhooks, and what the logs of the servers keep of what was sent to them."""

from __future__ import annotations

import gzip
import json
import logging

import aiohttp
import pytest

from modelyard.kube.builtin import Namespace, ServiceAccount
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.webhooks import Webhook, Webhooks, WebhookServer
from modelyard.runtime.webhooks.server import LARGEST_BODY
from tests.accounts import token_of
from tests.attack.bytes.confined import CONFIG_MAPS, request

REVIEW = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE"}}'
BODIES = [
    pytest.param(gzip.compress(REVIEW), "gzip", 400, id="packed"),
    pytest.param(gzip.compress(b"[" * 300_000_000), "gzip", 400, id="a packed bomb"),
    pytest.param(b"[" * 1_000_000, "", 400, id="deep"),
    pytest.param(b'{"a":' * 500_000, "", 400, id="deep objects"),
    pytest.param(b"x" * (LARGEST_BODY + 1), "", 413, id="too long"),
    pytest.param(REVIEW, "", 200, id="a review"),
]


@pytest.mark.parametrize(("body", "packed", "status"), BODIES)
async def test_the_planes_webhooks_refuse_what_they_cannot_read(
    body: bytes, packed: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = WebhookServer(
        Webhooks([Webhook("w", "validating", "/v", lambda asked: None)]), None, host="127.0.0.1", port=0
    )
    port = await server.start()
    try:
        headers = {"Content-Encoding": packed} if packed else {}
        async with aiohttp.ClientSession() as session:
            async with session.post(f"http://127.0.0.1:{port}/v", data=body, headers=headers) as answer:
                assert answer.status == status
                assert len(await answer.text()) < 1000
    finally:
        await server.stop()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_no_log_of_the_api_server_holds_a_token(caplog: pytest.LogCaptureFixture) -> None:
    """Not of a good one, not of a bad one, wherever a client puts it, and not of a Secret's content."""
    with caplog.at_level(logging.DEBUG):
        async with ApiServer() as server:
            client = server.client()
            await client.create(Namespace, {"metadata": {"name": "own"}})
            await client.create(ServiceAccount, {"metadata": {"name": "a", "namespace": "own"}})
            good = await token_of(client, "own", "a")
            bad = good[:-20] + "x" * 20
            secret = {"metadata": {"name": "s", "namespace": "own"}, "stringData": {"a": "a-hushed-word"}, "odd": 1}
            asked = [
                request("GET", CONFIG_MAPS, headers={"authorization": f"Bearer {token}"}, user=None)
                for token in (good, bad)
            ]
            asked.append(request("GET", CONFIG_MAPS, query={"access_token": [good], "limit": [bad]}))
            asked.append(request("POST", "/api/v1/namespaces/own/secrets", json.dumps(secret).encode()))
            asked.append(
                request(
                    "POST", "/apis/authentication.k8s.io/v1/tokenreviews", json.dumps({"spec": {"token": bad}}).encode()
                )
            )
            statuses = [(await server.handle(each)).status for each in asked]
    assert statuses == [403, 401, 400, 201, 201]
    said = "\n".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.records)
    for hidden in (good, bad, good.split(".")[2], "a-hushed-word"):
        assert hidden not in said
