"""The model catalog's endpoints: models, their artifacts and performance, sources, labels."""

from __future__ import annotations

from collections import Counter
from typing import Any

from modelyard.programs.catalog.call import MODEL_ORDERS, Call
from modelyard.programs.catalog.config import Asset
from modelyard.programs.catalog.items import METRICS_ARTIFACT, MODEL_ARTIFACT, Artifact, Item, Json, stable_id
from modelyard.programs.catalog.lists import body, is_descending, name_key, page, size_of, words
from modelyard.programs.catalog.recommend import (
    Wanted,
    best_latency,
    check_named,
    measured,
    recommended,
    with_load,
)
from modelyard.programs.catalog.search import artifact_matches, artifact_terms
from modelyard.programs.catalog.snapshot import Listed
from modelyard.programs.web import ApiError

_FILTERS = {Asset.MCP_SERVERS: ("includedServers", "excludedServers")}


def models(call: Call) -> Json:
    wanted = Wanted.of(call.query)
    found = call.found(Asset.MODELS)
    if wanted.recommendations or call.query.get("orderBy") == "RECOMMENDED":
        return _by_latency(call, found, wanted)
    return call.list_items(found, default="NAME", orders=MODEL_ORDERS)


def _by_latency(call: Call, items: list[Item], wanted: Wanted) -> Json:
    """The fastest first. The token is a plain offset."""
    size, descending = size_of(call.query), is_descending(call.query)
    terms = artifact_terms(call.filter())
    looked_at = {
        item.id: [each for each in measured(item.artifacts) if all(artifact_matches(each, term) for term in terms)]
        for item in items
    }
    check_named(wanted, [artifact for artifacts in looked_at.values() for artifact in artifacts])
    latency = {item.id: best_latency(item, looked_at[item.id], wanted) for item in items}
    items.sort(key=lambda item: (name_key(item.name), item.id))
    with_data = [item for item in items if latency[item.id] is not None]
    with_data.sort(key=lambda item: latency[item.id] or 0, reverse=descending)
    rows = with_data + [item for item in items if latency[item.id] is None]
    start = _offset(call.query.get("nextPageToken"))
    token = str(start + size) if start + size < len(rows) else ""
    return body([item.doc for item in rows[start : start + size]], token, size)


def _offset(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ApiError(400, "invalid nextPageToken: expected the number that the page before gave")
    return int(text)


def filter_options(call: Call) -> Any:
    return call.shelf(Asset.MODELS).options


def _model(call: Call) -> Item:
    source, name = call.parts
    found = call.shelf(Asset.MODELS).by_name(source, name)
    if found is None:
        raise ApiError(404, f"No model found '{name[:200]}' in source '{source[:200]}'")
    return found


def model(call: Call) -> Json:
    item = _model(call)
    counts = Counter(each.metrics_type or str(each.doc["artifactType"]) for each in item.artifacts)
    return item.doc | {"artifactCounts": dict(sorted(counts.items()))}


def artifacts(call: Call) -> Json:
    item = _model(call)
    kinds = words(call.query, "artifactType", "artifact_type")
    for kind in kinds:
        if kind not in (MODEL_ARTIFACT, METRICS_ARTIFACT):
            raise ApiError(400, f"invalid artifactType {kind[:100]!r}: expected {MODEL_ARTIFACT} or {METRICS_ARTIFACT}")
    return call.list_artifacts(
        call.filtered(each for each in item.artifacts if not kinds or each.doc["artifactType"] in kinds)
    )


def performance(call: Call) -> Json:
    item, wanted = _model(call), Wanted.of(call.query)
    all_measured = measured(item.artifacts)
    check_named(wanted, all_measured)
    found: list[Artifact] = call.filtered(all_measured)
    if wanted.recommendations:
        found = recommended(found, wanted)
    return call.list_artifacts([with_load(each, wanted) for each in found])


def _asset(call: Call) -> Asset:
    word = call.query.get("assetType") or Asset.MODELS.value
    if word not in [asset.value for asset in Asset]:
        known = ", ".join(asset.value for asset in Asset)
        raise ApiError(400, f"invalid value {word[:100]!r} for assetType: expected one of {known}")
    return Asset(word)


def sources(call: Call) -> Json:
    asset, order = _asset(call), call.query.get("orderBy") or "ID"
    if order not in ("ID", "NAME"):
        raise ApiError(400, f"invalid orderBy {order[:100]!r}: expected ID or NAME")
    name, descending = (call.query.get("name") or "").lower(), is_descending(call.query)
    rows = [
        (each.source.id if order == "ID" else name_key(each.source.name or ""), each)
        for each in call.snapshot.sources.values()
        if each.source.asset is asset and name in (each.source.name or "").lower()
    ]
    rows.sort(key=lambda row: (row[0], _number(row[1])), reverse=descending)
    return page(
        rows, call.query, asset, order, name, descending=descending, identity=_number, show=_shown_source
    )  # fmt: skip


def _number(listed: Listed) -> int:
    return stable_id("source", listed.source.id)


def _shown_source(listed: Listed) -> Json:
    source = listed.source
    included, excluded = _FILTERS.get(source.asset, ("includedModels", "excludedModels"))
    made: Json = {
        "id": source.id,
        "name": source.name or source.id,
        "enabled": source.is_enabled,
        "labels": list(source.labels or ()),
        "status": listed.status.value,
        "assetType": source.asset.value,
    }
    if listed.error:
        made["error"] = listed.error
    if source.included is not None:
        made[included] = list(source.included)
    if source.excluded is not None:
        made[excluded] = list(source.excluded)
    return made


def labels(call: Call) -> Json:
    asset, order, descending = _asset(call), call.query.get("orderBy") or "", is_descending(call.query)
    found = [
        (number, label)
        for number, label in enumerate(call.snapshot.config.labels)
        if label.get("assetType", Asset.MODELS.value) == asset.value
    ]
    present = [(label[order], (number, label)) for number, label in found if label.get(order) is not None]
    absent = [(None, row) for row in found if row[1].get(order) is None]
    if order:
        present.sort(key=lambda row: (row[0], row[1][0]), reverse=descending)
    if descending:
        absent.reverse()
    return page(
        [*present, *absent], call.query, asset, order, descending=descending, identity=lambda row: row[0],
        show=lambda row: row[1],
    )  # fmt: skip
