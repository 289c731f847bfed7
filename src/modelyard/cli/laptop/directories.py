"""The directories behind PersistentVolumes, one for each claim."""

from __future__ import annotations

import shutil
from pathlib import Path


class VolumeDirectories:
    """Folders named by the claim's uid: no name that a user chooses becomes a path."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, uid: str) -> str:
        return str(self._root / uid)

    def create(self, uid: str) -> None:
        folder = self._root / uid
        folder.mkdir(parents=True, exist_ok=True)
        # Programs may run as another user than the one who made the folder (postgres does).
        folder.chmod(0o777)

    def remove(self, uid: str) -> None:
        if uid and (folder := self._root / uid).parent == self._root:
            shutil.rmtree(folder, ignore_errors=True)
