"""Bodies in Kubernetes' protobuf, as Go clients send them for every built-in kind."""

from __future__ import annotations

import base64
import itertools
import os
from typing import Any

from tests.cluster.api.access.test_certificates import pem_request
from tests.cluster.api.calls import call
from tests.cluster.conftest import Api

PROTOBUF = "application/vnd.kubernetes.protobuf"
_numbers = itertools.count(1)


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def message(*fields: tuple[int, str | bytes | int]) -> bytes:
    """Fields by number; texts and messages have a length, numbers have none."""
    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            made += varint(number << 3 | 2) + varint(len(data)) + data
    return made


def body(api_version: str, kind: str, obj: bytes) -> bytes:
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, obj))


async def create(api: Api, path: str, sent: bytes) -> dict[str, Any]:
    answer = await call(api, "POST", path, sent, type=PROTOBUF)
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.body
    return made


async def test_a_namespace(api: Api) -> None:
    name = f"proto-{os.getpid()}-{next(_numbers)}"
    sent = body("v1", "Namespace", message((1, message((1, name), (11, message((1, "team"), (2, "ml")))))))
    made = await create(api, "/api/v1/namespaces", sent)
    assert (made["metadata"]["name"], made["metadata"]["labels"]["team"]) == (name, "ml")


async def test_a_signing_request(api: Api) -> None:
    name, request = f"proto-{os.getpid()}-{next(_numbers)}", base64.b64decode(pem_request())
    spec = message((1, request), (7, "example.com/signer"), (8, 3600), (5, "client auth"), (5, "digital signature"))
    sent = body("certificates.k8s.io/v1", "CertificateSigningRequest", message((1, message((1, name))), (2, spec)))
    made = await create(api, "/apis/certificates.k8s.io/v1/certificatesigningrequests", sent)
    assert made["spec"]["usages"] == ["client auth", "digital signature"]
    assert made["spec"]["expirationSeconds"] == 3600


async def test_a_runtime_class(api: Api) -> None:
    name = f"proto-{os.getpid()}-{next(_numbers)}"
    sent = body("node.k8s.io/v1", "RuntimeClass", message((1, message((1, name))), (2, "fast")))
    assert (await create(api, "/apis/node.k8s.io/v1/runtimeclasses", sent))["handler"] == "fast"


async def test_a_custom_resource_definition(api: Api) -> None:
    """Its schema has parts that are a schema or something else, and values of any form."""
    number = f"{os.getpid()}p{next(_numbers)}"
    plural, group, kind = f"protos{number}", f"p{number}.example.com", f"Proto{number}"
    text = message((5, "string"), (8, message((1, '"a"'))), (20, message((1, '"a"'))), (20, message((1, '"b"'))))
    rule = message((1, "self.size() > 0"), (2, "must not be empty"))
    listed = message((5, "array"), (24, message((1, message((5, "string"))))), (44, rule))
    table = message((5, "object"), (30, message((2, message((5, "integer"))))))
    free = message((5, "object"), (30, message((1, 1))))
    properties = [(29, message((1, name), (2, schema))) for name, schema in
                  (("text", text), ("listed", listed), ("table", table), ("free", free))]  # fmt: skip
    root = message((5, "object"), *properties)
    version = message((1, "v1"), (2, 1), (3, 1), (4, message((1, root))), (5, message((1, b""))))
    names = message((1, plural), (2, plural[:-1]), (4, kind), (5, f"{kind}List"))
    spec = message((1, group), (3, names), (4, "Namespaced"), (7, version))
    sent = body(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        message((1, message((1, f"{plural}.{group}"))), (2, spec)),
    )
    made = await create(api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", sent)
    [version_made] = made["spec"]["versions"]
    assert version_made["subresources"] == {"status": {}}
    assert version_made["schema"]["openAPIV3Schema"]["properties"] == {
        "text": {"type": "string", "default": "a", "enum": ["a", "b"]},
        "listed": {
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-validations": [{"rule": "self.size() > 0", "message": "must not be empty"}],
        },
        "table": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "additionalProperties": True},
    }
