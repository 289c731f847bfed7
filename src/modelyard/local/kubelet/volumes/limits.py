"""How much a pod's volumes hold, against the limits that its emptyDirs name."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from modelyard.kube import quantities
from modelyard.kube.kinds import Object


def limits(pod: Object) -> dict[str, str]:
    """The emptyDirs of a pod that have a limit, with the limit as it is written."""
    return {
        volume["name"]: str(volume["emptyDir"]["sizeLimit"])
        for volume in pod["spec"].get("volumes") or []
        if (volume.get("emptyDir") or {}).get("sizeLimit")
        and quantities.parse(volume["emptyDir"]["sizeLimit"]).value > 0
    }


def over_limit(limited: dict[str, str], folder: Path) -> str:
    """What an eviction says about the first volume that holds too much; "" if none does."""
    for name, limit in limited.items():
        if usage(folder / name) > quantities.parse(limit).value:
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    return ""


def usage(folder: Path) -> int:
    """Bytes on disk below a directory. What is nested too deep to be looked at counts as endless."""
    total = 0
    seen: set[tuple[int, int]] = set()
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                        if (found.st_dev, found.st_ino) in seen:
                            continue
                        seen.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * 512
                    if stat.S_ISDIR(found.st_mode):
                        pending.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return sys.maxsize
    return total
