"""The model registry's image: our own REST server and catalog server, with the argv that operators give the image."""

from __future__ import annotations

from modelyard.local.images.recipe import LOCKS, PROGRAMS, Invocation, Recipe
from modelyard.pins import pins


def _translate(invocation: Invocation) -> Invocation:
    program, *arguments = invocation.argv
    if program.rsplit("/", 1)[-1] != "model-registry":
        if program not in ("proxy", "catalog"):
            return invocation
        arguments = [program, *arguments]
    return invocation.with_argv(invocation.built.python, "-I", str(PROGRAMS / "__main__.py"), *arguments)


recipe = Recipe(
    name="model-registry",
    description="model registry REST server and model catalog server",
    patterns=("model-registry", "odh-model-registry*"),
    version=pins()["model-registry"].local,
    entrypoint=("/model-registry",),
    command=("proxy",),
    lock=LOCKS / "model-registry.txt",
    shown_paths=(PROGRAMS,),
    translate=_translate,
)
