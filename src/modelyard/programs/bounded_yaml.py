"""YAML that somebody else wrote, read within bounds: few bytes must not become a large value, or take long to look at."""

from __future__ import annotations

from typing import Any

import yaml

MOST_BYTES = 1024 * 1024
MOST_DEPTH = 60
MOST_VALUES = 100_000
"""Each alias counts as all that it stands for."""


class TooMuch(yaml.YAMLError):
    """The document is too long, too deep, or too large once its aliases are followed."""


def load(raw: bytes) -> Any:
    """The one document of a file, as plain data. Raises YAMLError, whatever is wrong with it."""
    if len(raw) > MOST_BYTES:
        raise TooMuch(f"it is longer than {MOST_BYTES // 1024} KiB")
    _check(raw)
    try:
        return yaml.load(raw, Loader=yaml.CSafeLoader)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(f"a value cannot be read: {error}") from None


def _check(raw: bytes) -> None:
    """Event by event, before anything is built: what is built of aliases and merge keys grows with each level."""
    values = 0
    under_way: list[tuple[str | None, int]] = []
    held: dict[str, int] = {}
    for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
        match event:
            case yaml.CollectionEndEvent():
                anchor, before = under_way.pop()
                if anchor is not None:
                    held[anchor] = values - before
            case yaml.AliasEvent():
                if any(anchor == event.anchor for anchor, _ in under_way):
                    raise TooMuch(f"the anchor {event.anchor} contains itself")
                values += held.get(event.anchor or "", 1)
            case yaml.CollectionStartEvent():
                under_way.append((event.anchor, values))
                values += 1
            case yaml.ScalarEvent():
                values += 1
        if len(under_way) > MOST_DEPTH:
            raise TooMuch(f"it is nested more than {MOST_DEPTH} levels deep")
        if values > MOST_VALUES:
            raise TooMuch(f"it holds more than {MOST_VALUES} values, with all that its aliases stand for")
