"""The image pins that operators and recipes share (`images.toml`, package data)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Pin:
    image: str
    cluster: str
    local: str


@cache
def pins() -> dict[str, Pin]:
    text = resources.files("modelyard").joinpath("images.toml").read_text()
    return {name: Pin(**values) for name, values in tomllib.loads(text).items()}
