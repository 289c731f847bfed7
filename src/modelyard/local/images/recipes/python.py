"""Python: the interpreter that runs modelyard, in a virtual environment without packages, whatever tag is asked for."""

from __future__ import annotations

import platform
import re

from modelyard.local.images.recipe import Base, Invocation, Recipe, machine_system, own_programs_first

VERSION = platform.python_version()
_INTERPRETER = re.compile(r"(?:/usr/local/bin/|/usr/bin/)?python(?:3(?:\.\d+)?)?")


def _translate(invocation: Invocation) -> Invocation:
    invocation = own_programs_first(invocation)
    program, *arguments = invocation.argv
    # The image has one interpreter under several names; the virtual environment knows only some of them.
    if _INTERPRETER.fullmatch(program):
        return invocation.with_argv("python3", *arguments)
    return invocation


recipe = Recipe(
    name="python",
    description=f"Python {VERSION} without packages, and the programs of this machine",
    patterns=("python",),
    version=VERSION,
    command=("python3",),
    base=Base.ENVIRONMENT,
    runs=f"Python {VERSION} with the programs of this machine ({machine_system()})",
    translate=_translate,
)
