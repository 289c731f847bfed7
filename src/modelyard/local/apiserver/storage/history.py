"""A bounded list of changes, in version order, that readers walk by position; the oldest are dropped when it grows too long."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Generic, Protocol, TypeVar


class Versioned(Protocol):
    version: int


T = TypeVar("T", bound=Versioned)

_version = attrgetter("version")


class History(Generic[T]):
    """Positions count all changes ever appended, so they stay valid while old ones are dropped."""

    __slots__ = ("_bytes", "_entries", "_first", "_sizes", "floor")

    MOST = 4096
    LEAST = 128
    MOST_BYTES = 2 << 20

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """Every change after this version is still here."""
        self._entries: list[T] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self._first = 0

    @property
    def end(self) -> int:
        """The position that the next change will have."""
        return self._first + len(self._entries)

    @property
    def start(self) -> int:
        """The position of the oldest change that is still here."""
        return self._first

    def append(self, change: T, size: int) -> None:
        self._entries.append(change)
        self._sizes.append(size)
        self._bytes += size
        count = len(self._entries)
        if count > self.MOST or (self._bytes > self.MOST_BYTES and count > self.LEAST):
            # A quarter at a time, so that dropping costs little per change.
            self._drop(max(count // 4, 1))

    def _drop(self, count: int) -> None:
        self.floor = self._entries[count - 1].version
        self._bytes -= sum(self._sizes[:count])
        del self._entries[:count]
        del self._sizes[:count]
        self._first += count

    def clear(self, floor: int) -> None:
        self._drop(len(self._entries)) if self._entries else None
        self.floor = max(self.floor, floor)

    def position_after(self, version: int) -> int:
        """The position of the first change that is newer than a version (which must not be below the floor)."""
        return self._first + bisect_right(self._entries, version, key=_version)

    def since(self, version: int) -> list[T]:
        """All changes newer than a version."""
        return self._entries[bisect_right(self._entries, version, key=_version) :]

    def read(self, position: int, limit: int) -> list[T]:
        """Up to `limit` changes from a position on."""
        index = position - self._first
        return self._entries[index : index + limit]
