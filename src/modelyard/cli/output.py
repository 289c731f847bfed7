"""How commands talk to people and to programs: tables and trees in a terminal, JSON on request, errors in one sentence."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
import yaml
from rich.console import Console, RenderableType
from rich.table import Table

from modelyard.kube.kinds import Object

_PIPED_WIDTH = 10_000


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` if one of the known words is close, else nothing."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean {by_lower[close[0]]}?)" if close else ""


def console(*, stderr: bool = False) -> Console:
    """Colours only in a terminal; piped output is never cut to a terminal's width."""
    stream = sys.stderr if stderr else sys.stdout
    piped = not stream.isatty()
    return Console(file=stream, highlight=False, soft_wrap=piped, width=_PIPED_WIDTH if piped else None)


def show(page: RenderableType) -> None:
    """Prints a tree or a page; piped, its lines are whole and end where their text ends."""
    out = console()
    if out.is_terminal:
        out.print(page)
        return
    with out.capture() as captured:
        out.print(page)
    for line in captured.get().splitlines():
        print(line.rstrip())


def output_argument(parser: argparse.ArgumentParser, *more: str) -> None:
    parser.add_argument(
        "-o", "--output", choices=["text", "json", *more], default="text", help="how to print (default: text)"
    )


def print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


class _Plain(yaml.CSafeDumper):
    """YAML as a person writes it: what occurs twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_text(*objects: Object) -> str:
    """A stream of documents that `kubectl apply -f -` takes."""
    text: str = yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, explicit_start=True, width=120)
    return text


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Fits a terminal; piped, every cell is whole, for `grep` and `awk`."""
    if not sys.stdout.isatty():
        widths = [max(len(row[at]) for row in (columns, *rows)) for at in range(len(columns))]
        for row in (columns, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)
