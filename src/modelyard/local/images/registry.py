"""Which recipes there are: the user's files, those of installed packages (entry points `modelyard.images`), and ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module, metadata

from modelyard.local.images.files import Folder, images_directory
from modelyard.local.images.recipe import Recipe

GROUP = "modelyard.images"
_OWN = (
    "mlflow", "model_registry", "model_metadata", "postgres", "s3", "rbac_proxy", "http_echo", "ray", "python", "shell",
)  # fmt: skip


class NoRecipe(LookupError):
    """No recipe matches an image; the text says what to do."""

    def __init__(self, image: str, known: Iterable[str], folder: Folder | None = None) -> None:
        wrong = folder.problems() if folder is not None else []
        super().__init__(
            f'no recipe for image "{image}": a laptop cluster runs only images it has a recipe for ({", ".join(known)}). '
            + (f"Add one as a TOML file in {folder.path}, or as" if folder is not None else "Add one:")
            + f" a Python package with an entry point in the group {GROUP!r} that is a modelyard.local.images.Recipe"
            + (f". Files that could not be used: {'; '.join(wrong)}" if wrong else "")
        )


class BadRecipe(Exception):
    """An installed package offers something under our entry point that is not a recipe."""


class Registry:
    """Recipes in order; the first that matches an image is used. Users' come first, so they may replace ours."""

    def __init__(self, recipes: Iterable[Recipe], folder: Folder | None = None) -> None:
        self._recipes = list(recipes)
        self._folder = folder

    @classmethod
    def installed(cls) -> Registry:
        return cls([*_from_entry_points(), *_own()], Folder(images_directory()))

    def __iter__(self) -> Iterator[Recipe]:
        if self._folder is not None:
            yield from self._folder.recipes()
        yield from self._recipes

    @property
    def problems(self) -> list[str]:
        """What is wrong with files of the user's folder, a sentence each."""
        return self._folder.problems() if self._folder is not None else []

    def find(self, image: str) -> Recipe:
        for recipe in self:
            if recipe.matches(image):
                return recipe
        raise NoRecipe(image, (recipe.name for recipe in self), self._folder)


def _own() -> Iterator[Recipe]:
    for name in _OWN:
        recipe: Recipe = import_module(f"modelyard.local.images.recipes.{name}").recipe
        yield recipe


def _from_entry_points() -> Iterator[Recipe]:
    for entry in metadata.entry_points(group=GROUP):
        loaded: object = entry.load()
        found = loaded if isinstance(loaded, (list, tuple)) else [loaded]
        for recipe in found:
            if not isinstance(recipe, Recipe):
                package = entry.dist.name if entry.dist else "?"
                raise BadRecipe(
                    f"entry point {entry.name!r} of package {package!r} in group {GROUP!r} is a {type(recipe).__name__}; "
                    "it must be a modelyard.local.images.Recipe or a list of them"
                )
            yield recipe
