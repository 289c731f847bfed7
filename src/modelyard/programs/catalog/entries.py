"""From a catalog's document to the items of its source: what is listed, what is left out and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from modelyard.programs.catalog.config import Asset, Source
from modelyard.programs.catalog.documents import BadDocument
from modelyard.programs.catalog.items import BadEntry, Item, UnknownKey, agent, mcp_server, model

_LISTS: dict[Asset, tuple[str, set[str] | None, Callable[[Any, str], Item]]] = {
    Asset.MODELS: ("models", {"source", "models"}, model),
    Asset.MCP_SERVERS: ("mcp_servers", None, mcp_server),
    Asset.AGENTS: ("agents", None, agent),
}
"""For each kind the name of its list, the keys that may stand beside it (None: any), and what makes an item."""
MOST_PROBLEMS = 10


@dataclass(frozen=True)
class Entries:
    items: tuple[Item, ...] = ()
    problems: tuple[str, ...] = ()
    """A sentence for each entry that is left out."""

    @property
    def error(self) -> str:
        said = "; ".join(self.problems[:MOST_PROBLEMS])
        more = len(self.problems) - MOST_PROBLEMS
        return f"{said}; and {more} more" if more > 0 else said


def read_entries(content: Any, source: Source) -> Entries:
    """The items that the source's patterns admit. Raises `BadDocument` for what is not such a document."""
    items: dict[int, Item] = {}
    problems = []
    _, _, make = _LISTS[source.asset]
    for entry in listed(content, source.asset):
        if not _admitted(entry, source):
            continue
        try:
            item = make(entry, source.id)
            _check_answer(item)
        except UnknownKey as error:
            raise BadDocument(str(error)) from None
        except BadEntry as error:
            problems.append(str(error))
            continue
        if item.id in items:
            problems.append(f"{item.name!r} stands twice; the first one is listed")
        else:
            items[item.id] = item
    return Entries(tuple(items.values()), tuple(problems))


def listed(content: Any, asset: Asset) -> list[Any]:
    """The raw entries of a document."""
    if asset not in _LISTS:
        raise BadDocument(f"catalogs of {asset.value} cannot be read from a file")
    key, beside, _ = _LISTS[asset]
    if content is None:
        return []
    if not isinstance(content, dict):
        raise BadDocument(f"expected a map with the key {key}")
    for name in content:
        if beside is not None and name not in beside:
            raise BadDocument(f"unknown key {name!r}; expected {key}")
    entries = content.get(key)
    if entries is not None and not isinstance(entries, list):
        raise BadDocument(f"{key}: expected a list")
    return entries or []


def names(content: Any, asset: Asset) -> Iterator[str]:
    """The names of a document's entries, in its order."""
    for entry in listed(content, asset):
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and name:
            yield name


def _admitted(entry: Any, source: Source) -> bool:
    name = entry.get("name") if isinstance(entry, dict) else None
    return not isinstance(name, str) or source.admits(name)


def _check_answer(item: Item) -> None:
    """Free parts of an entry may hold what JSON cannot."""
    try:
        msgspec.json.encode([item.doc, item.parts, [artifact.doc for artifact in item.artifacts]])
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise BadEntry(f"{item.name!r} holds a value that JSON cannot: {error}") from None
