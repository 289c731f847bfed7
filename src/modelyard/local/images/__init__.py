"""Images of a laptop cluster: a recipe maps an image's name to pinned packages, built once, and to how they are run."""

from modelyard.local.images.build import Builder, BuildError
from modelyard.local.images.recipe import Base, Built, Invocation, Recipe
from modelyard.local.images.registry import NoRecipe, Registry

__all__ = ["Base", "BuildError", "Builder", "Built", "Invocation", "NoRecipe", "Recipe", "Registry"]
