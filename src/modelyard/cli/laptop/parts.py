"""The processes of a laptop cluster, started by the supervisor: `python -m modelyard.cli.laptop.parts PART DIR`."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from importlib import import_module
from pathlib import Path

from modelyard.cli.laptop.layout import Layout
from modelyard.runtime.logs import configure

PARTS = {
    "apiserver": "modelyard.cli.laptop.api",
    "controllers": "modelyard.cli.laptop.controllers",
    "kubelet": "modelyard.cli.laptop.node",
}


def main() -> int:
    name, directory = sys.argv[1], Path(sys.argv[2])
    configure(json=False)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    run = import_module(PARTS[name]).run
    # What was loaded stays; the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    asyncio.run(run(Layout(directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
