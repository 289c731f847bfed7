"""What a recipe is: data, and small functions that turn a container's command into one that runs on this machine."""

from __future__ import annotations

import fnmatch
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import modelyard

LOCKS = Path(__file__).parent / "locks"
PROGRAMS = Path(__file__).parent / "programs"
_NEEDED = ("aiohttp", "msgspec", "yaml", "cryptography")


@dataclass(frozen=True, slots=True)
class Built:
    """An image that is ready on this machine. `prefix` is its virtual environment (our own one if it needs no packages)."""

    recipe: Recipe
    prefix: Path
    identity: str
    size: int = 0

    @property
    def bin(self) -> Path:
        return self.prefix / "bin"

    @property
    def python(self) -> str:
        return sys.executable if self.recipe.lock is None else str(self.bin / "python")

    def python_path(self) -> list[Path]:
        """Directories that the program's interpreter must search beside its own."""
        return [*self.recipe.source_paths, *(own_packages() if self.recipe.lock is None else [])]

    def shown(self) -> list[Path]:
        """The directories of this machine that a container must see, read-only, to run the image."""
        paths = {self.prefix.resolve(), Path(sys.base_prefix).resolve()}
        paths |= {path.resolve() for path in self.python_path()}
        real_python = Path(self.python).resolve()
        paths.add(real_python.parents[1])
        return sorted(paths)


@dataclass(frozen=True, slots=True)
class Invocation:
    """One start of a container: what to run, and what it needs to know. `argv` already holds command and args."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    pod_ip: str
    built: Built

    def with_argv(self, *argv: str) -> Invocation:
        return replace(self, argv=argv)

    def with_env(self, **values: str) -> Invocation:
        return replace(self, env={**self.env, **values})

    def with_default_env(self, **values: str) -> Invocation:
        """The same with these variables where the pod does not set them itself."""
        return replace(self, env={**values, **self.env})


def own_packages() -> list[Path]:
    """Where this very process finds modelyard and what its programs need, and no more of the machine than that."""
    found = [Path(modelyard.__file__).parents[1]]
    for name in _NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            found.append(Path(spec.origin).parents[1])
    return list(dict.fromkeys(found))


Translate: TypeAlias = Callable[[Invocation], Invocation]


def unchanged(invocation: Invocation) -> Invocation:
    return invocation


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kind of image runs here."""

    name: str
    description: str
    patterns: tuple[str, ...]
    """Shell patterns for the repository, with or without its host, without tag and digest: `*/mlflow`, `postgres`."""
    version: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    lock: Path | None = None
    """Hashed requirements; None when the image's program is part of modelyard itself."""
    env: Mapping[str, str] = field(default_factory=dict)
    source_paths: tuple[Path, ...] = ()
    """Directories put on the program's Python path: plugins of ours."""
    translate: Translate = unchanged
    unprivileged: bool = False
    """The program refuses to run as root: drop to another user."""
    keep_env: frozenset[str] = frozenset()
    """Variables whose loopback addresses are not the pod's own and must not be rewritten."""
    stop_signal: int = 15
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Programs that the image has at fixed paths and that probes run: what does their work here."""

    def located(self, command: Sequence[str]) -> list[str]:
        """A command to run in the container, with the image's own programs replaced (also inside a shell's text)."""
        if command and command[0] in self.programs:
            return list(self.programs[command[0]])
        words = list(command)
        for program, ours in self.programs.items():
            words = [word.replace(program, " ".join(ours)) for word in words]
        return words

    def matches(self, image: str) -> bool:
        name = repository(image)
        short = name.rsplit("/", 1)[-1]
        return any(fnmatch.fnmatchcase(name, p) or fnmatch.fnmatchcase(short, p) for p in self.patterns)


def repository(image: str) -> str:
    """The image's name without tag and digest."""
    name = image.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return head + slash + tail.partition(":")[0]


def tag(image: str) -> str:
    tail = image.partition("@")[0].rpartition("/")[2]
    return tail.partition(":")[2] or "latest"
