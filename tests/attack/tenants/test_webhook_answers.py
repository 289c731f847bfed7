"""What a webhook answers is read to its end: a long denial is a denial, also where failures are ignored."""

from __future__ import annotations

import base64
import ssl

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from modelyard.kube.builtin import ConfigMap, ValidatingWebhookConfiguration
from modelyard.kube.errors import ApiError
from modelyard.kube.times import utc_now
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.tls.certificates import issue, make_ca
from modelyard.runtime.tls.pairs import load


@pytest.mark.parametrize("size", [60_000, 900_000])
async def test_a_long_denial_is_not_passed_over(size: int) -> None:
    async def deny(request: web.Request) -> web.Response:
        asked = await request.json()
        said = {"uid": asked["request"]["uid"], "allowed": False, "status": {"message": "no" + "!" * size}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said})

    app = web.Application(client_max_size=2**24)
    app.router.add_post("/deny", deny)
    ca = make_ca(utc_now())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, issue(ca, ["127.0.0.1"], utc_now()))
    webhook = TestServer(app, scheme="https")
    await webhook.start_server(ssl=context)
    try:
        async with ApiServer() as server:
            url = f"https://127.0.0.1:{webhook.port}/deny"
            hook = {
                "name": "deny.attack.example.com",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(ca.certificate).decode()},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
                ],
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            client = server.client()
            await client.create(ValidatingWebhookConfiguration, {"metadata": {"name": "deny"}, "webhooks": [hook]})
            with pytest.raises(ApiError, match="denied the request: no!"):
                await client.create(ConfigMap, {"metadata": {"name": "a", "namespace": "default"}})
    finally:
        await webhook.close()
