"""The documents that describe the server: discovery, OpenAPI and version, behind one door."""

from __future__ import annotations

from modelyard.local.apiserver.discovery import VERSION, Discovery
from modelyard.local.apiserver.openapi import OpenApi
from modelyard.local.apiserver.requests import Reply, Request
from modelyard.local.apiserver.resources import Registry

_OPENAPI_PATHS = ("/openapi/v2", "/openapi/v3")


class ServerDocuments:
    """Answers what is about the server itself; None for any other path."""

    def __init__(self, registry: Registry, version: str = VERSION) -> None:
        self._discovery = Discovery(registry, version)
        self._openapi = OpenApi(registry, version)

    async def reply(self, request: Request) -> Reply | None:
        return self._openapi.reply(request) or self._discovery.reply(request, _OPENAPI_PATHS)
