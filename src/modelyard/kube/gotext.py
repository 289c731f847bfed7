"""Plain data as Go prints it: in messages that Kubernetes makes of what it was sent."""

from __future__ import annotations

import json
from typing import Any

_GO_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}


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


def go_quote(text: str) -> str:
    """A string as Go's %q prints it."""
    out = ['"']
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif char in _GO_ESCAPES:
            out.append(_GO_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif code < 0x80:
            out.append(f"\\x{code:02x}")
        else:
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    out.append('"')
    return "".join(out)
