"""A Kubernetes API server in Python, on SQLite or in memory: the laptop cluster's heart, and a bench for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelyard.local.apiserver.server import ApiServer
    from modelyard.local.apiserver.storage.sqlite import StateUnusable

__all__ = ["ApiServer", "StateUnusable"]


def __getattr__(name: str) -> object:
    """Loaded when first asked for: whoever needs one of the rooms only does not load the house."""
    if name == "ApiServer":
        from modelyard.local.apiserver.server import ApiServer

        return ApiServer
    if name == "StateUnusable":
        from modelyard.local.apiserver.storage.sqlite import StateUnusable

        return StateUnusable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
