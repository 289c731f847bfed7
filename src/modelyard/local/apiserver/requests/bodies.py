"""Reading request bodies: JSON, YAML and protobuf into plain objects, with limits on size and depth, and duplicate keys found."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.messages import JSON
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.requests.protobuf import NotReadable, decode_protobuf
from modelyard.local.apiserver.storage.store import encode

MOST_BYTES = 3 * 1024 * 1024
LARGE = 256 * 1024
MOST_DEPTH = 200
MOST_CONTAINERS = 100_000
"""How many objects and lists a body may hold: each of them is looked at many times on its way to the disk."""
MOST_DUPLICATES = 1000
_SHOWN = 30
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

_decoder = msgspec.json.Decoder()
_POSITION = re.compile(r"byte (\d+)")


class RepeatedLine(str):
    """A key that a YAML body gives twice, told by its line; JSON's are told by their paths."""


class Unreadable(Exception):
    """The text is not JSON or YAML; the message says where."""


def repeated(lines: Sequence[str]) -> str:
    """Keys given twice in a YAML body, as one error."""
    return "\n  ".join(["yaml: unmarshal errors:", *lines])


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def check_size(body: bytes) -> None:
    if len(body) > MOST_BYTES:
        raise problems.too_large(f"limit is {MOST_BYTES}")


def unsupported(accepted: Sequence[str], given: str = "") -> Problem:
    """415. For protobuf it names the setting that makes a client send JSON."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    if "protobuf" in given:
        message += (
            '; this protobuf body cannot be read here: set the client\'s content type to "application/json" '
            "(client-go: rest.Config.ContentType and AcceptContentTypes)"
        )
    return problems.unsupported_media_type(message)


def decode_body(body: bytes, content_type: str) -> tuple[Any, list[str]]:
    """The value of a JSON or YAML body, and the paths of keys given twice. Raises Unreadable, or a Problem for other types."""
    kind = media_type(content_type)
    if not kind or kind == JSON:
        return decode_json(body)
    if kind in (YAML, "application/x-yaml", "text/yaml", "application/apply-patch+yaml"):
        return decode_yaml(body)
    if kind == PROTOBUF:
        try:
            return decode_protobuf(body), []
        except NotReadable:
            raise unsupported((JSON, YAML), kind) from None
    raise unsupported((JSON, YAML, PROTOBUF), kind)


def decode_json(body: bytes) -> tuple[Any, list[str]]:
    try:
        value = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"json parse error: {_json_error(error, body)}") from None
    _check_depth(body, value)
    # A key given twice vanishes in decoding. Only where the counts differ it is worth looking for it.
    if body.count(b'":') != encode(value).count(b'":') or b"\\u0022" in body:
        return value, _duplicates(body)
    return value, []


def _duplicates(body: bytes) -> list[str]:
    """The paths of keys that are given twice, the first of them only: an answer names no more."""
    left = MOST_DUPLICATES

    def paths(pairs: list[tuple[str, Any]]) -> Any:
        # Inner objects come first; each hands its findings up, relative to itself.
        nonlocal left
        names: dict[str, Any] = {}
        mine: list[str] = []
        for name, value in pairs:
            if name in names and left:
                left -= 1
                mine.append(name)
            names[name] = value
            if type(value) is _Found or type(value) is list:
                mine.extend(f"{name}{path}" for path in _handed_up(value))
        return _Found(mine)

    return [path.removeprefix(".") for path in _handed_up(json.loads(body, object_pairs_hook=paths))]


class _Found(list[str]):
    """The duplicate keys below one object."""


def _handed_up(value: Any) -> list[str]:
    if isinstance(value, _Found):
        return [f".{path}" for path in value]
    if isinstance(value, list):
        return [
            f"[{index}]{path}"
            for index, item in enumerate(value)
            if type(item) is _Found or type(item) is list
            for path in _handed_up(item)
        ]
    return []


def _check_depth(body: bytes, value: Any) -> None:
    if body.count(b"{") + body.count(b"[") <= MOST_DEPTH:
        return
    level = [value]
    depth = seen = 0
    while level:
        depth += 1
        seen += len(level)
        if seen > MOST_CONTAINERS:
            raise problems.too_large(f"the body holds more than {MOST_CONTAINERS} objects and lists")
        if depth > MOST_DEPTH:
            raise Unreadable(f"it is nested more than {MOST_DEPTH} levels deep")
        nested: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                nested.extend(v for v in item.values() if isinstance(v, (dict, list)))
            elif isinstance(item, list):
                nested.extend(v for v in item if isinstance(v, (dict, list)))
        level = nested


def decode_yaml(body: bytes) -> tuple[Any, list[str]]:
    if body.lstrip()[:1] in (b"{", b"["):
        try:
            value, duplicates = decode_json(body)
            return _whole_numbers(value) if _FRACTION.search(body) else value, duplicates
        except Unreadable:
            pass
    # Loaded with the first body that is not JSON.
    from modelyard.local.apiserver.requests.yaml_bodies import decode

    value, duplicates = decode(body)
    return _whole_numbers(value), duplicates


_FRACTION = re.compile(rb"[0-9][.eE]")


def _whole_numbers(value: Any) -> Any:
    """On its way through YAML a number like 2.0 becomes 2."""
    if type(value) is float and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if type(value) is dict:
        return {key: _whole_numbers(one) for key, one in value.items()}
    if type(value) is list:
        return [_whole_numbers(one) for one in value]
    return value


def summary(body: bytes) -> str:
    """How error messages quote a body that could not be read."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SHOWN else ""
    text = body[:_SHOWN].decode(errors="replace") if body.startswith(b"{") else body[:_SHOWN].hex()
    return text + more


_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def untyped(value: Any) -> str:
    """Why kind and apiVersion cannot be read off a body, in the words of Go's decoder; empty where they can."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"json: cannot unmarshal {_JSON_NAMES[type(value)]} into Go value of type {_TYPE_META}"
    for name in ("apiVersion", "kind"):
        given = value.get(name)
        if given is not None and not isinstance(given, str):
            return f"json: cannot unmarshal {_JSON_NAMES[type(given)]} into Go struct field .{name} of type string"
    return ""


def _json_error(error: Exception, body: bytes) -> str:
    """What is wrong with a JSON text, in the words of Go's decoder."""
    text = str(error)
    if isinstance(error, RecursionError):
        return "exceeded max depth"
    if "truncated" in text:
        return "unexpected end of JSON input"
    if found := _POSITION.search(text):
        char = chr(body[int(found[1])]) if int(found[1]) < len(body) else ""
        return f"invalid character {char!r} looking for beginning of value"
    return text
