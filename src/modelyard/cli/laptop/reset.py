"""`modelyard reset`: deletes the state of the laptop cluster: objects, volumes, logs. Built images are kept.

examples:
  modelyard reset            asks first
  modelyard reset --yes      does not ask (for scripts)
"""

from __future__ import annotations

import argparse
import shutil
import sys

from modelyard.cli.laptop.down import stop
from modelyard.cli.output import console
from modelyard.failure import Failed
from modelyard.local.laptop.layout import Layout, directory_argument, layout_of


def arguments(parser: argparse.ArgumentParser) -> None:
    directory_argument(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    layout = layout_of(args)
    if not layout.exists():
        console().print(f"there is no laptop cluster in {layout.directory}")
        return 0
    if not args.yes:
        if not sys.stdin.isatty():
            raise Failed("this deletes all objects and volumes; say --yes to do it without being asked")
        answer = input(f"Delete all objects and volumes of the laptop cluster in {layout.directory}? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            console().print("nothing was deleted")
            return 1
    if layout.is_running():
        stop(layout)
    delete_state(layout)
    console().print(f"deleted the laptop cluster in {layout.directory}")
    return 0


def delete_state(layout: Layout) -> None:
    """Only what we made: the folder may be one that holds other things too."""
    for part in (layout.apiserver, layout.volumes, layout.kubelet, layout.logs):
        shutil.rmtree(part, ignore_errors=True)
    for file in (layout.kubeconfig, layout.state_file, layout.directory / "ca.crt", layout.directory / "ports.json"):
        file.unlink(missing_ok=True)
