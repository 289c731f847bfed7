"""The images that operators name and recipes run, with the versions that go together (`images.toml`, package data)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Pin:
    image: str
    """Without tag."""
    cluster: str
    """The version that an operator puts into pods by default."""
    local: str = ""
    """What a laptop cluster runs for the image; empty: nothing does."""

    @property
    def reference(self) -> str:
        """The image with the tag of its version, as a container names it."""
        return f"{self.image}:{self.cluster}"


@cache
def pins() -> dict[str, Pin]:
    text = resources.files("modelyard").joinpath("images.toml").read_text(encoding="utf-8")
    return {name: Pin(**values) for name, values in tomllib.loads(text).items()}
