"""Packages that only the laptop cluster and offline plans need. The image for clusters leaves them out, so commands look first."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from modelyard.failure import Failed

LAPTOP_PACKAGES = {"cel_expr_python": "cel-expr-python", "uv": "uv", "tzdata": "tzdata"}
"""Module and package: an ordinary installation has them all."""


def require_rules() -> None:
    """The API server checks CEL rules; without the library it would fail in the middle of a request."""
    if find_spec("cel_expr_python") is None:
        raise Failed(lacking(["cel_expr_python"]))


def require_laptop() -> None:
    """Everything that a laptop cluster needs, before the first of its parts is started."""
    missing = [name for name in ("cel_expr_python", "uv") if find_spec(name) is None]
    if "uv" in missing and shutil.which("uv"):
        missing.remove("uv")
    if missing:
        raise Failed(lacking(missing))


def lacking(modules: Sequence[str]) -> str:
    """What is missing, and the command that brings it."""
    names = " ".join(LAPTOP_PACKAGES[module] for module in modules)
    return (
        f"this installation lacks {names.replace(' ', ' and ')}, which the image for clusters leaves out; "
        f"install with: {sys.executable} -m pip install {names}"
    )
