"""`modelyard examples`: the YAML files that come with Modelyard: prints one, or writes them into a folder.

examples:
  modelyard examples                              list them
  modelyard examples quickstart                   print one; also: | kubectl apply -f -
  modelyard examples mlflow                       list those of one system
  modelyard examples --to examples                write all of them into the folder ./examples
  modelyard examples mlflow/minimal --to .        write one: ./mlflow/minimal.yaml
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import modelyard
from modelyard.cli.output import print_table
from modelyard.failure import Failed

QUICKSTARTS = {"mlflow": "quickstart", "ray": "ray/minimal"}
"""System and example: what `modelyard up --with SYSTEM` applies. A system belongs here once its programs run on a laptop."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="an example, or a system (default: all)")
    parser.add_argument("--to", type=Path, metavar="DIR", help="write files into this folder instead of printing")
    parser.add_argument("--force", action="store_true", help="with --to: overwrite files that differ")


def run(args: argparse.Namespace) -> int:
    chosen = select(args.name)
    if args.to is not None:
        return _write(chosen, args.to, force=args.force)
    if args.name.removesuffix(".yaml") in chosen:
        sys.stdout.write(path(args.name).read_text())
    else:
        print_table(["NAME", "WHAT IT IS"], [[name, _summary(path(name))] for name in chosen])
    return 0


def folder() -> Path:
    """Inside the wheel; in a source checkout beside `src`."""
    package = Path(modelyard.__file__).parent
    return next(place for place in (package / "examples", package.parents[1] / "examples") if place.is_dir())


def names() -> list[str]:
    root = folder()
    found = [str(file.relative_to(root).with_suffix("")) for file in root.rglob("*.yaml")]
    return sorted(found, key=lambda name: (name.count("/"), name))


def select(name: str) -> list[str]:
    """The example of this name, or all of the system of this name; of no name, all."""
    known = names()
    wanted = name.removesuffix(".yaml").strip("/")
    chosen = [each for each in known if not wanted or each == wanted or each.startswith(f"{wanted}/")]
    if not chosen:
        raise Failed(f"there is no example {name!r}; `modelyard examples` lists what there is")
    return chosen


def path(name: str) -> Path:
    return folder() / f"{name.removesuffix('.yaml')}.yaml"


def quickstarts(systems: Sequence[str], operators: Sequence[str]) -> list[Path]:
    """The files that `--with` these systems means."""
    for system in systems:
        if system not in QUICKSTARTS:
            raise Failed(
                f"--with {system}: there is no quickstart of that name; there are: {', '.join(QUICKSTARTS)}. "
                "`modelyard examples` lists files for --apply"
            )
        if system not in operators:
            raise Failed(f"--with {system} needs its operator: add {system} to --operators")
    return [path(QUICKSTARTS[system]) for system in dict.fromkeys(systems)]


def _summary(file: Path) -> str:
    """The first comment of the file: its first sentence."""
    first = file.read_text().partition("\n")[0]
    return first.lstrip("# ").rstrip() if first.startswith("#") else ""


def _write(chosen: Sequence[str], target: Path, *, force: bool) -> int:
    """Nothing is written if a file of the user's would be lost."""
    texts = {target / f"{name}.yaml": path(name).read_bytes() for name in chosen}
    try:
        changed = [file for file, text in texts.items() if file.is_file() and file.read_bytes() != text]
        if changed and not force:
            raise Failed(f"{', '.join(map(str, changed))} would be overwritten; choose another folder, or say --force")
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
    except OSError as error:
        raise Failed(f"cannot write {error.filename}: {error.strerror}") from None
    print(f"wrote {len(texts)} files to {target}" if len(texts) > 1 else f"wrote {next(iter(texts))}")
    return 0
