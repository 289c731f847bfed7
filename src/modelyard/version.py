"""The version of this installation. It is made from the git tag when the wheel is built, and stands in the package's metadata."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


@cache
def version() -> str:
    try:
        return installed("modelyard")
    except PackageNotFoundError:
        return "0+not.installed"
