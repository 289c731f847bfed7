"""`modelyard logs`: the logs of the laptop cluster's own parts. Logs of pods: `kubectl logs`.

examples:
  modelyard logs                    the last lines of every part
  modelyard logs controllers -f     follow one part
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from pathlib import Path

from modelyard.failure import Failed
from modelyard.local.laptop.layout import directory_argument, layout_of


def arguments(parser: argparse.ArgumentParser) -> None:
    directory_argument(parser)
    parser.add_argument("part", nargs="?", metavar="PART", help="apiserver, controllers, kubelet or up (default: all)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    parser.add_argument(
        "--tail", type=int, default=20, metavar="N", help="lines of each part to begin with (default: 20)"
    )


def run(args: argparse.Namespace) -> int:
    layout = layout_of(args)
    files = sorted(layout.logs.glob("*.log"))
    if args.part:
        files = [file for file in files if file.stem == args.part]
    if not files:
        there = ", ".join(file.stem for file in sorted(layout.logs.glob("*.log")))
        what = f"there is no log of {args.part!r}" if args.part else "there are no logs"
        raise Failed(f"{what} in {layout.logs}" + (f"; there is: {there}" if there else ""))
    ends = {file: _show_tail(file, args.tail, named=len(files) > 1) for file in files}
    while args.follow:
        time.sleep(0.2)
        for file in files:
            ends[file] = _show_from(file, ends[file], named=len(files) > 1)
    return 0


def _show_tail(file: Path, lines: int, *, named: bool) -> int:
    with file.open(errors="replace") as source:
        for line in deque(source, maxlen=max(lines, 0)):
            _write(file, line, named)
        return source.tell()


def _show_from(file: Path, position: int, *, named: bool) -> int:
    with file.open(errors="replace") as source:
        if file.stat().st_size < position:
            position = 0
        source.seek(position)
        while line := source.readline():
            _write(file, line, named)
        return source.tell()


def _write(file: Path, line: str, named: bool) -> None:
    sys.stdout.write(f"{file.stem:11} {line}" if named else line)
    sys.stdout.flush()
