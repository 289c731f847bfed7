"""The directories behind PersistentVolumes, one for each claim."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from modelyard.local.kubelet.volumes.directories import NODE_VOLUMES


class VolumeDirectories:
    """Folders named by the claim's uid: no name that a user chooses becomes a path."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, uid: str) -> str:
        """As objects name it: without the folder of the cluster, which may be moved."""
        return f"{NODE_VOLUMES}/{uid}"

    def create(self, uid: str) -> None:
        folder = self._root / uid
        if not folder.exists():
            folder.mkdir(parents=True)
            # Programs may run as another user than the one who made the folder (postgres does).
            folder.chmod(0o777)

    async def remove(self, uid: str) -> None:
        folder = self._root / uid
        if folder.resolve().parent == self._root.resolve() and folder.exists():
            # In a thread: a large folder takes long, and everything else goes on.
            await asyncio.to_thread(_remove, folder)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except PermissionError:
        # A program may have taken its own right to write away, as package caches do.
        for base, names, _ in os.walk(folder):
            for path in (os.path.join(base, name) for name in names):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
        shutil.rmtree(folder)
