"""A small HTTP program for tests and examples: answers, delays, fails, crashes or eats memory, as told."""

from __future__ import annotations

from modelyard.local.images.recipe import PROGRAMS, Invocation, Recipe
from modelyard.pins import pins

_HASHICORP_PORT = "5678"
"""Where `hashicorp/http-echo`, whose options have one dash, listens unless it is told otherwise."""


def _translate(invocation: Invocation) -> Invocation:
    argv = list(invocation.argv)
    if argv and argv[0] == "http-echo":
        argv.pop(0)
    elif argv and not argv[0].startswith("-"):
        return invocation
    if any(word.startswith("-text") for word in argv):
        argv = ["--port", _HASHICORP_PORT, *argv]
    return invocation.with_argv(
        invocation.built.python, "-I", "-S", str(PROGRAMS / "http_echo.py"), "--host", invocation.pod_ip, *argv
    )


recipe = Recipe(
    name="http-echo",
    description="small HTTP server for tests: echoes, delays, fails, crashes, allocates",
    patterns=("http-echo", "modelyard/http-echo"),
    version=pins()["http-echo"].local,
    command=("http-echo",),
    translate=_translate,
)
