"""Certificate signing requests: who asked is recorded, what was asked for stays, approval and certificate come by their own doors."""

from __future__ import annotations

import base64
import itertools
import os
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from modelyard.kube.errors import Invalid
from modelyard.kube.kinds import Kind, Object
from tests.cluster.conftest import Api

REQUEST = Kind("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False)
APPROVED = {"type": "Approved", "status": "True", "reason": "Test", "message": "fine"}
_numbers = itertools.count(1)


def pem_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "someone")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(Encoding.PEM)).decode()


def signing_request(**spec: Any) -> Object:
    wanted = {"request": pem_request(), "signerName": "example.com/signer", "usages": ["client auth"]} | spec
    return {"metadata": {"name": f"request-{os.getpid()}-{next(_numbers)}"}, "spec": wanted}


async def test_the_request_says_who_made_it(api: Api) -> None:
    made = await api.client.create(REQUEST, signing_request(username="somebody-else", groups=["wheel"]))
    assert made["spec"]["username"] != "somebody-else"
    assert "system:authenticated" in made["spec"]["groups"]
    assert "wheel" not in made["spec"]["groups"]


async def test_what_was_asked_for_never_changes(api: Api) -> None:
    made = await api.client.create(REQUEST, signing_request())
    name = made["metadata"]["name"]
    change = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"usages": ["server auth"]},
        "status": {"conditions": [APPROVED]},
    }
    changed = await api.client.patch(REQUEST, "", name, change)
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert (changed["spec"], changed["status"]) == (made["spec"], {})


async def test_approval_and_certificate(api: Api) -> None:
    name = (await api.client.create(REQUEST, signing_request()))["metadata"]["name"]
    with pytest.raises(Invalid, match='may not add a condition of type "Approved"'):
        await api.client.patch(REQUEST, "", name, {"status": {"conditions": [APPROVED]}}, subresource="status")
    approved = await api.client.patch(
        REQUEST, "", name, {"status": {"conditions": [APPROVED], "certificate": "eA=="}}, subresource="approval"
    )
    [condition] = approved["status"]["conditions"]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"]
    assert "certificate" not in approved["status"]
    with pytest.raises(Invalid, match='may not remove a condition of type "Approved"'):
        await api.client.patch(REQUEST, "", name, {"status": {"conditions": []}}, subresource="approval")
    denied = APPROVED | {"type": "Denied"}
    with pytest.raises(Invalid, match="must specify at most one of: "):
        await api.client.patch(
            REQUEST, "", name, {"status": {"conditions": [APPROVED, denied]}}, subresource="approval"
        )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"request": "eA=="}, "spec.request: Invalid value"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["nothing"]}, 'spec.usages[0]: Unsupported value: "nothing"'),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed via this API version"),
        (
            {"signerName": "plain"},
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        ({"expirationSeconds": 60}, "may not specify a duration less than 600 seconds (10 minutes)"),
    ],
)  # fmt: skip
async def test_a_request_that_cannot_be_signed_is_refused(api: Api, spec: Object, message: str) -> None:
    with pytest.raises(Invalid) as refused:
        await api.client.create(REQUEST, signing_request(**spec))
    assert message in str(refused.value)
