"""The Secrets and ConfigMaps that a server reads only at start, and a digest of them by which its pods follow their changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.declaring.world import World

Reference: TypeAlias = tuple[Kind, str, str]
"""`(kind, name, key)`; an empty key means all of it."""


CONFIG_DIGEST = "modelyard.dev/config-digest"
"""Pod annotation that changes with the Secrets and ConfigMaps that a server reads only at start."""


class Getter(Protocol):
    def get(self, kind: Kind, namespace: str, name: str) -> Object | None: ...


@dataclass(frozen=True)
class Fetched:
    """Objects of one namespace that were fetched beforehand, for functions that cannot wait."""

    objects: dict[tuple[Kind, str], Object]

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.objects.get((kind, name))


async def fetch(world: World, namespace: str, places: Iterable[tuple[Kind, str]]) -> Fetched:
    """What is there of these."""
    found = {}
    for kind, name in dict.fromkeys(places):
        if (obj := await world.fetch(kind, namespace, name)) is not None:
            found[kind, name] = obj
    return Fetched(found)


def digest(getter: Getter, namespace: str, references: Iterable[Reference]) -> str:
    """Of what is there of the references; empty while nothing is."""
    found = []
    for kind, name, key in references:
        obj = getter.get(kind, namespace, name)
        if obj is None:
            continue
        data = {**(obj.get("data") or {}), **(obj.get("binaryData") or {})}
        found.append([kind.kind, name, {key: data.get(key)} if key else data])
    if not found:
        return ""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def digest_annotation(digest: str) -> dict[str, str]:
    """For a server's pods; nothing while nothing was read."""
    return {CONFIG_DIGEST: digest} if digest else {}
