"""Plain data as Go prints it with %v: in messages that Kubernetes makes of what it was sent."""

from __future__ import annotations

from typing import Any


def go_text(value: Any) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
