"""Files that people write, read within bounds: a small file must not become a large value, and a key must not stand twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 60


class BadDocument(Exception):
    """A file cannot be read as what it should be; the message is for the person who wrote it."""


def read(path: Path) -> Any:
    """The value of a YAML file."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise BadDocument(f"{path}: the file is larger than {MAX_BYTES // 2**20} MiB")
        raw = path.read_bytes()
    except OSError as error:
        raise BadDocument(f"cannot read {path}: {error.strerror}") from None
    try:
        return parse(raw)
    except BadDocument as error:
        raise BadDocument(f"{path}: {error}") from None


def parse(raw: bytes) -> Any:
    if len(raw) > MAX_BYTES:
        raise BadDocument(f"the document is larger than {MAX_BYTES // 2**20} MiB")
    try:
        text = raw.decode()
        _check_events(text)
        return yaml.load(text, Loader=_StrictLoader)
    except UnicodeDecodeError:
        raise BadDocument("the document is not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise BadDocument(f"{_place(mark) + ': ' if mark else ''}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadDocument(f"not YAML: {error}") from None


def _check_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise BadDocument(f"{_place(event.start_mark)}: YAML aliases (*name) are not allowed here")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise BadDocument(f"{_place(event.start_mark)}: nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _StrictLoader(yaml.CSafeLoader):
    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise BadDocument(f"{_place(key.start_mark)}: merge keys (<<) are not allowed here")
            if key.value in seen and isinstance(key, yaml.ScalarNode):
                raise BadDocument(f"{_place(key.start_mark)}: the key {key.value!r} stands twice")
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"
