"""The documents that describe the server: discovery, OpenAPI, version and the issuer of its tokens, behind one door."""

from __future__ import annotations

from modelyard.local.apiserver.auth import issuer
from modelyard.local.apiserver.auth.tokens import ServiceAccountTokens
from modelyard.local.apiserver.documents.discovery import VERSION, Discovery
from modelyard.local.apiserver.openapi import OpenApi
from modelyard.local.apiserver.requests.messages import Reply, Request
from modelyard.local.apiserver.served.resources import Registry

_OPENAPI_PATHS = ("/openapi/v2", "/openapi/v3")


class ServerDocuments:
    """Answers what is about the server itself; None for any other path."""

    def __init__(self, registry: Registry, tokens: ServiceAccountTokens, version: str = VERSION) -> None:
        self._tokens = tokens
        self._discovery = Discovery(registry, version)
        self._openapi = OpenApi(registry, version)

    async def reply(self, request: Request) -> Reply | None:
        return (
            self._openapi.reply(request)
            or self._discovery.reply(request, (*_OPENAPI_PATHS, *issuer.PATHS))
            or issuer.reply(self._tokens, request)
        )
