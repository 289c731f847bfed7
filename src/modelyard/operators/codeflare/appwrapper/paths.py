"""Paths into a component (`template.spec.template`), and whether what they lead to is a pod template. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.schema import Schema, definition

ROOT = "template"
_INDEX = re.compile(r"\d+", re.ASCII).fullmatch


class BadPath(ValueError):
    """A path that leads nowhere, or to something else than a pod template; the message says where."""


def find(template: Object, path: str) -> Any:
    """What a path leads to."""
    value: Any = template
    if path != ROOT and not path.startswith((f"{ROOT}.", f"{ROOT}[")):
        raise BadPath("first element of the path must be 'template'")
    done, rest = ROOT, path.removeprefix(ROOT)
    while rest:
        if rest.startswith("."):
            name = re.split(r"[.\[]", rest[1:], maxsplit=1)[0]
            value = _field(value, name, done)
            step = f".{name}"
        elif rest.startswith("["):
            end = rest.find("]")
            if end < 0:
                raise _at(done, f"invalid index expression '{rest}'")
            value = _item(value, rest[1:end], done)
            step = rest[: end + 1]
        else:
            raise _at(done, f"invalid path element '{rest}'")
        done, rest = done + step, rest[len(step) :]
    return value


def _field(value: Any, name: str, done: str) -> Any:
    if not isinstance(value, dict):
        raise _at(done, "non-map value")
    if name not in value:
        raise _at(done, f"missing field '{name}'")
    return value[name]


def _item(value: Any, index: str, done: str) -> Any:
    if not _INDEX(index):
        raise _at(done, f"invalid array index '{index}'")
    if not isinstance(value, list):
        raise _at(done, "found non-array value")
    if int(index) >= len(value):
        raise _at(done, f"out of bounds index '{index}'")
    return value[int(index)]


def _at(done: str, said: str) -> BadPath:
    return BadPath(f"at path position '{done}' {said}")


def pod_template(template: Object, path: str) -> Object:
    """The pod template that a path leads to."""
    value = find(template, path)
    if not isinstance(value, dict):
        raise _at(path, "non-map value")
    spec = value.get("spec")
    if not isinstance(spec, dict):
        raise BadPath(f"content at {path} does not contain a spec")
    if wrong := next(_misfits(spec, definition("core.v1.PodSpec"), ""), None):
        raise BadPath(f"content at {path}.spec not parseable as a v1.PodSpec: {wrong}")
    return value


def _misfits(value: Any, schema: Schema, at: str) -> Iterator[str]:
    """Fields that there are not, and values of a wrong type."""
    if value is None or schema.preserve_unknown:
        return
    if schema.type == "object":
        if not isinstance(value, dict):
            yield f"{at or 'it'} must be a mapping"
            return
        for name, each in value.items():
            below = schema.child(name)
            if below is None:
                yield f'unknown field "{at}{"." if at else ""}{name}"'
            else:
                yield from _misfits(each, below, f"{at}{'.' if at else ''}{name}")
    elif schema.type == "array":
        if not isinstance(value, list):
            yield f"{at} must be a list"
            return
        for position, item in enumerate(value):
            if schema.items is not None:
                yield from _misfits(item, schema.items, f"{at}[{position}]")
    elif not _is_scalar(value, schema):
        yield f"{at} must be {_ARTICLES.get(schema.type, 'a plain value')}"


_ARTICLES = {"integer": "a whole number", "number": "a number", "string": "a text", "boolean": "true or false"}


def _is_scalar(value: Any, schema: Schema) -> bool:
    if schema.is_plain or not schema.type:
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    match schema.type:
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return isinstance(value, str)
