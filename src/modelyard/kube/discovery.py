"""Which kinds the API serves: aggregated discovery in two requests, or group by group on servers that lack it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from modelyard.kube.errors import NotFound, ServerError, Unreachable
from modelyard.kube.kinds import Kind, Object

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ObjectReader(Protocol):
    async def object(self, method: str, path: str, *, accept: str = ...) -> Object: ...


@dataclass(frozen=True)
class Discovery:
    """What the API says about itself. Its parts may fail alone: a group may be served by another server that is down."""

    kinds: set[Kind]
    silent: Mapping[str, str] = field(default_factory=dict)
    """Groups that are registered and do not answer, with the reason: which kinds they have is not known now."""


async def discover(reader: ObjectReader) -> Discovery:
    """Every served kind, in every served version, without subresources."""
    accept = f"{_AGGREGATED},application/json"
    core, groups = await asyncio.gather(
        reader.object("GET", "/api", accept=accept), reader.object("GET", "/apis", accept=accept)
    )
    paths: list[tuple[str, str]] = []
    kinds: set[Kind] = set()
    silent: dict[str, str] = {}
    for document in (core, groups):
        match document.get("kind"):
            case "APIGroupDiscoveryList":
                kinds |= _aggregated(document)
                silent |= _stale(document)
            case "APIVersions":
                paths += [("", version) for version in document.get("versions") or ()]
            case _:
                paths += [
                    (group["name"], version["version"])
                    for group in document.get("groups") or ()
                    for version in group.get("versions") or ()
                ]
    for found in await asyncio.gather(*(_one_version(reader, group, version) for group, version in paths)):
        kinds |= found.kinds
        silent |= found.silent
    return Discovery(kinds, silent)


def _stale(document: Object) -> dict[str, str]:
    return {
        group["metadata"]["name"]: f"the server of {version['version']} does not answer the API server"
        for group in document.get("items") or ()
        for version in group.get("versions") or ()
        if version.get("freshness") == "Stale"
    }


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


async def _one_version(reader: ObjectReader, group: str, version: str) -> Discovery:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        document = await reader.object("GET", path, accept="application/json")
    except NotFound:
        return Discovery(set())  # The group just went.
    except (ServerError, Unreachable) as error:
        return Discovery(set(), {group: str(error)})
    return Discovery(
        {
            Kind(group, version, resource["kind"], resource["name"], bool(resource.get("namespaced")))
            for resource in document.get("resources") or ()
            if "/" not in resource["name"]
        }
    )
