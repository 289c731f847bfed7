"""A journal of requests, for tests and for the curious: who, which verb, which object, which status."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.messages import Request

Counted = tuple[str, str, str, str, str, str, int]
"""Verb, group, version, resource, subresource, scope and status: what requests are counted by."""
WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))


class Journal:
    """The last requests, oldest first. Entries are plain data: user, verb, resource, subresource, namespace, name, status, ..."""

    def __init__(self, most: int = 10_000) -> None:
        self._entries: deque[Object] = deque(maxlen=most)
        self._open = 0
        self.total = 0
        """How many requests there were, also those no longer listed."""
        self.counts: dict[Counted, int] = {}
        """How many requests to resources were answered, from the start on."""

    def open(self, request: Request) -> Object:
        self._open += 1
        self.total += 1
        entry: Object = {"method": request.method, "path": request.path, "verb": request.method.lower(), "status": 0}
        self._entries.append(entry)
        return entry

    def close(self, entry: Object, status: int) -> None:
        self._open -= 1
        entry["status"] = status
        scope = entry.get("scope")
        if scope is not None:
            key = (
                entry["verb"],
                entry["group"],
                entry["version"],
                entry["resource"],
                entry["subresource"],
                scope,
                status,
            )
            self.counts[key] = self.counts.get(key, 0) + 1

    @property
    def under_way(self) -> int:
        """How many requests have no answer yet (a watch is answered when it starts)."""
        return self._open

    def clear(self) -> None:
        self._entries.clear()

    def entries(self, **fields: Any) -> list[Object]:
        """Those whose fields have the given values: `journal.entries(verb="create", resource="pods")`."""
        return [entry for entry in self._entries if all(entry.get(name) == value for name, value in fields.items())]

    def writes(self) -> list[Object]:
        """Those that ask for a change."""
        return [entry for entry in self._entries if entry.get("verb") in WRITES]

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
