"""The lists of models that a catalog's pod copies from an image: small samples of ours, where the image's own are not to be had."""

from __future__ import annotations

from modelyard.local.images.recipe import PROGRAMS, Invocation, Recipe
from modelyard.pins import pins

_SAMPLES = PROGRAMS / "catalog" / "samples"
_PLACES = {"/app/data": _SAMPLES / "data", "/app/benchmarks": _SAMPLES / "benchmarks"}
"""Where the image has its lists and its measurements."""


def _translate(invocation: Invocation) -> Invocation:
    words = list(invocation.argv)
    for place, ours in _PLACES.items():
        words = [word.replace(place, str(ours)) for word in words]
    return invocation.with_argv(*words)


recipe = Recipe(
    name="model-metadata",
    description="a few sample lists for the model catalog: models, MCP servers, agents, measurements",
    patterns=("odh-model-metadata-collection*", "odh-model-performance-data*"),
    version=pins()["model-metadata-collection"].local,
    command=("sh",),
    runs="a copy of modelyard's sample lists",
    shown_paths=(PROGRAMS,),
    translate=_translate,
)
