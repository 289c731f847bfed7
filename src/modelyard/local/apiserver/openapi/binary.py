"""OpenAPI version 2 in its binary form, as far as kubectl reads it: that writes of any kind may ask for field validation.

kubectl takes everything else from version 3. It asks for this one when it meets a kind that it cannot find there."""

from __future__ import annotations

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def wants_binary(accept: str) -> bool:
    return "proto-openapi.spec.v2" in accept


def binary_document(version: str) -> bytes:
    """A document with one operation: patch a namespace, with the parameter `fieldValidation`."""
    query = _text(2, "query") + _text(4, "fieldValidation") + _text(6, "string")
    parameter = _part(1, _part(2, _part(3, query)))
    kind = _text(1, "x-kubernetes-group-version-kind") + _part(2, _text(2, 'group: ""\nkind: Namespace\nversion: v1\n'))
    operation = _text(5, "patchCoreV1Namespace") + _part(8, parameter) + _part(13, kind)
    path = _text(1, "/api/v1/namespaces/{name}") + _part(2, _part(8, operation))
    info = _text(1, "Kubernetes") + _text(2, version)
    return _text(1, "2.0") + _part(2, info) + _part(8, _part(2, path))


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode())


def _part(number: int, content: bytes) -> bytes:
    """One field of a protobuf message: a text or a nested message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
