"""YAML that somebody else wrote: read only where its depth, its size and what its aliases make of it are bounded."""

from __future__ import annotations

from typing import Any

import yaml

MOST_DEPTH = 200
MOST_NODES = 300_000
"""How many values a document may hold, with each alias counted as all that it stands for."""


class TooMuch(yaml.YAMLError):
    """The document is too deep, or too large once its aliases are followed."""


def check(text: str | bytes) -> None:
    """Raises `TooMuch`, or another YAMLError. Reads event by event: composing recurses in C, where too much depth ends the
    process, and merge keys and aliases grow exponentially once they are followed."""
    total = 0
    open_since: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, since = open_since.pop()
            if anchor is not None:
                sizes[anchor] = total - since
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_since):
                raise TooMuch(f"anchor '{event.anchor}' value contains itself")
            total += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                open_since.append((event.anchor, total))
                if len(open_since) > MOST_DEPTH:
                    raise TooMuch(f"it is nested more than {MOST_DEPTH} levels deep")
            elif event.anchor is not None:
                sizes[event.anchor] = 1
            total += 1
        if total > MOST_NODES:
            raise TooMuch(f"document contains excessive aliasing, or more than {MOST_NODES} values")


def load(text: str | bytes) -> Any:
    """The one document of a text, as plain data. Raises YAMLError, whatever is wrong with it."""
    check(text)
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(f"a value cannot be read: {error}") from None


def compose(text: str | bytes) -> yaml.Node | None:
    """The nodes of a text. Raises YAMLError."""
    check(text)
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    return node
