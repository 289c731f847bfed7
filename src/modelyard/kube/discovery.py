"""Which kinds the API serves: aggregated discovery in two requests, or group by group on servers that lack it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from modelyard.kube.errors import NotFound, ServerError
from modelyard.kube.kinds import Kind, Object

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ObjectReader(Protocol):
    async def object(self, method: str, path: str, *, accept: str = ...) -> Object: ...


async def discover(reader: ObjectReader) -> set[Kind]:
    """Every served kind, in every served version, without subresources."""
    accept = f"{_AGGREGATED},application/json"
    core, groups = await asyncio.gather(
        reader.object("GET", "/api", accept=accept), reader.object("GET", "/apis", accept=accept)
    )
    paths: list[tuple[str, str]] = []
    kinds: set[Kind] = set()
    for document in (core, groups):
        match document.get("kind"):
            case "APIGroupDiscoveryList":
                kinds |= _aggregated(document)
            case "APIVersions":
                paths += [("", version) for version in document.get("versions") or ()]
            case _:
                paths += [
                    (group["name"], version["version"])
                    for group in document.get("groups") or ()
                    for version in group.get("versions") or ()
                ]
    for found in await asyncio.gather(*(_one_version(reader, group, version) for group, version in paths)):
        kinds |= found
    return kinds


def _aggregated(document: Object) -> set[Kind]:
    return {
        Kind(
            resource["responseKind"].get("group") or group.get("metadata", {}).get("name", ""),
            version["version"],
            resource["responseKind"]["kind"],
            resource["resource"],
            resource.get("scope") == "Namespaced",
        )
        for group in document.get("items") or ()
        for version in group.get("versions") or ()
        for resource in version.get("resources") or ()
        if resource.get("responseKind")
    }


async def _one_version(reader: ObjectReader, group: str, version: str) -> set[Kind]:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        document = await reader.object("GET", path, accept="application/json")
    except (NotFound, ServerError):
        # An aggregated API whose server is down (503), or a group that just went: the others still count.
        return set()
    return {
        Kind(group, version, resource["kind"], resource["name"], bool(resource.get("namespaced")))
        for resource in document.get("resources") or ()
        if "/" not in resource["name"]
    }
