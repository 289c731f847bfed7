"""`modelyard list`: the laptop clusters of this user on this machine, and which of them run.

examples:
  modelyard list               those that run
  modelyard list --all         also those that were stopped
  modelyard list -o json       for programs
A command means the cluster of --dir, else of $MODELYARD_DIR, else the one in .up of this folder, else ~/.local/share/modelyard.
"""

from __future__ import annotations

import argparse

from modelyard.cli.output import console, output_argument, print_json, print_table
from modelyard.kube.kinds import Object
from modelyard.local.laptop.layout import Layout, ago, default_directory, known_clusters

_COLUMNS = ("DIRECTORY", "STATE", "SINCE", "GATEWAY", "OPERATORS", "DEFAULT")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also those that do not run")
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    rows = [row for row in map(describe, known_clusters()) if args.all or row["state"] != "stopped"]
    if args.output == "json":
        print_json(rows)
    elif rows:
        print_table(_COLUMNS, [[str(row[column.lower()]) for column in _COLUMNS] for row in rows])
    else:
        console().print("no laptop cluster runs; start one with: modelyard up")
    return 0


def describe(layout: Layout) -> Object:
    """What is known of one cluster. A state that a killed process left behind does not count."""
    running = layout.is_running()
    state = layout.read_state() if running else None
    word = "stopped" if not running else "starting" if state is None or not state.ready else "running"
    if state is not None and state.broken:
        word = "broken: " + ", ".join(sorted(state.broken))
    return {
        "directory": str(layout.directory),
        "state": word,
        "since": ago(state.started) if state else "",
        "gateway": state.gateway if state else "",
        "operators": ",".join(state.operators) if state else "",
        "default": "yes" if layout.directory == default_directory() else "",
    }
