"""One request as the endpoints see it, and what the lists of all kinds share: search, sources, filter, order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from modelyard.programs.catalog.config import Asset
from modelyard.programs.catalog.items import Artifact, Item
from modelyard.programs.catalog.lists import is_descending, name_key, page, words
from modelyard.programs.catalog.search import artifact_matches, best_accuracy, check, matches, ordered
from modelyard.programs.catalog.snapshot import Shelf, Snapshot
from modelyard.programs.filter_query import Query as Filter
from modelyard.programs.filter_query import parse
from modelyard.programs.web import ApiError, Query

_ITEM_ORDERS: Mapping[str, Callable[[Item], Any]] = {
    "NAME": lambda item: name_key(item.name),
    "ID": lambda item: item.id,
    "CREATE_TIME": lambda item: item.fields.get("createTimeSinceEpoch"),
    "LAST_UPDATE_TIME": lambda item: item.fields.get("lastUpdateTimeSinceEpoch"),
}
MODEL_ORDERS = {**_ITEM_ORDERS, "ACCURACY": best_accuracy}
_ARTIFACT_ORDERS: Mapping[str, Callable[[Artifact], Any]] = {
    "NAME": lambda artifact: name_key(str(artifact.fields["name"])) if "name" in artifact.fields else None,
    "ID": lambda artifact: artifact.id,
    "CREATE_TIME": lambda artifact: artifact.fields.get("createTimeSinceEpoch"),
    "LAST_UPDATE_TIME": lambda artifact: artifact.fields.get("lastUpdateTimeSinceEpoch"),
}


@dataclass(frozen=True)
class Call:
    request: web.BaseRequest
    query: Query
    snapshot: Snapshot
    parts: tuple[str, ...] = ()
    """What stands in the path where the endpoint has names."""

    def shelf(self, asset: Asset) -> Shelf:
        return self.snapshot.shelf(asset)

    def filter(self, *, artifacts: bool = False) -> Filter | None:
        query = parse(self.query.get("filterQuery") or "")
        if query is not None:
            check(query, artifacts=artifacts)
        return query

    def found(self, asset: Asset) -> list[Item]:
        """The items that the parameters of every list let through."""
        sources, query = self._sources(asset), self.filter()
        searched, name = (self.query.get("q") or "").lower(), (self.query.get("name") or "").lower()
        return [
            item
            for item in self.shelf(asset).items
            if (sources is None or item.source in sources)
            and searched in item.searched
            and (asset is Asset.MODELS or name in item.name.lower())
            and (query is None or matches(item, query))
        ]

    def _sources(self, asset: Asset) -> set[str] | None:
        """The sources that `source` or `sourceLabel` name; None: all."""
        ids, labels = words(self.query, "source"), words(self.query, "sourceLabel")
        if ids and labels:
            raise ApiError(400, "source and sourceLabel cannot be used together: name one of them")
        if not ids and not labels:
            return None
        if ids:
            return set(ids)
        wanted = {label.lower() for label in labels}
        return {
            each.source.id
            for each in self.snapshot.sources.values()
            if each.source.asset is asset
            and (
                {label.lower() for label in each.source.labels or ()} & wanted
                or ("null" in wanted and not each.source.labels)
            )
        }

    def list_items(
        self,
        items: Iterable[Item],
        *,
        default: str,
        show: Callable[[Item], Any] = lambda item: item.doc,
        orders: Mapping[str, Callable[[Item], Any]] = _ITEM_ORDERS,
    ) -> dict[str, Any]:
        descending = is_descending(self.query)
        order = self.query.get("orderBy") or default
        rows = ordered(items, order, descending, default=default, words=orders)
        return page(
            rows, self.query, *self._about(), order, descending=descending, identity=lambda row: row.id, show=show
        )

    def list_artifacts(self, artifacts: Sequence[Artifact]) -> dict[str, Any]:
        """A page of artifacts, in the order of their file where no other is asked for."""
        descending, order = is_descending(self.query), self.query.get("orderBy") or ""
        rows: Sequence[tuple[Any, Artifact]]
        if order:
            rows = ordered(artifacts, order, descending, default="ID", words=_ARTIFACT_ORDERS)
        else:
            rows = list(enumerate(artifacts))[:: -1 if descending else 1]
        return page(
            rows, self.query, *self._about(), order, descending=descending, identity=lambda row: row.id,
            show=lambda artifact: artifact.doc,
        )  # fmt: skip

    def filtered(self, artifacts: Iterable[Artifact]) -> list[Artifact]:
        query = self.filter(artifacts=True)
        return [each for each in artifacts if query is None or artifact_matches(each, query)]

    def _about(self) -> list[object]:
        """All that the rows of a list depend on: a token of another list must not be taken."""
        names = (
            "q", "name", "filterQuery", "namedQuery", "assetType", "targetRPS", "recommendations", "latencyProperty",
            "rpsProperty", "hardwareCountProperty", "hardwareTypeProperty",
        )  # fmt: skip
        several = ("source", "sourceLabel", "artifactType", "artifact_type")
        return [
            self.parts,
            *(self.query.get(name) for name in names),
            *(tuple(sorted(words(self.query, name))) for name in several),
        ]
