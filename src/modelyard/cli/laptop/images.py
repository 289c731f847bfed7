"""`modelyard images`: the programs that pods can run on a laptop cluster, and what was built of them.

examples:
  modelyard images                list them, with the size of what is built
  modelyard images prune          delete what no recipe of today uses
  modelyard images prune --all    delete everything; it is built again when a pod needs it

A recipe of your own is a TOML file in ~/.config/modelyard/images.d (or in the folder that MODELYARD_IMAGES names).
"""

from __future__ import annotations

import argparse
import sys

from modelyard.cli.output import output_argument, print_json, print_table
from modelyard.failure import Failed
from modelyard.kube.kinds import Object
from modelyard.local.images.build import Builder, Cached
from modelyard.local.images.recipe import Base, Built, Recipe
from modelyard.local.images.registry import BadRecipe, Registry

_UNITS = ("B", "kB", "MB", "GB")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "prune"], default="list", help="default: list")
    parser.add_argument("--all", action="store_true", help="prune: also what is in use by recipes of today")
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    try:
        registry = Registry.installed()
    except BadRecipe as error:
        raise Failed(str(error)) from None
    recipes, builder = list(registry), Builder()
    for problem in registry.problems:
        print(f"a recipe was left out: {problem}", file=sys.stderr)
    if args.action == "prune":
        gone = builder.prune(recipes, all=args.all)
        if args.output == "json":
            print_json([{"name": item.name, "bytes": item.size} for item in gone])
        else:
            freed = size_text(sum(item.size for item in gone))
            print(f"deleted {len(gone)} built images, {freed}" if gone else "nothing to delete")
        return 0
    rows = listing(builder, recipes)
    if args.output == "json":
        print_json(rows)
    else:
        columns = ["NAME", "VERSION", "IMAGES", "BUILT", "WHAT IT IS"]
        print_table(columns, [[_cell(row, column) for column in _FIELDS] for row in rows])
    return 1 if registry.problems else 0


_FIELDS = ("name", "version", "patterns", "built", "description")


def listing(builder: Builder, recipes: list[Recipe]) -> list[Object]:
    """One row a recipe, then one for each build that no recipe uses any more."""
    rows: list[Object] = []
    for recipe in recipes:
        built = builder.find(recipe)
        state = _state(recipe, built)
        rows.append(
            {
                "name": recipe.name,
                "version": recipe.version,
                "patterns": list(recipe.patterns),
                "built": state,
                "bytes": built.size if built else 0,
                "description": recipe.description,
            }
        )
    return rows + [_left_over(item) for item in builder.cached(recipes) if not item.current]


def _state(recipe: Recipe, built: Built | None) -> str:
    if recipe.has_environment:
        return size_text(built.size) if built else "not yet"
    return "part of modelyard" if recipe.base is Base.MODELYARD else "on this machine"


def _left_over(item: Cached) -> Object:
    return {
        "name": item.name,
        "version": "",
        "patterns": [],
        "built": size_text(item.size),
        "bytes": item.size,
        "description": "of an older recipe; `modelyard images prune` deletes it",
    }


def _cell(row: Object, name: str) -> str:
    value = row[name]
    return ", ".join(value) if isinstance(value, list) else str(value)


def size_text(size: int) -> str:
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 or number >= 10 else f"{number:.1f} {_UNITS[unit]}"
