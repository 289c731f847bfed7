"""Custom properties: the six kinds of values, how they are checked, and what of them a filter can see."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from modelyard.programs.web import ApiError

STRING, INTEGER, DOUBLE, BOOLEAN = 1, 2, 3, 4
"""The numbers of the value types in the database."""
MAX_KEY = 255
_INTEGER = re.compile(r"-?(?:[1-9][0-9]{0,8}|0)")

Properties = dict[str, dict[str, Any]]
PropertyValue = tuple[str, int, str | None, float | None]
"""Name, type, text, number."""


def checked(value: object) -> Properties:
    """The map as it is stored and answered; 400 with the key's name for anything that the public clients could not read back."""
    if not isinstance(value, dict):
        raise ApiError(400, "customProperties: expected an object that maps names to values")
    return {key: _value(key, given) for key, given in value.items()}


def _value(key: str, given: object) -> dict[str, Any]:
    where = f"customProperties[{key[:80]!r}]"
    if len(key) > MAX_KEY:
        raise ApiError(400, f"{where}: the name is longer than {MAX_KEY} characters")
    if not isinstance(given, dict):
        raise ApiError(400, f"{where}: expected an object with metadataType")
    kind = given.get("metadataType")
    if not isinstance(kind, str) or kind not in _CHECKS:
        said = "metadataType is missing" if kind is None else f"unknown metadataType {kind!r}"
        raise ApiError(400, f"{where}: {said}; expected one of {', '.join(_CHECKS)}")
    member, check = _CHECKS[kind]
    if member not in given:
        raise ApiError(400, f"{where}: {member} is missing")
    made: dict[str, Any] = {"metadataType": kind, member: check(given[member], f"{where}.{member}")}
    if kind == "MetadataProtoValue":
        made["type"] = _string(given.get("type"), f"{where}.type")
    return made


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ApiError(400, f"{where}: expected a string")
    return value


def _integer(value: object, where: str) -> str:
    if not isinstance(value, str) or not _INTEGER.fullmatch(value):
        raise ApiError(400, f'{where}: expected a string with a whole number of at most nine digits, for example "42"')
    return value


def _double(value: object, where: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ApiError(400, f"{where}: expected a number")
    try:
        fits = math.isfinite(float(value))
    except OverflowError:
        fits = False
    if not fits:
        raise ApiError(400, f"{where}: the number is too large")
    return value


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ApiError(400, f"{where}: expected true or false")
    return value


def _base64(value: object, where: str) -> str:
    text = _string(value, where)
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{where}: it is not base64") from None
    return text


def _struct(value: object, where: str) -> str:
    text = _base64(value, where)
    try:
        inner = json.loads(base64.b64decode(text))
    except (ValueError, RecursionError):
        inner = None
    if not isinstance(inner, dict):
        raise ApiError(400, f"{where}: expected the base64 of a JSON object")
    return text


_CHECKS = {
    "MetadataStringValue": ("string_value", _string),
    "MetadataIntValue": ("int_value", _integer),
    "MetadataDoubleValue": ("double_value", _double),
    "MetadataBoolValue": ("bool_value", _boolean),
    "MetadataStructValue": ("struct_value", _struct),
    "MetadataProtoValue": ("proto_value", _base64),
}


def searchable(properties: Properties) -> Iterator[PropertyValue]:
    """What filters compare: texts, numbers and booleans; structures and messages have no comparison."""
    for key, value in properties.items():
        match value["metadataType"]:
            case "MetadataStringValue":
                yield key, STRING, value["string_value"], None
            case "MetadataIntValue":
                yield key, INTEGER, None, float(value["int_value"])
            case "MetadataDoubleValue":
                yield key, DOUBLE, None, float(value["double_value"])
            case "MetadataBoolValue":
                yield key, BOOLEAN, None, float(value["bool_value"])
