"""kube-rbac-proxy: our own authenticating and authorising reverse proxy, with the argv that operators give the image."""

from __future__ import annotations

from modelyard.local.images.recipe import Invocation, Recipe
from modelyard.pins import pins


def _translate(invocation: Invocation) -> Invocation:
    argv = list(invocation.argv)
    if argv and argv[0].rsplit("/", 1)[-1] == "kube-rbac-proxy":
        argv.pop(0)
    elif argv and not argv[0].startswith("-"):
        return invocation
    return invocation.with_argv(invocation.built.python, "-P", "-m", "modelyard.programs.access_proxy", *argv)


recipe = Recipe(
    name="kube-rbac-proxy",
    description="authenticating and authorising proxy (TokenReview, SubjectAccessReview)",
    patterns=("kube-rbac-proxy", "origin-kube-rbac-proxy", "ose-kube-rbac-proxy*", "*kube-auth-proxy*"),
    version=pins()["kube-rbac-proxy"].local,
    runs="modelyard's own authorizing proxy",
    command=("kube-rbac-proxy",),
    translate=_translate,
)
