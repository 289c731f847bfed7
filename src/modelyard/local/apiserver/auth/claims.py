"""What tokens say, and what is wrong with those that are none."""

from __future__ import annotations

from typing import Any, TypeAlias

Claims: TypeAlias = dict[str, Any]


class BadToken(Exception):
    """The text is not a token that this server's key signed."""
