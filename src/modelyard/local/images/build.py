"""Builds recipes with `uv` into virtual environments in a cache: once, whole or not at all, one builder at a time."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import modelyard
from modelyard.local.images.installer import explain_failure, installer_environment
from modelyard.local.images.recipe import Built, Recipe

Progress = Callable[[str], None]


class BuildError(Exception):
    """An image could not be built; the text is what the installer said, shortened."""


@dataclass(frozen=True, slots=True)
class Cached:
    """One directory of the cache."""

    name: str
    path: Path
    size: int
    current: bool
    """Whether a recipe of today would use it; `prune` deletes the others."""


def cache_directory(environ: Mapping[str, str] | None = None) -> Path:
    env = os.environ if environ is None else environ
    if env.get("MODELYARD_CACHE"):
        return Path(env["MODELYARD_CACHE"]).expanduser() / "images"
    base = Path(env["XDG_CACHE_HOME"]) if env.get("XDG_CACHE_HOME") else Path.home() / ".cache"
    return base / "modelyard" / "images"


class Builder:
    def __init__(self, cache: Path | None = None, *, uv: str | None = None) -> None:
        self.cache = cache or cache_directory()
        self._uv = uv

    def identity(self, recipe: Recipe) -> str:
        """A digest of everything the built image depends on."""
        digest = hashlib.sha256()
        digest.update(f"{recipe.name}\n{sys.version_info[:2]}\n{platform.machine()}\n".encode())
        if recipe.has_environment:
            digest.update(recipe.lock.read_bytes() if recipe.lock else "\n".join(recipe.packages).encode())
        else:
            digest.update(modelyard.__file__.encode())
        return digest.hexdigest()

    def path(self, recipe: Recipe) -> Path:
        return self.cache / f"{recipe.name}-{self.identity(recipe)[:12]}"

    def find(self, recipe: Recipe) -> Built | None:
        """The built image if it is there."""
        if not recipe.has_environment:
            return Built(recipe, Path(sys.prefix), f"sha256:{self.identity(recipe)}")
        path = self.path(recipe)
        marker = path / "modelyard-size"
        try:
            size = int(marker.read_text())
        except (OSError, ValueError):
            return None
        return Built(recipe, path, f"sha256:{self.identity(recipe)}", size)

    async def build(self, recipe: Recipe, progress: Progress = lambda line: None) -> Built:
        """The built image, made now if it is not there. Two callers, also of two processes, build it once."""
        found = self.find(recipe)
        if found is not None:
            return found
        self.cache.mkdir(parents=True, exist_ok=True)
        async with self._lock(recipe):
            found = self.find(recipe)
            if found is not None:
                return found
            path = self.path(recipe)
            temporary = self.cache / f".{path.name}.{os.getpid()}"
            try:
                await self._install(recipe, temporary, progress)
                size = await asyncio.to_thread(disk_usage, temporary)
                (temporary / "modelyard-size").write_text(str(size))
                if path.exists():
                    await asyncio.to_thread(shutil.rmtree, path)
                temporary.rename(path)
            finally:
                await asyncio.to_thread(shutil.rmtree, temporary, ignore_errors=True)
        built = self.find(recipe)
        assert built is not None
        return built

    @contextlib.asynccontextmanager
    async def _lock(self, recipe: Recipe) -> AsyncIterator[None]:
        descriptor = os.open(self.cache / f".{recipe.name}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            # Without blocking a thread for the minutes another builder may take, which would delay a shutdown.
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.2)
            yield
        finally:
            os.close(descriptor)

    async def _install(self, recipe: Recipe, target: Path, progress: Progress) -> None:
        uv = self._uv or find_uv()
        progress(f"building {recipe.name} {recipe.version}")
        await self._run([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(target)], progress)
        packages = ["--require-hashes", "--requirement", str(recipe.lock)] if recipe.lock else list(recipe.packages)
        if not packages:
            return
        await self._run(
            [uv, "pip", "install", "--python", str(target / "bin" / "python"), "--compile-bytecode", "--link-mode",
             "hardlink", *packages],
            progress,
        )  # fmt: skip

    async def _run(self, argv: list[str], progress: Progress) -> None:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=installer_environment(os.environ),
        )
        assert process.stderr is not None
        said: list[str] = []
        try:
            async for raw in process.stderr:
                line = raw.decode(errors="replace").rstrip()
                if line:
                    said.append(line)
                    progress(line)
            code = await process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if code != 0:
            raise BuildError(explain_failure(said) or f"{argv[0]} exited with code {code}")

    def cached(self, recipes: Iterable[Recipe]) -> list[Cached]:
        """Every built image in the cache, also of recipes that are gone."""
        wanted = {self.path(recipe).name for recipe in recipes if recipe.has_environment}
        found = []
        for path in sorted(self.cache.iterdir()) if self.cache.is_dir() else []:
            marker = path / "modelyard-size"
            if marker.is_file():
                found.append(Cached(path.name.rpartition("-")[0], path, int(marker.read_text()), path.name in wanted))
        return found

    def prune(self, recipes: Iterable[Recipe], *, all: bool = False) -> list[Cached]:
        """Delete what no recipe uses any more (or all); returns what was deleted."""
        gone = [item for item in self.cached(recipes) if all or not item.current]
        for item in gone:
            shutil.rmtree(item.path)
        return gone


def find_uv() -> str:
    """The installer: the one that came with us, else the one on PATH."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        import uv

        return str(uv.find_uv_bin())
    found = shutil.which("uv")
    if found is None:
        raise BuildError("uv is needed to build images and is not installed: put it on PATH, or pip install uv")
    return found


def disk_usage(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
