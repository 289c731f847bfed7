"""The catalog as one request handler: health, the catalogs' endpoints, everything around them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from aiohttp import web

from modelyard.programs.catalog import models, others
from modelyard.programs.catalog.call import Call
from modelyard.programs.catalog.config import Asset
from modelyard.programs.catalog.library import Library
from modelyard.programs.catalog.preview import preview
from modelyard.programs.web import (
    ApiError,
    Cors,
    Handler,
    Query,
    answering,
    error_response,
    json_response,
    raw_path,
)

MODELS = "/api/model_catalog/v1alpha1"
MCP = "/api/mcp_catalog/v1alpha1"
AGENTS = "/api/agent_catalog/v1alpha1"
SKILLS = "/api/skill_catalog/v1alpha1"
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PLUGINS = ("agent", "mcp", "model", "skill")
Endpoint = Callable[[Call], Any]
_GET: tuple[tuple[str, Endpoint], ...] = (
    (f"{MODELS}/models", models.models),
    (f"{MODELS}/models/filter_options", models.filter_options),
    (f"{MODELS}/sources", models.sources),
    (f"{MODELS}/labels", models.labels),
    (f"{MCP}/mcp_servers", others.mcp_servers),
    (f"{MCP}/mcp_servers/filter_options", others.options_of(Asset.MCP_SERVERS)),
    (f"{MCP}/mcp_servers/([^/]+)", others.mcp_server),
    (f"{MCP}/mcp_servers/([^/]+)/tools", others.tools),
    (f"{MCP}/mcp_servers/([^/]+)/tools/(.+)", others.tool),
    (f"{AGENTS}/agents", others.agents),
    (f"{AGENTS}/agents/filter_options", others.options_of(Asset.AGENTS)),
    (f"{AGENTS}/agents/([^/]+)", others.agent),
    (f"{AGENTS}/agents/([^/]+)/artifacts", others.agent_artifacts),
    (f"{SKILLS}/skills", others.skills),
    (f"{SKILLS}/skills/filter_options", others.options_of(Asset.SKILLS)),
    (f"{SKILLS}/skills/([^/]+)", others.skill),
    # A model's name may hold slashes; written as %2F, it may even end like one of these.
    (f"{MODELS}/sources/([^/]+)/models/(.+)/artifacts/performance", models.performance),
    (f"{MODELS}/sources/([^/]+)/models/(.+)/artifacts", models.artifacts),
    (f"{MODELS}/sources/([^/]+)/models/(.*[^/])", models.model),
)
"""Paths in the order in which they are tried, as patterns for the path as it was sent."""
_PREVIEW = f"{MODELS}/sources/preview"


@dataclass
class Catalog:
    """What the handler needs."""

    library: Library
    cors: Cors = field(default_factory=Cors)
    notes: dict[str, str] = field(default_factory=dict)
    """What does not keep the catalog from serving, but should be seen: by part, in `/readyz`."""

    def __post_init__(self) -> None:
        self._routes = [(re.compile(pattern), endpoint) for pattern, endpoint in _GET]

    def handler(self) -> Handler:
        return self.cors.around(answering(self._answer))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, query_text = raw_path(request)
        if path in ("/healthz", "/readyz"):
            endpoint: Callable[[], dict[str, Any]] = self._ready if path == "/readyz" else lambda: {"status": "ok"}
            return json_response(endpoint()) if request.method == "GET" else _wrong_method("GET")
        if path == _PREVIEW:
            if request.method != "POST":
                return _wrong_method("POST")
            return json_response(await preview(request, Query(query_text), self.library.snapshot))
        for pattern, find in self._routes:
            found = pattern.fullmatch(path)
            if found is not None:
                if request.method != "GET":
                    return _wrong_method("GET")
                parts = tuple(_decoded(part) for part in found.groups())
                call = Call(request, Query(query_text), self.library.snapshot, parts)
                if call.query.get("filterQuery"):
                    # A long filter over a long list takes a while; others are answered meanwhile.
                    return json_response(await asyncio.to_thread(find, call))
                return json_response(find(call))
        return error_response(404, f"404 page not found: the API is under {MODELS}/, {MCP}/, {AGENTS}/ and {SKILLS}/")

    def _ready(self) -> dict[str, Any]:
        said: dict[str, Any] = {"plugins": dict.fromkeys(_PLUGINS, True), "status": "ready"}
        problem = self.library.snapshot.problem
        details = {**({"configuration": problem} if problem else {}), **self.notes}
        return said | ({"details": details} if details else {})


def _decoded(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise ApiError(400, "malformed percent escape in the path")
    raw = unquote_to_bytes(text)
    if b"\0" in raw:
        raise ApiError(400, "Request path contains null bytes which are not allowed")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ApiError(400, "the path is not UTF-8") from None


def _wrong_method(allowed: str) -> web.Response:
    return error_response(405, f"Method not allowed: use {allowed}", {"Allow": allowed})
