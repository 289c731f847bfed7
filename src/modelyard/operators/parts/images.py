"""The images that operators put into pods by default, and the versions in them (`images.toml`, which local recipes share)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Pin:
    """An image without tag, and the version that goes with it on a cluster."""

    image: str
    version: str


@cache
def pin(name: str) -> Pin:
    text = resources.files("modelyard").joinpath("images.toml").read_text(encoding="utf-8")
    entry = tomllib.loads(text)[name]
    return Pin(entry["image"], entry["cluster"])
