"""Recipes that stand in for the model registry's images, added as any package may add its own: an entry point."""

from __future__ import annotations

from pathlib import Path

from modelyard.local.images.recipe import LOCKS, Invocation, Recipe
from modelyard.local.images.recipes.postgres import binaries

HERE = Path(__file__).parent
SERVER = HERE / "registry_server.py"


def _serve(invocation: Invocation) -> Invocation:
    path = f"{binaries(invocation.built)}:{invocation.env.get('PATH', '')}"
    argv = (invocation.built.python, "-I", str(SERVER), "--host", invocation.pod_ip, *invocation.argv[1:])
    return invocation.with_env(PATH=path).with_argv(*argv)


def _fill(invocation: Invocation) -> Invocation:
    return invocation.with_argv(invocation.built.python, "-I", "-c", "print('nothing to copy')")


recipes = [
    Recipe(
        name="registry-standin",
        description="answers as the model registry and the model catalog do, if their database lets it in",
        patterns=("model-registry",),
        version="1",
        lock=LOCKS / "postgres.txt",
        source_paths=(HERE,),
        translate=_serve,
    ),
    Recipe(
        name="registry-data-standin",
        description="brings no lists",
        patterns=("odh-model-metadata-collection",),
        version="1",
        translate=_fill,
    ),
]
