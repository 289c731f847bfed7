"""Whether files have changed since they were last read. Follows links, so that the swap of a ConfigMap's `..data` shows."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

_UNSETTLED_NS = 2 * 10**9
"""A file may change again within one tick of its clock: for so long, its content is compared as well."""

Signature = tuple[int, int, int, int]


def signature(path: Path) -> Signature | None:
    """None where no file can be found."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@dataclass
class _Seen:
    signature: Signature | None
    digest: bytes
    settled: bool


class Watched:
    """The files that someone reads again and again."""

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def changed(self, path: Path) -> bool:
        """Whether the file is another than at the last call; True at the first."""
        now, before = signature(path), self._seen.get(path)
        if before is not None and before.settled and before.signature == now:
            return False
        digest = _digest(path)
        settled = now is None or time.time_ns() - now[3] > _UNSETTLED_NS
        self._seen[path] = _Seen(now, digest, settled)
        return before is None or before.digest != digest

    def forget(self, path: Path) -> None:
        self._seen.pop(path, None)


def _digest(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (OSError, ValueError) as error:
        return str(error).encode()
    return digest.digest()


def tree(directory: Path, *, deepest: int = 6) -> tuple[tuple[str, Signature | None], ...]:
    """The files below a directory with their signatures."""
    found = []
    for place, directories, names in os.walk(directory):
        if len(Path(place).relative_to(directory).parts) >= deepest:
            directories.clear()
        # What a ConfigMap volume keeps for itself.
        directories[:] = sorted(name for name in directories if not name.startswith(".."))
        found += [(os.path.join(place, name), signature(Path(place, name))) for name in sorted(names)]
    return tuple(found)
