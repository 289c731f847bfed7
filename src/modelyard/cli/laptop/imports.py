"""`modelyard import`: makes a laptop cluster from a file that `modelyard export` wrote.

examples:
  modelyard import cluster.tar --dir ./copy
  modelyard import cluster.tar --replace        instead of the cluster that is there
Pods start again when the cluster is started. A copy has the addresses of the original, so that only one of the two runs at a time on
one machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from modelyard.cli.laptop.reset import delete_state
from modelyard.cli.output import console
from modelyard.failure import Failed
from modelyard.local.laptop import archive
from modelyard.local.laptop.layout import Held, directory_argument, layout_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="what `modelyard export` wrote")
    parser.add_argument("--replace", action="store_true", help="delete the cluster that is in the folder now")
    directory_argument(parser)


def run(args: argparse.Namespace) -> int:
    layout, source = layout_of(args), args.file
    if not source.is_file():
        raise Failed(f"there is no file {source}")
    if layout.is_running():
        raise Held(layout.holder())
    there = (layout.apiserver / "state.db").exists() or (layout.volumes.is_dir() and any(layout.volumes.iterdir()))
    if there and not args.replace:
        raise Failed(
            f"{layout.directory} holds a laptop cluster; choose another folder with --dir, or say --replace to delete it"
        )
    manifest = archive.read(source, layout, before=lambda: delete_state(layout))
    words = f" --operators {','.join(manifest.operators)}" if manifest.operators else ""
    words += f" --platform {manifest.platform}" if manifest.platform != "kubernetes" else ""
    console().print(
        f"imported {source} into {layout.directory}\nstart it with: modelyard up{words}{layout.argument}",
        markup=False,
        soft_wrap=True,
    )
    return 0
