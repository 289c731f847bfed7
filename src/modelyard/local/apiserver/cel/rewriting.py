"""Compiled expressions with conversions put in: where a rule reads a date from a field, the field holds text."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.local.apiserver.cel.syntax import Fixed, fields_of

_FIRST_NEW_ID = 1_000_000
_EXPR = "expr"

# For each message: which fields hold which messages on the way to expressions.
_INSIDE: dict[str, dict[int, str]] = {
    "any": {2: "checked"},
    "checked": {4: _EXPR},
    _EXPR: {5: "select", 6: "call", 7: "list", 8: "struct", 9: "comprehension"},
    "select": {1: _EXPR},
    "call": {1: _EXPR, 3: _EXPR},
    "list": {1: _EXPR},
    "struct": {2: "entry"},
    "entry": {3: _EXPR, 4: _EXPR},
    "comprehension": {2: _EXPR, 4: _EXPR, 5: _EXPR, 6: _EXPR, 7: _EXPR},
}


def wrap_calls(serialised: bytes, wrapped: Mapping[int, str]) -> bytes:
    """The serialised expression with each of the given sub-expressions (by id) made the argument of a function."""
    return _rewrite(serialised, "any", wrapped)


def _rewrite(data: bytes, message: str, wrapped: Mapping[int, str]) -> bytes:
    inside = _INSIDE[message]
    out = bytearray()
    identity = 0
    for number, value in fields_of(data):
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
            if message == _EXPR and number == 2:
                identity = value
            continue
        kind = inside.get(number)
        out += _field(number, _rewrite(value, kind, wrapped) if kind else value)
    if message == _EXPR and identity in wrapped:
        call = _field(2, wrapped[identity].encode()) + _field(3, bytes(out))
        return _varint(2 << 3) + _varint(_FIRST_NEW_ID + identity) + _field(6, call)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    if isinstance(content, Fixed):
        return _varint(number << 3 | (1 if len(content) == 8 else 5)) + content
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
