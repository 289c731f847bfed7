"""Compiled expressions with conversions put in: where a rule reads a date from a field, the field holds text."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.local.apiserver.wire import field, fields_of, integer_field

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
            out += integer_field(number, value)
            if message == _EXPR and number == 2:
                identity = value
            continue
        kind = inside.get(number)
        out += field(number, _rewrite(value, kind, wrapped) if kind else value)
    if message == _EXPR and identity in wrapped:
        call = field(2, wrapped[identity].encode()) + field(3, bytes(out))
        return integer_field(2, _FIRST_NEW_ID + identity) + field(6, call)
    return bytes(out)
