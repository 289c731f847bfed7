"""A user's own recipes as TOML files, one a file, in a folder that is read again whenever it changes."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelyard.kube.names import env_name
from modelyard.local.images.recipe import Base, Recipe, own_programs_first, unchanged

VARIABLE = "MODELYARD_IMAGES"
_PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w.,\s-]+\])?\s*==\s*[^\s*;]+(?:\s*;.*)?")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_EXAMPLE = 'for example images = ["shop/web"]'


class BadFile(Exception):
    """A file that is not a recipe; the text names the file, the field and the remedy."""


def images_directory(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the user's recipes: MODELYARD_IMAGES, or `images.d` in the user's configuration."""
    env = os.environ if environ is None else environ
    if env.get(VARIABLE):
        return Path(env[VARIABLE]).expanduser()
    base = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else Path.home() / ".config"
    return base / "modelyard" / "images.d"


@dataclass(slots=True)
class Folder:
    """The recipes of a folder as they are now. A file with a mistake takes no other with it."""

    path: Path
    _seen: tuple[tuple[str, int, int], ...] | None = None
    _recipes: list[Recipe] = field(default_factory=list)
    _problems: list[str] = field(default_factory=list)

    def recipes(self) -> list[Recipe]:
        self._refresh()
        return self._recipes

    def problems(self) -> list[str]:
        """One sentence for each file that could not be used."""
        self._refresh()
        return self._problems

    def _refresh(self) -> None:
        found = sorted(self.path.glob("*.toml")) if self.path.is_dir() else []
        seen = tuple((path.name, *_state(path)) for path in found)
        if seen == self._seen:
            return
        self._seen, self._recipes, self._problems = seen, [], []
        for path in found:
            try:
                self._recipes.append(read(path))
            except BadFile as error:
                self._problems.append(str(error))


def _state(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size


def read(path: Path) -> Recipe:
    """The recipe in a file. Raises `BadFile`."""
    try:
        data = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path}: not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path}: cannot be read: {error}") from None
    return _Reader(path, data).recipe()


class _Reader:
    def __init__(self, path: Path, data: dict[str, Any]) -> None:
        self._path = path
        self._data = data

    def recipe(self) -> Recipe:
        if not _NAME.fullmatch(self._path.stem):
            raise BadFile(f"{self._path}: the file's name is the recipe's: use lower case letters, digits, - and .")
        fields: dict[str, Callable[[], object]] = {
            "images": self._images, "description": lambda: self._text("description"), "version": lambda: self._text("version"),
            "entrypoint": lambda: self._words("entrypoint"), "command": lambda: self._words("command"),
            "packages": self._packages, "lock": self._lock, "source": self._source, "env": self._env,
        }  # fmt: skip
        for name in self._data:
            if name not in fields:
                raise self._bad(name, f"unknown field; a recipe has {', '.join(fields)}")
        packages, lock, source = self._packages(), self._lock(), self._source()
        if packages and lock is not None:
            raise self._bad("lock", "packages are given as well; keep one of the two")
        isolated = bool(packages or lock is not None or source)
        return Recipe(
            name=self._path.stem,
            description=self._text("description") or f"from {self._path.name}",
            patterns=self._images(),
            version=self._text("version"),
            entrypoint=self._words("entrypoint"),
            command=self._words("command"),
            lock=lock,
            packages=packages,
            base=Base.ENVIRONMENT if isolated else Base.SYSTEM,
            env=self._env(),
            source_paths=source,
            translate=own_programs_first if isolated else unchanged,
        )

    def _bad(self, name: str, what: str) -> BadFile:
        return BadFile(f"{self._path}: {name}: {what}")

    def _text(self, name: str) -> str:
        value = self._data.get(name, "")
        if not isinstance(value, str):
            raise self._bad(name, f'must be a text, for example {name} = "1.0"')
        return value

    def _words(self, name: str) -> tuple[str, ...]:
        value = self._data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self._bad(name, f'must be a list of texts, for example {name} = ["python", "-m", "shop"]')
        return tuple(value)

    def _images(self) -> tuple[str, ...]:
        if "images" not in self._data:
            raise self._bad("images", f"is missing; name the images that this recipe runs, {_EXAMPLE}")
        images = self._words("images")
        if not images or not all(images):
            raise self._bad("images", f"must not be empty, {_EXAMPLE}")
        for image in images:
            if ":" in image.rpartition("/")[2] or "@" in image:
                raise self._bad("images", f"{image!r} has a tag; leave it out, a recipe is for all tags of an image")
        return images

    def _packages(self) -> tuple[str, ...]:
        packages = self._words("packages")
        for package in packages:
            if not _PINNED.fullmatch(package.strip()):
                raise self._bad("packages", f"{package!r} is not pinned; write it as name==version")
        return packages

    def _lock(self) -> Path | None:
        name = self._text("lock")
        if not name:
            return None
        lock = self._below(name)
        if not lock.is_file():
            raise self._bad("lock", f"there is no file {lock}; make one with `uv pip compile --generate-hashes`")
        if "--hash=" not in lock.read_text(errors="replace"):
            raise self._bad("lock", f"{lock} has no hashes; make it with `uv pip compile --generate-hashes`")
        return lock

    def _source(self) -> tuple[Path, ...]:
        folders = tuple(self._below(name) for name in self._words("source"))
        for folder in folders:
            if not folder.is_dir():
                raise self._bad("source", f"there is no folder {folder}; paths start at the recipe's own folder")
        return folders

    def _below(self, name: str) -> Path:
        return (self._path.parent / Path(name).expanduser()).resolve()

    def _env(self) -> dict[str, str]:
        value = self._data.get("env", {})
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise self._bad("env", 'must be a table of texts, for example [env] and below it MODE = "demo"')
        for name in value:
            if env_name(name):
                raise self._bad("env", f"{name!r} cannot be the name of a variable")
        return value
