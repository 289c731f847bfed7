"""`modelyard docs`: writes the generated pages of docs/ and the table in README.md, or checks that they are current.

examples:
  modelyard docs             write them (the same as `make docs`)
  modelyard docs --check     exit code 1 and the names of stale files, if there are any
"""

from __future__ import annotations

import argparse
from pathlib import Path

from modelyard.cli.main import COMMANDS, EXIT_CODES, command_parser
from modelyard.cli.output import console
from modelyard.cli.pages import kinds, reference
from modelyard.cli.pages.dataflow import markdown
from modelyard.cli.pages.flow import flow_of
from modelyard.failure import Failed
from modelyard.operators.registry import BUILT, PLANNED, load, shared

BEGIN, END = "<!-- systems: written by `modelyard docs` -->", "<!-- /systems -->"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that are stale")
    parser.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the source checkout (default: .)")


def run(args: argparse.Namespace) -> int:
    root: Path = args.root
    if not (root / "pyproject.toml").is_file() or not (root / "docs").is_dir():
        raise Failed(f"{root.resolve()} is not a source checkout of modelyard; go to its folder or name it with --root")
    wanted = pages(root)
    stale = [path for path, text in wanted.items() if _read(root / path) != text]
    left_over = [path for path in _generated(root) if path not in wanted]
    if args.check:
        if stale or left_over:
            names = ", ".join(str(path) for path in sorted([*stale, *left_over]))
            raise Failed(f"not current: {names}; write them with: make docs")
        return 0
    for path in stale:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(wanted[path])
    for path in left_over:
        (root / path).unlink()
    for path in sorted([*stale, *left_over]):
        console().print(f"{'wrote' if path in wanted else 'deleted'} {path}")
    return 0


def pages(root: Path) -> dict[Path, str]:
    """Every generated file by its path, from what the code declares: no setting of this machine shows."""
    operators = load(BUILT, {})
    common = shared({}, operators)
    made: dict[Path, str] = {}
    for operator in operators:
        made[Path("docs/dataflow") / f"{operator.name}.md"] = markdown(flow_of(operator))
        made[Path("docs/reference") / f"kinds-{operator.name}.md"] = kinds.page(operator)
    for operator in common:
        made[Path("docs/dataflow") / f"{operator.name}.md"] = markdown(flow_of(operator))
    parsers = {command.name: command_parser(command) for command in COMMANDS}
    made[Path("docs/reference/settings.md")] = reference.settings([*operators, *common])
    made[Path("docs/reference/metrics.md")] = reference.metrics([*operators, *common])
    made[Path("docs/reference/cli.md")] = reference.commands(parsers, EXIT_CODES)
    readme = Path("README.md")
    made[readme] = with_table(_read(root / readme), reference.systems(operators, PLANNED))
    return made


def with_table(text: str, table: str) -> str:
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise Failed(f"README.md lacks the marks {BEGIN} and {END}, between which the table of systems stands")
    return f"{head}{BEGIN}\n{table}\n{END}{tail}"


def _generated(root: Path) -> list[Path]:
    """Files that only this command writes."""
    found = [*(root / "docs/dataflow").glob("*.md"), *(root / "docs/reference").glob("kinds-*.md")]
    return [path.relative_to(root) for path in found]


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
