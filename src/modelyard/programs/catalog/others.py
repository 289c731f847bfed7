"""The endpoints of the other catalogs: MCP servers with their tools, agents with their templates, skills."""

from __future__ import annotations

from typing import Any

from modelyard.programs.catalog.call import Call
from modelyard.programs.catalog.config import Asset
from modelyard.programs.catalog.items import Item, Json, stable_id
from modelyard.programs.catalog.lists import is_descending, is_true, name_key, page
from modelyard.programs.catalog.search import named_filter
from modelyard.programs.web import ApiError

_DEFAULT_TOOLS, _MOST_TOOLS = 10, 100
_WORDS = {Asset.MCP_SERVERS: "MCP server", Asset.AGENTS: "agent", Asset.SKILLS: "skill"}


def mcp_servers(call: Call) -> Json:
    with_tools, limit = _tools_wanted(call)
    found = call.found(Asset.MCP_SERVERS)
    name = call.query.get("namedQuery")
    if name is not None:
        shelf = call.shelf(Asset.MCP_SERVERS)
        if name not in shelf.named:
            raise ApiError(
                400, f"unknown named query {name[:100]!r}: expected one of {', '.join(shelf.named) or 'none'}"
            )
        passes = named_filter(shelf.named[name], shelf.options["filters"])
        found = [item for item in found if passes(item)]
    return call.list_items(found, default="ID", show=lambda item: _with_tools(item, limit) if with_tools else item.doc)


def _tools_wanted(call: Call) -> tuple[bool, int]:
    text = call.query.get("toolLimit") or str(_DEFAULT_TOOLS)
    if not text.isascii() or not text.isdigit() or len(text) > 3 or int(text) > _MOST_TOOLS:
        raise ApiError(400, f"invalid toolLimit {text[:40]!r}: expected a whole number from 0 to {_MOST_TOOLS}")
    return is_true(call.query, "includeTools"), int(text)


def _with_tools(item: Item, limit: int) -> Json:
    return item.doc | {"tools": list(item.parts["tools"].values())[:limit]}


def mcp_server(call: Call) -> Json:
    with_tools, limit = _tools_wanted(call)
    item = _one(call, Asset.MCP_SERVERS)
    return _with_tools(item, limit) if with_tools else item.doc


def tools(call: Call) -> Json:
    found = _one(call, Asset.MCP_SERVERS).parts["tools"]
    descending = is_descending(call.query)
    rows = [(name_key(name), tool) for name, tool in found.items()]
    rows.sort(key=lambda row: row[0], reverse=descending)
    return page(
        rows, call.query, call.parts, descending=descending, identity=lambda tool: stable_id("tool", tool["name"]),
        show=lambda tool: tool,
    )  # fmt: skip


def tool(call: Call) -> Json:
    item = _one(call, Asset.MCP_SERVERS)
    found: Json | None = item.parts["tools"].get(call.parts[1])
    if found is None:
        raise ApiError(404, f"no tool {call.parts[1][:200]!r} found for MCP server {item.name!r}")
    return found


def agents(call: Call) -> Json:
    return call.list_items(call.found(Asset.AGENTS), default="NAME")


def agent(call: Call) -> Json:
    return _one(call, Asset.AGENTS).doc


def agent_artifacts(call: Call) -> Json:
    return call.list_artifacts(call.filtered(_one(call, Asset.AGENTS).artifacts))


def skills(call: Call) -> Json:
    return call.list_items(call.found(Asset.SKILLS), default="NAME")


def skill(call: Call) -> Json:
    return _one(call, Asset.SKILLS).doc


def options_of(asset: Asset) -> Any:
    """The endpoint of a kind's facets."""
    return lambda call: call.shelf(asset).options


def _one(call: Call, asset: Asset) -> Item:
    text, word = call.parts[0], _WORDS[asset]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ApiError(400, f"invalid {word} ID {text[:100]!r}: expected a number")
    found = call.shelf(asset).by_id(int(text))
    if found is None:
        raise ApiError(404, f"no {word} found for id {text}")
    return found
