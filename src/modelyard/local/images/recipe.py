"""What a recipe is: data, and small functions that turn a container's command into one that runs on this machine."""

from __future__ import annotations

import fnmatch
import importlib.util
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import modelyard

LOCKS = Path(__file__).parent / "locks"
PROGRAMS = Path(modelyard.__file__).parent / "programs"
_NEEDED = ("aiohttp", "msgspec", "yaml", "cryptography")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)")


class Base(StrEnum):
    """What the programs of an image without packages are."""

    MODELYARD = "modelyard"
    """Part of modelyard: they run in its own virtual environment."""
    ENVIRONMENT = "environment"
    """A virtual environment with nothing but Python."""
    SYSTEM = "system"
    """The programs of this machine; nothing of modelyard is shown to the container."""


@dataclass(frozen=True, slots=True)
class Built:
    """An image that is ready on this machine. `prefix` is its virtual environment (our own one if it has none)."""

    recipe: Recipe
    prefix: Path
    identity: str
    size: int = 0

    @property
    def bin(self) -> Path:
        return self.prefix / "bin"

    @property
    def python(self) -> str:
        return str(self.bin / "python") if self.recipe.has_environment else sys.executable

    def python_path(self) -> list[Path]:
        """Directories that the program's interpreter must search beside its own."""
        ours = not self.recipe.has_environment and self.recipe.base is Base.MODELYARD
        return [*self.recipe.source_paths, *(own_packages() if ours else [])]

    def shown(self) -> list[Path]:
        """The directories of this machine that a container must see, read-only, to run the image."""
        if not self.recipe.has_environment and self.recipe.base is Base.SYSTEM:
            return []
        paths = {self.prefix.resolve(), Path(sys.base_prefix).resolve()}
        paths |= {path.resolve() for path in (*self.python_path(), *self.recipe.shown_paths)}
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


def own_programs_first(invocation: Invocation) -> Invocation:
    """The same with the programs of the image's virtual environment found before those of the machine."""
    return invocation.with_env(PATH=f"{invocation.built.bin}:{invocation.env.get('PATH', '')}")


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
    """Hashed requirements, installed into a virtual environment of the image's own."""
    packages: tuple[str, ...] = ()
    """Pinned requirements without hashes (`flask==3.1.0`), where there is no lock."""
    base: Base = Base.MODELYARD
    """What runs where there is neither a lock nor a package."""
    runs: str = ""
    """What really runs, where that is another program than the image's name says; an Event on the pod says so."""
    env: Mapping[str, str] = field(default_factory=dict)
    source_paths: tuple[Path, ...] = ()
    """Directories put on the program's Python path: plugins of ours."""
    shown_paths: tuple[Path, ...] = ()
    """Directories that the container sees: programs of ours that run by their path."""
    translate: Translate = unchanged
    unprivileged: bool = False
    """The program refuses to run as root: drop to another user."""
    keep_env: frozenset[str] = frozenset()
    """Variables whose loopback addresses are not the pod's own and must not be rewritten."""
    stop_signal: int = 15
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Programs that the image has at fixed paths and that probes run: what does their work here."""

    @property
    def has_environment(self) -> bool:
        """Whether it has a virtual environment of its own, which must be built."""
        return self.lock is not None or bool(self.packages) or self.base is Base.ENVIRONMENT

    def substitution(self, image: str) -> str:
        """What runs here instead of that image, for its pod's Events; empty if the recipe does what the tag says."""
        wanted, given = _VERSION.match(tag(image)), _VERSION.search(self.version)
        other = wanted is not None and given is not None and not _within(given[1], wanted[1])
        if not self.runs and not other:
            return ""
        asked = f" ({wanted[1]} was asked for)" if wanted is not None and other else ""
        return f'{self.runs or f"{self.name} {self.version}"} runs in place of image "{image}"{asked}'

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


def _within(version: str, wanted: str) -> bool:
    """Whether a version is one of those that a tag means: 3.11.7 is a 3 and a 3.11, not a 3.1."""
    asked = wanted.split(".")
    return version.split(".")[: len(asked)] == asked


def machine_system() -> str:
    """The name of this machine's operating system."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
