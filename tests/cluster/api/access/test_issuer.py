"""The issuer of service-account tokens: anyone who may can learn how to verify one."""

from __future__ import annotations

import base64
import json
from typing import Any

from modelyard.kube.builtin import ServiceAccount
from tests.cluster.api.calls import call
from tests.cluster.conftest import Api


def part(token: str, position: int) -> Any:
    text = token.split(".")[position]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


async def test_a_token_names_its_issuer_and_a_published_key(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ServiceAccount, {"metadata": {"name": "robot", "namespace": namespace}})
    path = ServiceAccount.path(namespace, "robot") + "/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await call(api, "POST", path, request)).body["status"]["token"]
    configuration = (await call(api, "GET", "/.well-known/openid-configuration")).body
    assert configuration["issuer"] == part(token, 1)["iss"]
    assert configuration["jwks_uri"].startswith("https://")
    assert configuration["jwks_uri"].endswith("/openid/v1/jwks")
    assert configuration["id_token_signing_alg_values_supported"] == [part(token, 0)["alg"]]
    assert configuration["response_types_supported"] == ["id_token"]
    assert configuration["subject_types_supported"] == ["public"]
    answer = await call(api, "GET", "/openid/v1/jwks", accept="*/*")
    assert part(token, 0)["kid"] in [key["kid"] for key in answer.body["keys"]]


async def test_service_accounts_may_read_the_keys_and_nobody_writes_them(api: Api) -> None:
    namespace = await api.namespace()
    await api.client.create(ServiceAccount, {"metadata": {"name": "robot", "namespace": namespace}})
    path = ServiceAccount.path(namespace, "robot") + "/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await call(api, "POST", path, request)).body["status"]["token"]
    response = await api.as_user(token).transport.send("GET", "/openid/v1/jwks")
    assert response.status == 200
    await response.read()
    assert (await call(api, "POST", "/openid/v1/jwks", {})).status == 405
