"""Small images that people use for their shell: the shell and the core utilities of this machine."""

from __future__ import annotations

import shutil

from modelyard.local.images.recipe import Base, Invocation, Recipe, machine_system


def _translate(invocation: Invocation) -> Invocation:
    argv = invocation.argv
    # `busybox sh` names an applet: where the machine has no busybox, its own program of that name runs.
    if len(argv) > 1 and argv[0].rsplit("/", 1)[-1] == "busybox" and shutil.which("busybox") is None:
        return invocation.with_argv(*argv[1:])
    return invocation


recipe = Recipe(
    name="shell",
    description="the shell and programs of this machine, for busybox, alpine, debian and ubuntu images",
    patterns=("busybox", "alpine", "bash", "debian", "ubuntu"),
    version=machine_system(),
    command=("sh",),
    base=Base.SYSTEM,
    runs=f"the shell and programs of this machine ({machine_system()})",
    translate=_translate,
)
