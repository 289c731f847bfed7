"""The JSONPath of printer columns: fields, indices, slices, wildcards, filters and `..`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""\.\.(?P<deep>\w+)
      | \.(?P<field>(?:\\.|[^.\[\]\\])+)
      | \[\s*'(?P<quoted>(?:[^'\\]|\\.)*)'\s*\]
      | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
      | \[\?\((?P<filter>.*?)\)\]
      | \[(?P<all>\*)\]
      | \[(?P<index>-?\d+)\]
      | \[(?P<slice>-?\d*:-?\d*(?::-?\d+)?)\]""",
    re.VERBOSE,
)
_COMPARISON = re.compile(r"^\s*(@[^=!<>]*?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*$")


class PathError(ValueError):
    """A path that cannot be read."""


@lru_cache(maxsize=512)
def compile_path(text: str) -> Callable[[Any], list[Any]]:
    """A function that finds the values at a path. Missing fields give no value. Raises PathError."""
    steps = list(_steps(text))

    def find(value: Any) -> list[Any]:
        found = [value]
        for step in steps:
            found = [below for item in found for below in step(item)]
        return found

    return find


def _steps(text: str) -> Iterator[Step]:
    text = text.strip().removeprefix("$")
    position = 0
    if text in (".", "@", ""):
        return
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise PathError(f"{text}: cannot read {text[position:]!r}")
        position = match.end()
        kind = match.lastgroup or ""
        value = match[kind]
        if kind == "deep":
            yield _deep(value)
        elif kind in ("field", "quoted", "double"):
            name = re.sub(r"\\(.)", r"\1", value)
            yield _wildcard if kind == "field" and name == "*" else _field(name)
        elif kind == "filter":
            yield _filter(value)
        elif kind == "all":
            yield _wildcard
        elif kind == "index":
            yield _index(int(value))
        else:
            yield _slice(value)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(text: str) -> Step:
    parts = [int(part) if part else None for part in text.split(":")]
    window = slice(*parts)

    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[window]

    return step


def _wildcard(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _deep(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            if name in value:
                yield value[name]
            for child in value.values():
                yield from step(child)
        elif isinstance(value, list):
            for child in value:
                yield from step(child)

    return step


def _filter(text: str) -> Step:
    match = _COMPARISON.match(text)
    if match is None:
        exists = compile_path(text.strip().removeprefix("@"))
        return lambda value: (item for item in _members(value) if exists(item))
    path, operator, wanted = compile_path(match[1].removeprefix("@")), match[2], _literal(match[3])

    def step(value: Any) -> Iterator[Any]:
        for item in _members(value):
            found = path(item)
            if found and _compare(found[0], operator, wanted):
                yield item

    return step


def _members(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, dict) else []


def _literal(text: str) -> Any:
    if text[:1] in "'\"" and text[-1:] == text[:1]:
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _compare(value: Any, operator: str, wanted: Any) -> bool:
    if type(value) is not type(wanted) and not (isinstance(value, (int, float)) and isinstance(wanted, (int, float))):
        return False
    match operator:
        case "==":
            return bool(value == wanted)
        case "!=":
            return bool(value != wanted)
        case "<":
            return bool(value < wanted)
        case "<=":
            return bool(value <= wanted)
        case ">":
            return bool(value > wanted)
    return bool(value >= wanted)


def printed(value: Any) -> str:
    """A value as a column of type string shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
