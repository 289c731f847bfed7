"""The read-only view of the cluster that a reconcile gets: caches, clock, chance."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

from modelyard.kube.kinds import Kind, Object

Objects: TypeAlias = list[Object]
T = TypeVar("T")


class World(Protocol):
    """Reads are private copies: a caller may change what it gets. Reads only see kinds that the controller declared."""

    @property
    def now(self) -> datetime: ...

    def serves(self, kind: Kind) -> bool:
        """Does the API serve this kind right now (optional kinds may come and go)?"""
        ...

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """From the cache of a declared kind; None if absent. A kind that is not declared is an error of the programmer."""
        ...

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Objects: ...

    def by_index(self, name: str, value: str) -> Objects:
        """The objects that an index of the controller finds under a value."""
        ...

    async def fetch(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The whole object of a kind that is followed by its metadata only: read from the API once a version, then kept."""
        ...

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        """What the API serves under that name right now; None if nothing. For kinds that are known only at run time."""
        ...

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """An object of a kind that the controller `wraps`: from its watch where that shows it, else from the API. So None is certain."""
        ...

    def owned(self, kind: Kind) -> Objects:
        """The children of that kind which belong to the resource being reconciled (owner reference or tracking labels)."""
        ...

    def token(self, size: int = 32) -> str:
        """A random URL-safe text; tests control it."""
        ...

    async def call(self, outside: Callable[[], Awaitable[T]], *, timeout: float) -> T:
        """Talks to something beyond the API. Meanwhile other keys go on, however many calls wait; `TimeoutError` after `timeout` seconds."""
        ...

    async def logs(self, namespace: str, pod: str, container: str, *, lines: int) -> str:
        """The last lines that a container has written; empty where they cannot be read."""
        ...
