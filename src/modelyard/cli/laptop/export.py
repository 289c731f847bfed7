"""`modelyard export`: writes a whole laptop cluster into one file, also while it runs: objects, volumes, keys.

examples:
  modelyard export cluster.tar
  modelyard import cluster.tar --dir ./copy    here or on another machine
While the volumes are copied, containers stand still, so that databases in them are as after a sudden stop, which they are made for.
The file holds every Secret and the keys of the cluster: whoever has it can act as the cluster. Keep it as you keep a private key.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from modelyard.cli.output import console
from modelyard.failure import Failed
from modelyard.local.laptop import archive
from modelyard.local.laptop.freeze import frozen
from modelyard.local.laptop.layout import directory_argument, layout_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to write; it must not exist")
    directory_argument(parser)


def run(args: argparse.Namespace) -> int:
    layout, target = layout_of(args), args.file.absolute()
    if not (layout.apiserver / "state.db").is_file():
        raise Failed(f"there is no laptop cluster in {layout.directory}")
    if target.exists() or target.is_symlink():
        raise Failed(f"{target} exists; remove it or choose another name")
    if target.parent.resolve().is_relative_to(layout.directory):
        raise Failed(f"{target} is in the folder of the cluster itself; choose a place outside of {layout.directory}")
    if layout.is_running():
        layout.require_running()
        with frozen(layout):
            archive.write(layout, target)
    else:
        with layout.hold():
            archive.write(layout, target)
    console().print(
        f"wrote {target} ({target.stat().st_size / 1e6:.1f} MB)\n"
        "It holds every Secret and the keys of the cluster, and only you can read it: keep it as you keep a private key.",
        markup=False,
        soft_wrap=True,
    )
    return 0
