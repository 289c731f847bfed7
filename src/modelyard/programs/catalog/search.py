"""Search, filter, order and facets over items in memory. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from modelyard.programs.catalog.config import Asset, NamedQuery
from modelyard.programs.catalog.items import Artifact, Item
from modelyard.programs.filter_query import (
    VALUE_TYPES,
    Both,
    Comparison,
    Either,
    FieldType,
    Operator,
    Property,
    Query,
    Stored,
    check_custom,
    evaluate,
    holds,
    pattern_regex,
    typed,
)
from modelyard.programs.web import ApiError

T = TypeVar("T", Item, Artifact)
_ARRAYS = ("language", "tasks", "validated_tasks", "tags", "transports", "labels")
_NUMBERS = ("id", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch")
_MODEL_FIELDS = (
    "name", "externalId", "source_id", "description", "license", "license_link", "library_name", "provider", "maturity",
    "logo", "readme", "serving_config",
)  # fmt: skip
_ARTIFACT_FIELDS = ("name", "externalId", "description", "uri", "artifactType", "metricsType")
_HIDDEN = {
    Asset.MODELS: {"source_id", "logo", "license_link", "serving_config", "metricsType", "model_id"},
    Asset.MCP_SERVERS: {
        "source_id", "logo", "license_link", "artifacts", "base_name", "documentationUrl", "repositoryUrl", "sourceCode",
        "tools", "version",
    },
}  # fmt: skip
_MOST_VALUES, _LONGEST_VALUE = 50, 100


def matches(item: Item, query: Query) -> bool:
    """Terms about artifacts that AND joins must hold for one and the same artifact."""
    if isinstance(query, Both):
        about = [term for term in query.terms if _artifact_term(term)]
        others = [term for term in query.terms if not _artifact_term(term)]
        return all(matches(item, term) for term in others) and (not about or _some_artifact(item, about))
    if isinstance(query, Either):
        return any(matches(item, term) for term in query.terms)
    if _artifact_term(query):
        return _some_artifact(item, [query])
    return compared(query, item.fields, item.custom)


def _artifact_term(query: Query) -> bool:
    return isinstance(query, Comparison) and query.subject.without("artifacts") is not None


def _some_artifact(item: Item, terms: Sequence[Query]) -> bool:
    return any(all(artifact_matches(artifact, term) for term in terms) for artifact in item.artifacts)


def artifact_matches(artifact: Artifact, query: Query) -> bool:
    if isinstance(query, Both):
        return all(artifact_matches(artifact, term) for term in query.terms)
    if isinstance(query, Either):
        return any(artifact_matches(artifact, term) for term in query.terms)
    free = query.subject.without("artifacts")
    if free is not None:
        query = Comparison(free, query.operator, query.values)
    return compared(query, artifact.fields, artifact.custom)


def artifact_terms(query: Query | None) -> list[Comparison]:
    """The terms about artifacts that a whole filter asks of every match."""
    terms = query.terms if isinstance(query, Both) else () if query is None else (query,)
    return [term for term in terms if isinstance(term, Comparison) and _artifact_term(term)]


def check(query: Query, *, artifacts: bool = False) -> None:
    """400 for a comparison that no value could pass because of its types."""
    if not isinstance(query, Comparison):
        for term in query.terms:
            check(term, artifacts=artifacts)
        return
    free = query.subject.without("artifacts")
    comparison = query if free is None else Comparison(free, query.operator, query.values)
    name = comparison.subject.name
    known = _ARTIFACT_FIELDS if artifacts or free is not None else _MODEL_FIELDS
    if name in _NUMBERS:
        typed(comparison, FieldType.ID)
    elif name in known:
        typed(comparison, FieldType.STRING)
    else:
        check_custom(comparison)


def compared(comparison: Comparison, fields: Mapping[str, Stored], custom: Mapping[str, Stored]) -> bool:
    subject = comparison.subject
    free = subject.without("customProperties")
    name = subject.name if free is None else free.name
    stored = custom.get(name) if free is not None or name not in fields else fields[name]
    if stored is None:
        return False
    if name in _NUMBERS and name in fields and free is None:
        comparison = typed(comparison, FieldType.ID)
    if isinstance(stored, tuple):
        return _array(comparison, stored)
    if name in fields and free is None:
        comparison = Comparison(Property(subject.parts), comparison.operator, comparison.values)
    return holds(comparison, stored)


def _array(comparison: Comparison, stored: Sequence[Any]) -> bool:
    operator = comparison.operator
    if comparison.subject.type not in (None, "array_value", "string_value"):
        return False
    if operator.is_pattern:
        text = json.dumps(list(stored), ensure_ascii=False)
        return isinstance(comparison.value, str) and bool(
            pattern_regex(comparison.value, ignore_case=operator is Operator.ILIKE).fullmatch(text)
        )
    if operator is Operator.NOT_EQUAL:
        return comparison.value not in stored
    if operator in (Operator.EQUAL, Operator.IN):
        return any(value in stored for value in comparison.values)
    return evaluate(comparison, lambda _: [tuple(stored)])


# Order


def ordered(
    rows: Iterable[T], order: str, descending: bool, *, default: str, words: Mapping[str, Callable[[T], Any]]
) -> list[tuple[Any, T]]:
    """Rows with their sort keys: those without the value come last in both directions."""
    value = words.get(order or default)
    found = list(rows)
    if value is None:
        value = _property_order(found, order)
    present: list[tuple[Any, T]] = []
    absent: list[tuple[Any, T]] = []
    for row in found:
        key = value(row)
        (absent if key is None else present).append((key, row))
    present.sort(key=lambda pair: (pair[0], pair[1].id), reverse=descending)
    absent.sort(key=lambda pair: pair[1].id, reverse=descending)
    return present + absent


def _property_order(rows: Sequence[T], order: str) -> Callable[[T], Any]:
    name, dot, suffix = order.rpartition(".")
    about_artifacts = order.startswith("artifacts.")
    of_artifacts = bool(rows) and isinstance(rows[0], Artifact)
    if dot and suffix in ("int_value", "double_value", "string_value"):
        bare = name.removeprefix("artifacts.")
        wanted: tuple[type, ...] = {"int_value": (int,), "double_value": (float,), "string_value": (str,)}[suffix]
    elif dot and suffix.endswith("_value"):
        raise ApiError(400, f"invalid orderBy {order!r}: expected .int_value, .double_value or .string_value")
    elif of_artifacts or not rows:
        bare, wanted = order, _stored_type(rows, order)
    else:
        raise ApiError(
            400,
            f"invalid orderBy {order!r}: expected NAME, ID, CREATE_TIME, LAST_UPDATE_TIME, ACCURACY, RECOMMENDED, or a "
            "property with its type such as artifacts.ttft_p90.double_value",
        )

    def value(row: T) -> Any:
        if isinstance(row, Item) and about_artifacts:
            found: list[Any] = [artifact.custom.get(bare) for artifact in row.artifacts]
            return max((each for each in found if _fits(each, wanted)), default=None)
        each = row.custom.get(bare)
        return each if _fits(each, wanted) else None

    return value


def _fits(value: object, wanted: tuple[type, ...]) -> bool:
    return isinstance(value, wanted) and not isinstance(value, bool)


def _stored_type(rows: Sequence[Any], name: str) -> tuple[type, ...]:
    found = [row.custom.get(name) for row in rows]
    if any(isinstance(each, int | float) and not isinstance(each, bool) for each in found):
        return (int, float)
    return (str,)


def best_accuracy(item: Item) -> float | None:
    found = [artifact.custom.get("overall_average") for artifact in item.artifacts]
    return max((float(each) for each in found if isinstance(each, int | float)), default=None)


# Facets


def filter_options(items: Sequence[Item], asset: Asset, named: Mapping[str, NamedQuery]) -> dict[str, Any]:
    hidden = _HIDDEN.get(asset, {"source_id", "logo", "repositoryUrl"})
    seen: dict[str, list[Any]] = {}
    for item in items:
        _gather(seen, item.fields, "", hidden, custom=False)
        _gather(seen, item.custom, "", hidden, custom=True)
        for artifact in item.artifacts:
            _gather(seen, artifact.custom, "artifacts.", hidden, custom=True)
    filters = {name: option for name, values in sorted(seen.items()) if (option := _option(values)) is not None}
    made: dict[str, Any] = {"filters": filters}
    if named:
        made["namedQueries"] = {name: _resolved(query, filters) for name, query in named.items()}
    return made


def _gather(
    seen: dict[str, list[Any]], values: Mapping[str, Stored], prefix: str, hidden: set[str], *, custom: bool
) -> None:
    for name, stored in values.items():
        if name in hidden or name in ("id", "externalId", "createTimeSinceEpoch", "lastUpdateTimeSinceEpoch"):
            continue
        if isinstance(stored, bool):
            continue
        shown = f"`{name}`" if custom and not name.isidentifier() else name
        suffix = f".{_suffix(stored)}" if custom else ""
        target = seen.setdefault(f"{prefix}{shown}{suffix}", [])
        target.extend(stored if isinstance(stored, tuple) else [stored])


def _suffix(stored: Stored) -> str:
    if isinstance(stored, tuple):
        return VALUE_TYPES[4]
    return {str: "string_value", int: "int_value"}.get(type(stored), "double_value")


def _option(values: list[Any]) -> dict[str, Any] | None:
    if all(isinstance(value, int | float) for value in values):
        return {"type": "number", "range": {"min": min(values), "max": max(values)}} if values else None
    distinct = {str(value) for value in values}
    if not distinct or len(distinct) >= _MOST_VALUES or any(len(value) > _LONGEST_VALUE for value in distinct):
        return None
    return {"type": "string", "values": sorted(distinct)}


def _resolved(query: NamedQuery, filters: Mapping[str, Any]) -> NamedQuery:
    made = {}
    for name, term in query.items():
        bounds = filters.get(name, {}).get("range")
        value = term["value"]
        if bounds is not None and value in ("min", "max"):
            value = bounds[value]
        made[name] = {"operator": term["operator"], "value": value}
    return made


def named_filter(query: NamedQuery, filters: Mapping[str, Any]) -> Callable[[Item], bool]:
    """The named query as a test of one item; the facets give it its bounds."""
    resolved = _resolved(query, filters)
    terms = [_named_term(name, term) for name, term in resolved.items()]
    plain = [term for negated, term in terms if not negated]
    negated = [term for negate, term in terms if negate]

    def passes(item: Item) -> bool:
        if plain and not matches(item, Both(tuple(plain))):
            return False
        return not any(matches(item, term) for term in negated)

    return passes


def _named_term(name: str, term: Mapping[str, Any]) -> tuple[bool, Comparison]:
    parts = name.split(".")
    suffix = parts.pop() if len(parts) > 1 and parts[-1] in VALUE_TYPES else None
    word = term["operator"]
    values = term["value"] if isinstance(term["value"], list) else [term["value"]]
    operator = Operator.IN if word == "NOT IN" else Operator(word)
    return word == "NOT IN", Comparison(Property(tuple(parts), suffix), operator, tuple(values))
