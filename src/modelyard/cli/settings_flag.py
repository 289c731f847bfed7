"""`--set NAME=VALUE`: a setting of an operator on the command line. It goes before the environment variable of the same name."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from difflib import get_close_matches

from modelyard.failure import Failed
from modelyard.runtime.declaring.operator import Operator


def settings_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of an operator, before the environment variable of that name; may be given several times",
    )


def chosen_settings(args: argparse.Namespace) -> dict[str, str]:
    """What `--set` names."""
    chosen = {}
    for text in args.set:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise Failed(f"--set {text}: write it as NAME=VALUE, such as --set MLFLOW_URL=https://ml.example.com")
        chosen[name.strip()] = value
    return chosen


def environment(args: argparse.Namespace) -> dict[str, str]:
    """The variables of this process, and what `--set` names before them."""
    return {**os.environ, **chosen_settings(args)}


def check_names(args: argparse.Namespace, operators: Sequence[Operator]) -> None:
    """A name that no operator declares is refused: a typing error would be ignored otherwise."""
    known = variables(operators)
    for name in chosen_settings(args):
        if name == "POD_NAMESPACE":
            raise Failed("--set POD_NAMESPACE: where the plane runs is said by `run --home` or `manifests --namespace`")
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else "docs/reference/settings.md lists all"
            raise Failed(f"--set {name}: no operator that was chosen has a setting of this name; {hint}")


def variables(operators: Sequence[Operator]) -> frozenset[str]:
    """The environment variables that these operators read."""
    return frozenset(name for operator in operators for setting in operator.settings for name in setting.variables)
