"""`sources.yaml`: what it may say, and how several files become one configuration. Reads no catalogs."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from modelyard.programs.catalog.documents import BadDocument


class Asset(Enum):
    """What a source lists. The value is the API's word."""

    MODELS = "models"
    MCP_SERVERS = "mcp_servers"
    AGENTS = "agents"
    SKILLS = "skills"


_SECTIONS = {
    "catalogs": Asset.MODELS,
    "model_catalogs": Asset.MODELS,
    "mcp_catalogs": Asset.MCP_SERVERS,
    "agent_catalogs": Asset.AGENTS,
    "skill_catalogs": Asset.SKILLS,
}
_COMMON = {"name", "id", "type", "enabled", "properties", "labels"}
_FILTER_KEYS = {
    Asset.MODELS: ("includedModels", "excludedModels"),
    Asset.MCP_SERVERS: ("includedServers", "excludedServers"),
}
OPERATORS = ("=", "!=", ">", "<", ">=", "<=", "LIKE", "ILIKE", "IN", "NOT IN")


@dataclass(frozen=True)
class Source:
    """One entry after all files were merged. None: no file said anything."""

    id: str
    asset: Asset
    name: str | None = None
    type: str | None = None
    enabled: bool | None = None
    properties: Mapping[str, Any] | None = None
    labels: tuple[str, ...] | None = None
    included: tuple[str, ...] | None = None
    excluded: tuple[str, ...] | None = None
    directory: Path = Path()
    """Where relative paths of the properties start."""

    @property
    def is_enabled(self) -> bool:
        return self.enabled is not False

    @property
    def patterns(self) -> tuple[str, ...]:
        """What is included. A source of one organization need not repeat its name."""
        organization = (self.properties or {}).get("allowedOrganization")
        if not isinstance(organization, str) or not organization:
            return self.included or ()
        return tuple(each if "/" in each else f"{organization}/{each}" for each in self.included or ())

    def admits(self, name: str) -> bool:
        lower = name.lower()
        excluded = (*(self.excluded or ()), *_texts((self.properties or {}).get("excludedModels")))
        if self.included and not any(_glob(pattern, lower) for pattern in self.patterns):
            return False
        return not any(_glob(pattern, lower) for pattern in excluded)


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _glob(pattern: str, name: str) -> bool:
    """Only `*` is special."""
    escaped = re.sub(r"([\[?])", r"[\1]", pattern.lower())
    return fnmatch.fnmatchcase(name, escaped)


Label = dict[str, str | None]
NamedQuery = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Config:
    """Everything that the files say together."""

    sources: tuple[Source, ...] = ()
    labels: tuple[Label, ...] = ()
    named_queries: Mapping[Asset, Mapping[str, NamedQuery]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_file(content: Any, path: Path) -> Config:
    """One file's value, checked strictly."""
    if content is None:
        return Config()
    mapping = _mapping(content, "the file", {*_SECTIONS, "labels", "namedQueries"})
    sources: dict[str, Source] = {}
    warnings = []
    for section, asset in _SECTIONS.items():
        entries = mapping.get(section)
        if section == "catalogs" and "catalogs" in mapping:
            warnings.append(f"{path}: `catalogs` is the old name of `model_catalogs`")
        seen = set()
        for number, entry in enumerate(_list(entries, section)):
            source = source_entry(entry, asset, path.parent, f"{section}[{number}]")
            if source.id in seen:
                raise BadDocument(f"{section}: the id {source.id!r} stands twice")
            seen.add(source.id)
            known = sources.get(source.id)
            if known is not None and known.asset is not asset:
                raise BadDocument(f"the id {source.id!r} stands in two kinds of catalogs")
            sources[source.id] = source
    return Config(
        tuple(sources.values()),
        _labels(mapping.get("labels")),
        _named_queries(mapping.get("namedQueries")),
        tuple(warnings),
    )


def source_entry(entry: Any, asset: Asset, directory: Path, where: str, *, strict: bool = True) -> Source:
    included, excluded = _FILTER_KEYS.get(asset, ("", ""))
    known = _COMMON | ({included, excluded, "assetType"} if included else set())
    mapping = _mapping(entry, where, known if strict else None)
    identity = mapping.get("id")
    if strict and (not isinstance(identity, str) or not identity):
        raise BadDocument(f"{where}: id is missing or not text")
    enabled, properties = mapping.get("enabled"), mapping.get("properties")
    if enabled is not None and not isinstance(enabled, bool):
        raise BadDocument(f"{where}: enabled: expected true or false")
    if properties is not None and not isinstance(properties, dict):
        raise BadDocument(f"{where}: properties: expected a map")
    labels = mapping.get("labels")
    return Source(
        id=identity if isinstance(identity, str) else "",
        asset=asset,
        name=_text(mapping.get("name"), f"{where}: name"),
        type=_text(mapping.get("type"), f"{where}: type"),
        enabled=enabled,
        properties=properties,
        labels=None if labels is None else tuple(_strings(labels, f"{where}: labels")),
        included=_patterns(mapping.get(included), f"{where}: {included}") if included else None,
        excluded=_patterns(mapping.get(excluded), f"{where}: {excluded}") if excluded else None,
        directory=directory,
    )


def merged(files: Iterable[Config]) -> Config:
    sources: dict[str, Source] = {}
    labels: dict[str | None, Label] = {}
    queries: dict[Asset, dict[str, NamedQuery]] = {}
    warnings: list[str] = []
    for config in files:
        warnings += config.warnings
        for source in config.sources:
            before = sources.get(source.id)
            if before is not None and before.asset is not source.asset:
                raise BadDocument(f"the id {source.id!r} stands in two kinds of catalogs")
            sources[source.id] = source if before is None else _override(before, source)
        for label in config.labels:
            if label["name"] in labels:
                raise BadDocument(f"the label {label['name']!r} stands in two files")
            labels[label["name"]] = label
        for asset, named in config.named_queries.items():
            for name, fields in named.items():
                queries.setdefault(asset, {}).setdefault(name, {}).update(fields)
    return Config(tuple(sources.values()), tuple(labels.values()), queries, tuple(warnings))


def _override(before: Source, after: Source) -> Source:
    names = ("name", "type", "enabled", "properties", "labels", "included", "excluded")
    changes = {name: getattr(after, name) for name in names if getattr(after, name) is not None}
    if after.properties is not None:
        changes["directory"] = after.directory
    return replace(before, **changes)


def _labels(value: Any) -> tuple[Label, ...]:
    found: dict[str | None, Label] = {}
    for number, entry in enumerate(_list(value, "labels")):
        where = f"labels[{number}]"
        mapping = _mapping(entry, where, None)
        if "name" not in mapping:
            raise BadDocument(f"{where}: name is missing (it may be null)")
        for key, text in mapping.items():
            if not isinstance(text, str) and not (key == "name" and text is None):
                raise BadDocument(f"{where}: {key}: expected text")
        kind = mapping.get("assetType")
        if kind is not None and kind not in [asset.value for asset in Asset]:
            raise BadDocument(f"{where}: assetType: unknown {kind!r}")
        if mapping["name"] in found:
            raise BadDocument(f"labels: the name {mapping['name']!r} stands twice")
        found[mapping["name"]] = mapping
    return tuple(found.values())


def _named_queries(value: Any) -> dict[Asset, dict[str, NamedQuery]]:
    found: dict[Asset, dict[str, NamedQuery]] = {}
    for name, entry in _mapping(value or {}, "namedQueries", None).items():
        where = f"namedQueries.{name}"
        mapping = _mapping(entry, where, None)
        asset, filters = Asset.MODELS, mapping
        if isinstance(mapping.get("assetType"), str) or _is_long_form(mapping):
            mapping = _mapping(mapping, where, {"assetType", "filters"})
            word = mapping.get("assetType", "models")
            if word not in [asset.value for asset in Asset]:
                raise BadDocument(f"{where}: assetType: unknown {word!r}")
            asset, filters = Asset(word), _mapping(mapping.get("filters") or {}, f"{where}.filters", None)
        made = {key: _named_filter(given, f"{where}.{key}") for key, given in filters.items()}
        found.setdefault(asset, {})[name] = made
    return found


def _is_long_form(mapping: Mapping[str, Any]) -> bool:
    filters = mapping.get("filters")
    return isinstance(filters, dict) and "operator" not in filters


def _named_filter(given: Any, where: str) -> dict[str, Any]:
    mapping = _mapping(given, where, {"operator", "value"})
    operator, value = mapping.get("operator"), mapping.get("value")
    if not isinstance(operator, str) or operator.upper() not in OPERATORS:
        raise BadDocument(f"{where}: operator: expected one of {', '.join(OPERATORS)}")
    if value is None:
        raise BadDocument(f"{where}: value is missing")
    if (operator.upper() in ("IN", "NOT IN")) is not isinstance(value, list):
        raise BadDocument(f"{where}: value: a list goes with IN and NOT IN, and only with them")
    scalars = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int | float | bool) for item in scalars):
        raise BadDocument(f"{where}: value: expected text, a number, true or false")
    return {"operator": operator.upper(), "value": value}


def _mapping(value: Any, where: str, known: set[str] | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadDocument(f"{where}: expected a map")
    for key in value:
        if not isinstance(key, str):
            raise BadDocument(f"{where}: the key {key!r} is not text")
        if known is not None and key not in known:
            raise BadDocument(f"{where}: unknown key {key!r}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadDocument(f"{where}: expected a list")
    return value


def _text(value: Any, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadDocument(f"{where}: expected text, found {value!r}")
    return value


def _strings(value: Any, where: str) -> list[str]:
    found = _list(value, where)
    if not all(isinstance(item, str) for item in found):
        raise BadDocument(f"{where}: expected a list of texts")
    return found


def _patterns(value: Any, where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    found = tuple(_strings(value, where))
    if any(not pattern.strip() for pattern in found):
        raise BadDocument(f"{where}: a pattern is empty")
    return found
