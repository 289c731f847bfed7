"""Protobuf's wire format: the fields of a message, read and written without its definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LONGEST_NUMBER = 63


class Fixed(bytes):
    """A field of four or eight bytes, as doubles are written."""


def fields_of(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field, in order: an int, or bytes for all else. `ValueError` or `IndexError` where it is none."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _number(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, position = _number(data, position)
            yield number, value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, Fixed(data[position : position + size])
            position += size
        elif kind == 2:
            size, position = _number(data, position)
            if position + size > end:
                raise ValueError("a field is longer than the message")
            yield number, data[position : position + size]
            position += size
        else:
            raise ValueError(f"wire type {kind} is not in use")


def _number(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result, position
        shift += 7
        if shift > _LONGEST_NUMBER:
            raise ValueError("a number is too long")


def integer_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def field(number: int, content: bytes) -> bytes:
    """A text, a nested message, or a fixed number."""
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
