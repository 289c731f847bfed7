"""A digest of the Secrets and ConfigMaps that a server reads only at start, so that its pods follow their changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from modelyard.kube.kinds import Kind
from modelyard.runtime.world import World


def digest(world: World, namespace: str, references: Iterable[tuple[Kind, str, str]]) -> str:
    """Of what is there among `(kind, name, key)` (an empty key: all of it); empty while nothing is."""
    found = []
    for kind, name, key in references:
        obj = world.get(kind, namespace, name)
        if obj is None:
            continue
        data = {**(obj.get("data") or {}), **(obj.get("binaryData") or {})}
        found.append([kind.kind, name, {key: data.get(key)} if key else data])
    if not found:
        return ""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]
