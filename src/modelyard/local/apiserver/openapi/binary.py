"""OpenAPI version 2 in its binary form, as far as kubectl reads it: that writes of any kind may ask for field validation.

kubectl takes everything else from version 3. It asks for this one when it meets a kind that it cannot find there."""

from __future__ import annotations

from modelyard.local.apiserver.wire import field

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def wants_binary(accept: str) -> bool:
    return "proto-openapi.spec.v2" in accept


def binary_document(version: str) -> bytes:
    """A document with one operation: patch a namespace, with the parameter `fieldValidation`."""
    query = _text(2, "query") + _text(4, "fieldValidation") + _text(6, "string")
    parameter = field(1, field(2, field(3, query)))
    kind = _text(1, "x-kubernetes-group-version-kind") + field(2, _text(2, 'group: ""\nkind: Namespace\nversion: v1\n'))
    operation = _text(5, "patchCoreV1Namespace") + field(8, parameter) + field(13, kind)
    path = _text(1, "/api/v1/namespaces/{name}") + field(2, field(8, operation))
    info = _text(1, "Kubernetes") + _text(2, version)
    return _text(1, "2.0") + field(2, info) + field(8, field(2, path))


def _text(number: int, text: str) -> bytes:
    return field(number, text.encode())
