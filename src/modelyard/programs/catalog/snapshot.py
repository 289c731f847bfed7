"""What the catalog serves at one moment. Never changed: a reload makes another one and swaps it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from modelyard.programs.catalog.config import Asset, Config, NamedQuery, Source
from modelyard.programs.catalog.items import Item
from modelyard.programs.catalog.search import filter_options


class Status(Enum):
    """How a source fares. The value is the API's word."""

    AVAILABLE = "available"
    PARTIAL = "partially-available"
    ERROR = "error"
    DISABLED = "disabled"


@dataclass(frozen=True)
class Listed:
    """A source with what it lists now."""

    source: Source
    status: Status
    error: str = ""
    items: tuple[Item, ...] = ()


class Shelf:
    """Everything of one kind, over all sources."""

    def __init__(self, asset: Asset, sources: Mapping[str, Listed], named: Mapping[str, NamedQuery]) -> None:
        self._asset = asset
        self.named = named
        self.items = tuple(item for each in sources.values() if each.source.asset is asset for item in each.items)
        self._by_name = {(item.source, item.name): item for item in self.items}
        self._by_id = {item.id: item for item in self.items}

    def by_name(self, source: str, name: str) -> Item | None:
        return self._by_name.get((source, name))

    def by_id(self, identity: int) -> Item | None:
        return self._by_id.get(identity)

    @cached_property
    def options(self) -> Mapping[str, Any]:
        """Facets of the filter, and the named queries with their bounds put in."""
        return filter_options(self.items, self._asset, self.named)


@dataclass(frozen=True)
class Snapshot:
    config: Config = field(default_factory=Config)
    sources: Mapping[str, Listed] = field(default_factory=dict)
    problem: str = ""
    """Why the configuration files are not followed; empty where they are."""

    @cached_property
    def _shelves(self) -> dict[Asset, Shelf]:
        return {asset: Shelf(asset, self.sources, self.config.named_queries.get(asset, {})) for asset in Asset}

    def shelf(self, asset: Asset) -> Shelf:
        return self._shelves[asset]
