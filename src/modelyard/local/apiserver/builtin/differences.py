"""The text that shows what differs between two specs, for refusals of changes to what may not change."""

from __future__ import annotations

from typing import Any


def difference(old: Any, new: Any, name: str) -> str:
    """A unified-looking diff of both as YAML; for people, its exact form is not a contract."""
    import difflib

    import yaml

    before = yaml.safe_dump({name: old}, sort_keys=True).splitlines()
    after = yaml.safe_dump({name: new}, sort_keys=True).splitlines()
    lines = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    return "\n".join(lines)
