"""The server's OpenAPI documents, made when they are asked for: version 3 a group-version at a time, version 2 as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.crds.strategy import CustomStrategy
from modelyard.local.apiserver.documents.discovery import VERSION
from modelyard.local.apiserver.openapi.binary import MEDIA, binary_document, wants_binary
from modelyard.local.apiserver.openapi.definitions import Components, builtin_name, custom_name
from modelyard.local.apiserver.openapi.paths import Paths
from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.messages import JSON, Reply, Request
from modelyard.local.apiserver.served.resources import Registry, ServedResource
from modelyard.local.apiserver.storage.store import encode

__all__ = ["OpenApi"]

_PROTOBUF = "protobuf"
_SUBRESOURCE_KINDS = {
    "scale": "autoscaling.v1.Scale", "token": "authentication.v1.TokenRequest", "eviction": "policy.v1.Eviction",
    "binding": "core.v1.Binding",
}  # fmt: skip


class OpenApi:
    """Answers `/openapi/v3...` and `/openapi/v2`. Documents are not kept: clients keep them, by their hash."""

    def __init__(self, registry: Registry, version: str = VERSION) -> None:
        self._registry = registry
        self._version = version
        self._hashes: dict[str, str] = {}
        registry.listen(self._hashes.clear)

    def reply(self, request: Request) -> Reply | None:
        """None for a path that is not OpenAPI's."""
        path = request.path.rstrip("/")
        if not path.startswith("/openapi/") or request.method not in ("GET", "HEAD"):
            return None
        accept = request.headers.get("accept", "")
        if path == "/openapi/v2" and wants_binary(accept):
            return Reply(200, binary_document(self._version), MEDIA, [("Vary", "Accept")])
        if _PROTOBUF in accept and not any(media in accept for media in (JSON, "*/*")):
            raise problems.not_acceptable((JSON,))
        if path == "/openapi/v2":
            return self._document(request, self._hash("v2"), self._v2)
        if path == "/openapi/v3":
            return Reply(200, encode({"paths": {key: self._entry(key) for key in sorted(self._keys())}}))
        key = path.removeprefix("/openapi/v3/")
        if key not in self._keys():
            return Reply(404, b"404 page not found\n", "text/plain; charset=utf-8")
        return self._document(request, self._hash(key), lambda: self._v3(key))

    def _document(self, request: Request, digest: str, build: Callable[[], Object]) -> Reply:
        headers = [("ETag", f'"{digest}"'), ("Vary", "Accept")]
        if request.headers.get("if-none-match", "").strip('"') == digest:
            return Reply(304, b"", JSON, headers)
        if request.param("hash") == digest:
            headers.append(("Cache-Control", "public, immutable"))
        return Reply(200, encode(build()), JSON, headers)

    def _keys(self) -> dict[str, None]:
        """The documents, as `api/v1` and `apis/apps/v1`."""
        return dict.fromkeys(_key(resource) for resource in self._registry.all())

    def _entry(self, key: str) -> Object:
        return {"serverRelativeURL": f"/openapi/v3/{key}?hash={self._hash(key)}"}

    def _hash(self, key: str) -> str:
        """Changes when the document would: cheap, because custom schemas are all that can change while running."""
        if key not in self._hashes:
            digest = hashlib.sha512(f"{self._version} {key}".encode())
            for resource in sorted(self._registry.all(), key=lambda r: str(r.kind)):
                if key in ("v2", _key(resource)):
                    digest.update(f"{resource.kind} {resource.verbs} {sorted(resource.subresources)}".encode())
                    if isinstance(resource.strategy, CustomStrategy):
                        digest.update(encode(resource.strategy.schema))
            self._hashes[key] = digest.hexdigest().upper()
        return self._hashes[key]

    def _v3(self, key: str) -> Object:
        components = Components(v3=True)
        paths = self._paths([r for r in self._registry.all() if _key(r) == key], components, v3=True)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": paths,
            "components": {"schemas": dict(sorted(components.schemas.items()))},
        }

    def _v2(self) -> Object:
        components = Components(v3=False)
        paths = self._paths(list(self._registry.all()), components, v3=False)
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": paths,
            "definitions": dict(sorted(components.schemas.items())),
        }

    def _paths(self, resources: list[ServedResource], components: Components, *, v3: bool) -> Object:
        prefix = "#/components/schemas/" if v3 else "#/definitions/"

        def schema_of(resource: ServedResource, part: str) -> Object:
            if part in _SUBRESOURCE_KINDS:
                return components.reference(_SUBRESOURCE_KINDS[part])
            if resource.custom:
                components.add_custom(resource)
                return {"$ref": prefix + custom_name(resource.kind, resource.list_kind if part == "list" else "")}
            name = builtin_name(resource.kind)
            if name is None:
                return {"type": "object"}
            return components.reference(f"{name}List" if part == "list" else name)

        writer = Paths(schema_of, v3=v3)
        paths: Object = {}
        for resource in sorted(resources, key=lambda r: (r.kind.group, r.kind.version, r.kind.plural)):
            paths |= writer.of(resource)
        return paths


def _key(resource: ServedResource) -> str:
    return f"apis/{resource.kind.api_version}" if resource.kind.group else f"api/{resource.kind.version}"
