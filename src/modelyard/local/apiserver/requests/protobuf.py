"""Reads Kubernetes' protobuf bodies: kubectl's typed commands (`create namespace`, `create token`, `auth can-i`) send nothing else.

Answers are always JSON, which every such client accepts. The field numbers are data, written by tools/protobuf.py.
"""

from __future__ import annotations

import base64
import gzip
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from modelyard.kube.kinds import Object
from modelyard.kube.times import format_micro_time, format_time
from modelyard.local.apiserver.wire import fields_of

_MAGIC = b"k8s\x00"
_SPECIAL_GROUPS = {"": "core", "rbac.authorization.k8s.io": "rbac"}
_SCHEMA = "apiextensions.v1.JSONSchemaProps"
_META_KINDS = frozenset(("DeleteOptions", "CreateOptions", "PatchOptions", "UpdateOptions"))
Field = tuple[int, str, str, str]
"""Number, JSON name (empty: inlined), type, flags: p for a pointer, k where JSON keeps a zero, r for repeated."""


class NotReadable(Exception):
    """No protobuf body of a kind that we know."""


def decode_protobuf(body: bytes) -> Object:
    """The object in a body, as JSON would have it."""
    if not body.startswith(_MAGIC):
        raise NotReadable("the body does not begin with Kubernetes' protobuf mark")
    try:
        envelope = dict(fields_of(body[len(_MAGIC) :]))
        names = dict(fields_of(envelope.get(1, b"")))
        api_version, kind = names.get(1, b"").decode(), names.get(2, b"").decode()
        message = _message_name(api_version, kind)
        if message not in _messages():
            raise NotReadable(f"{api_version} {kind} is not known in protobuf")
        return {"apiVersion": api_version, "kind": kind, **_read(message, envelope.get(2, b""))}
    except (IndexError, ValueError, AttributeError, TypeError, struct.error) as error:
        raise NotReadable(f"the protobuf body is damaged: {error}") from None


def _message_name(api_version: str, kind: str) -> str:
    if kind in _META_KINDS:
        return f"meta.v1.{kind}"
    group, _, version = api_version.rpartition("/")
    return f"{_SPECIAL_GROUPS.get(group) or group.partition('.')[0]}.{version}.{kind}"


@cache
def _messages() -> dict[str, list[Field]]:
    data = resources.files("modelyard.local.apiserver").joinpath("data/protobuf.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(data), type=dict[str, list[Field]])


@cache
def _by_number(message: str) -> dict[int, Field]:
    return {field[0]: field for field in _messages()[message]}


def _read(message: str, data: bytes) -> Object:
    known = _by_number(message)
    made: Object = {}
    for number, value in fields_of(data):
        field = known.get(number)
        if field is None:
            continue
        _, name, code, flags = field
        if code.startswith("{"):
            entry = dict(fields_of(value))
            made.setdefault(name, {})[entry.get(1, b"").decode()] = _value(code[1:], entry.get(2, b""))
        elif not name:
            made |= _value(code, value)
        elif "r" in flags:
            made.setdefault(name, []).append(_value(code, value))
        else:
            found = _value(code, value)
            # Go writes every field that is not a pointer, also when it is empty; JSON leaves those out.
            if "p" in flags or "k" in flags or found not in ("", 0, False):
                made[name] = found
    return made


def _value(code: str, value: Any) -> Any:
    if code.startswith("m:"):
        name = code[2:]
        # A message without a description is a named list of texts.
        return _read(name, value) if name in _messages() else [item.decode() for _, item in fields_of(value)]
    if code.startswith("or:"):
        return _schema_or_other(code, value)
    return _READERS[code](value)


def _schema_or_other(code: str, data: bytes) -> Any:
    """A part of a custom resource's schema that is a schema, or else a list of them, a truth value or a list of names."""
    schemas, others = (2, 1) if code == "or:b" else (1, 2)
    found = list(fields_of(data))
    for number, value in found:
        if number == schemas:
            return _read(_SCHEMA, value)
    values = [value for number, value in found if number == others]
    if code == "or:b":
        return bool(values and values[0])
    return [_read(_SCHEMA, value) if code == "or:r" else value.decode() for value in values]


def _integer(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _time(data: bytes, form: Callable[[datetime], str] = format_time) -> str | None:
    parts = dict(fields_of(data))
    if not parts.get(1):
        return None
    moment = datetime.fromtimestamp(_integer(parts[1]), UTC).replace(microsecond=int(parts.get(2, 0)) // 1000)
    return form(moment)


def _int_or_string(data: bytes) -> int | str:
    parts = dict(fields_of(data))
    text: bytes = parts.get(3, b"")
    return text.decode() if parts.get(1) else _integer(parts.get(2, 0))


def _quantity(data: bytes) -> str:
    return str(dict(fields_of(data)).get(1, b"0").decode())


def _raw(data: bytes) -> Any:
    content = dict(fields_of(data)).get(1, b"")
    return msgspec.json.decode(content) if content else None


def _duration(data: bytes) -> str:
    return f"{_integer(dict(fields_of(data)).get(1, 0)) / 1e9:g}s"


_READERS: dict[str, Callable[[Any], Any]] = {
    "s": lambda value: value.decode(),
    "b": bool,
    "i": _integer,
    "f": lambda value: struct.unpack("<d", value)[0],
    "y": lambda value: base64.b64encode(value).decode(),
    "time": _time,
    "micro": lambda value: _time(value, format_micro_time),
    "duration": _duration,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "raw": _raw,
}
