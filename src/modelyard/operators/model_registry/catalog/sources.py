"""The lists that the catalog shows: those that come with it, those that users keep, and those that a label adds. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import yaml

from modelyard.kube import bounded_yaml
from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of, name_of

KEY = "sources.yaml"
SOURCE_LABEL = {"opendatahub.io/catalog-source": "true"}
DEFAULTS = "default-catalog-sources"
USER_MODELS = "model-catalog-sources"
USER_MCP = "mcp-catalog-sources"
USER_AGENTS = "agent-catalog-sources"
USER_TEXTS = {USER_MODELS: "catalogs: []\n", USER_MCP: "mcp_catalogs: []\n", USER_AGENTS: "agent_catalogs: []\n"}
"""What the users' ConfigMaps hold when they are made; then they are the users' own."""
LEGACY_DEFAULTS = "model-catalog-default-sources"
LONGEST_NAME = 55
"""A volume is called `labeled-` and this."""
DEFAULT_CATALOG = "default_catalog"
"""The id of an entry that older versions wrote into the users' ConfigMap; it has a place of its own by now."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_STRIPPED_FROM = ("catalogs", "model_catalogs")


def labelled(config_maps: Iterable[Object]) -> tuple[list[str], list[str]]:
    """`(the names of the ConfigMaps that are sources, what is wrong with the others)`, by name."""
    found, wrong = [], []
    for config_map in config_maps:
        name = name_of(config_map)
        if name in (DEFAULTS, *USER_TEXTS) or not SOURCE_LABEL.items() <= labels_of(config_map).items():
            continue
        if len(name) > LONGEST_NAME:
            wrong.append(f"ConfigMap {name} is not a source: its name is longer than {LONGEST_NAME} characters")
        elif not _NAME.fullmatch(name):
            wrong.append(f"ConfigMap {name} is not a source: its name has other characters than a-z, 0-9 and -")
        elif KEY not in (config_map.get("data") or {}):
            wrong.append(f"ConfigMap {name} is not a source: it has no key {KEY}")
        else:
            found.append(name)
    return sorted(found), wrong


def without_default_catalog(text: str) -> str | None:
    """The list without entries of id `default_catalog`; None where there is nothing to take out, or no list to read.

    Lines are taken out of the text as it is, so that comments and keys that we do not know stay.
    """
    try:
        root = bounded_yaml.compose(text)
        data = bounded_yaml.load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(root, yaml.MappingNode) or not isinstance(data, dict):
        return None
    if not any(_is_default(entry) for key in _STRIPPED_FROM for entry in _entries(data, key)):
        return None
    wanted = _stripped(data)
    if not wanted:
        return "{}\n"
    lines = text.splitlines(keepends=True)
    dropped = {line for start, end in _spans(root, lines) for line in range(start, end)}
    edited = "".join(line for number, line in enumerate(lines) if number not in dropped)
    # An unusual layout is written again: what it says matters more than how.
    return edited if _says(edited, wanted) else yaml.safe_dump(wanted, sort_keys=False)


def _stripped(data: dict[Any, Any]) -> dict[Any, Any]:
    left = {}
    for key, value in data.items():
        if key in _STRIPPED_FROM and isinstance(value, list):
            value = [entry for entry in value if not _is_default(entry)]
            if not value:
                continue
        left[key] = value
    return left


def _entries(data: dict[Any, Any], key: str) -> list[Any]:
    entries = data.get(key)
    return entries if isinstance(entries, list) else []


def _is_default(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("id") == DEFAULT_CATALOG


def _says(text: str, wanted: dict[Any, Any]) -> bool:
    try:
        return bool(bounded_yaml.load(text) == wanted)
    except yaml.YAMLError:
        return False


def _spans(root: yaml.MappingNode, lines: list[str]) -> Iterator[tuple[int, int]]:
    """The lines of the entries to drop, and of keys that then hold nothing."""
    ends = [key.start_mark.line for key, _ in root.value[1:]] + [len(lines)]
    for (key, value), end in zip(root.value, ends, strict=True):
        if key.value not in _STRIPPED_FROM or not isinstance(value, yaml.SequenceNode):
            continue
        starts = [item.start_mark.line for item in value.value]
        dropped = [_has_default_id(item) for item in value.value]
        if all(dropped):
            yield key.start_mark.line, _content_end(lines, end)
            continue
        for position, start in enumerate(starts):
            if dropped[position]:
                yield start, _content_end(lines, starts[position + 1] if position + 1 < len(starts) else end)


def _has_default_id(item: yaml.Node) -> bool:
    return isinstance(item, yaml.MappingNode) and any(
        key.value == "id" and value.value == DEFAULT_CATALOG for key, value in item.value
    )


def _content_end(lines: list[str], end: int) -> int:
    """Comments and blank lines before what follows belong to that."""
    while end > 0 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


@cache
def default_sources() -> str:
    """The lists that come with the catalog's data image."""
    return yaml.safe_dump(
        {
            "catalogs": [
                _entry("Red Hat AI", "redhat_ai_models", "models-catalog.yaml", "Red Hat AI"),
                _entry(
                    "Red Hat AI validated",
                    "redhat_ai_validated_models",
                    "validated-models-catalog.yaml",
                    "Red Hat AI validated",
                ),
                _entry("Other", "other_models", "other-models-catalog.yaml"),
            ],
            "labels": [
                _label("Red Hat AI validated", "models", "Models that were tested on the platform"),
                _label("Red Hat AI", "models", "Models that Red Hat provides"),
                _label(None, "models", "Models from elsewhere", "Other models"),
                _label("Red Hat", "mcp_servers", "MCP servers that Red Hat provides", "Red Hat MCP servers"),
                _label("Red Hat Partners", "mcp_servers", "MCP servers of partners", "Red Hat Partner MCP servers"),
                _label("Red Hat Agents", "agents", "Agents to start from", "Agent templates"),
            ],
            "namedQueries": {
                "default-performance-filters": {
                    "artifacts.use_case.string_value": {"operator": "=", "value": "chatbot"},
                    "artifacts.requests_per_second.double_value": {"operator": "<=", "value": 1},
                    "artifacts.ttft_p90.double_value": {"operator": "<=", "value": "max"},
                }
            },
            "mcp_catalogs": [
                _entry("Red Hat MCP Servers", "rh_mcp_servers", "redhat-mcp-servers-catalog.yaml", "Red Hat"),
                _entry(
                    "Red Hat Partner MCP Servers",
                    "rh_partner_mcp_servers",
                    "partner-mcp-servers-catalog.yaml",
                    "Red Hat Partners",
                ),
                _entry("Community MCP Servers", "community_mcp_servers", "community-mcp-servers-catalog.yaml"),
            ],
            "agent_catalogs": [
                _entry("Red Hat Agents", "rh_agents", "redhat-agents-catalog.yaml", "Red Hat Agents"),
            ],
        },
        sort_keys=False,
    )


def _entry(name: str, id: str, file: str, *labels: str) -> Object:
    made: Object = {
        "name": name,
        "id": id,
        "type": "yaml",
        "enabled": True,
        "properties": {"yamlCatalogPath": f"/shared-data/{file}"},
    }
    return made | ({"labels": list(labels)} if labels else {})


def _label(name: str | None, asset: str, description: str, shown: str = "") -> Object:
    made: Object = {"name": name, "assetType": asset}
    return made | ({"displayName": shown} if shown else {}) | {"description": description}
