"""Labels and label selectors in table cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NONE = "<none>"


def format_labels(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def format_selector(selector: Mapping[str, Any] | None, empty: str = NONE) -> str:
    """A label selector as one line; `empty` where it selects by nothing."""
    if not selector:
        return empty
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
        match expression.get("operator"):
            case "In":
                terms.append((key, f"{key} in ({values})"))
            case "NotIn":
                terms.append((key, f"{key} notin ({values})"))
            case "Exists":
                terms.append((key, key))
            case "DoesNotExist":
                terms.append((key, f"!{key}"))
            case _:
                return "<error>"
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0])) or empty
