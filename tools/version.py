"""The version of the project, for the build: from the git tag, without a package of its own for that. Hatchling runs this file.

On the tag `v0.2.0` it is `0.2.0`; 5 commits later `0.2.1.dev5+gSHA`; before the first tag `0.1.0.devN+gSHA`.
A source archive knows its version; where there is neither, the environment names it (MODELYARD_VERSION; the Dockerfile does).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIRST = "0.1.0"
"""Counts until there is a tag."""
_DESCRIBED = re.compile(r"v(\d+(?:\.\d+)*)((?:a|b|rc)\d+)?-(\d+)-(g[0-9a-f]+)(-dirty)?")


def version(root: Path = ROOT) -> str:
    return os.environ.get("MODELYARD_VERSION") or of_source_archive(root) or of_git(root) or f"{FIRST}.dev0"


def of_source_archive(root: Path) -> str:
    try:
        lines = (root / "PKG-INFO").read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("Version:").strip() for line in lines if line.startswith("Version:")), "")


def of_git(root: Path) -> str:
    # The repository must be this project's: an unpacked archive may lie in someone else's.
    if Path(_git(root, "rev-parse", "--show-toplevel") or "/nowhere").resolve() != root.resolve():
        return ""
    described = _git(root, "describe", "--tags", "--long", "--dirty", "--abbrev=8", "--match", "v[0-9]*")
    if described:
        return of_description(described)
    commit, dirty = _git(root, "rev-parse", "--short=8", "HEAD"), _git(root, "status", "--porcelain", "-uno")
    if not commit:
        return ""
    return f"{FIRST}.dev{_git(root, 'rev-list', '--count', 'HEAD')}+g{commit}{'.dirty' if dirty else ''}"


def of_description(text: str) -> str:
    """From what `git describe --long --dirty` says."""
    match = _DESCRIBED.fullmatch(text)
    if match is None:
        raise ValueError(f"the tag of {text!r} is not a version: tags are like v0.2.0 or v0.2.0rc1")
    release, candidate, distance, commit, dirty = match.groups(default="")
    if distance == "0" and not dirty:
        return release + candidate
    if candidate:
        after = f"{release}{candidate}.post0"
    else:
        *head, last = release.split(".")
        after = ".".join([*head, str(int(last) + 1)])
    return f"{after}.dev{distance}+{commit}{'.dirty' if dirty else ''}"


def _git(root: Path, *words: str) -> str:
    """What git says; empty if it is missing or refuses."""
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=30)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    print(version())
