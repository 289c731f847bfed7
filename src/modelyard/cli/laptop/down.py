"""`modelyard down`: stops the laptop cluster in good order. Its state stays; `modelyard up` goes on from there.

examples:
  modelyard down
  modelyard down --dir ./my-cluster
"""

from __future__ import annotations

import argparse
import os
import signal
import time

from modelyard.cli.output import console
from modelyard.failure import Failed
from modelyard.local.laptop.layout import Layout, directory_argument, layout_of

WAIT = 150.0


def arguments(parser: argparse.ArgumentParser) -> None:
    directory_argument(parser)


def run(args: argparse.Namespace) -> int:
    layout = layout_of(args)
    if not layout.is_running():
        console().print(f"no laptop cluster runs in {layout.directory}")
        return 0
    stop(layout)
    console().print(f"stopped; the state is kept in {layout.directory}")
    return 0


def stop(layout: Layout) -> None:
    """Asks the supervisor to stop; it stops what it started, and nothing else is touched."""
    state = layout.require_running()
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + WAIT
    while layout.is_running():
        if time.monotonic() > deadline:
            raise Failed(f"process {state.pid} has not stopped after {WAIT:.0f} s; see {layout.logs}")
        time.sleep(0.05)
