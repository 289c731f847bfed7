"""Plain data as Go prints it: in messages that Kubernetes makes of what it was sent."""

from __future__ import annotations

import json
from typing import Any


def go_text(value: Any) -> str:
    """With %v."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    return "<nil>" if value is None else _plain(value)


def go_source(value: Any) -> str:
    """With %#v: as Go's source would write it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)}:{_element(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_element, value))}}}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _plain(value)


def _element(value: Any) -> str:
    return "interface {}(nil)" if value is None else go_source(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        # Larger than any whole number that Go has.
        return repr(float(value))
    return str(value)
