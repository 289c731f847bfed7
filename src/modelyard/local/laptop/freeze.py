"""Stops the kubelet and all containers of a running laptop cluster for a moment, so that their files can be copied as they are.

A process of its own lets them go on when the one that asked ends, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from modelyard.failure import Failed
from modelyard.local.kubelet.processes.runtime import container_processes
from modelyard.local.laptop.layout import Layout

_ROUNDS = 200


@contextlib.contextmanager
def frozen(layout: Layout) -> Iterator[None]:
    """Nothing of the cluster writes into its volumes inside this block; the API server goes on."""
    guard = subprocess.Popen(
        [sys.executable, "-m", __name__, str(layout.directory)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        _stop(layout)
        yield
    finally:
        guard.communicate()


def _stop(layout: Layout) -> None:
    """The kubelet first: it would take a container that does not answer for a dead one. Then until nobody is left who could
    start another."""
    _signal(_kubelet(layout), signal.SIGSTOP)
    for _ in range(_ROUNDS):
        moving = [process for process in container_processes(str(layout.kubelet)) if not _is_stopped(process)]
        if not moving:
            return
        for process in moving:
            _signal(process, signal.SIGSTOP)
    raise Failed(f"some containers cannot be stopped for the copy: processes {moving[:5]}; try again")


def thaw(layout: Layout) -> None:
    for process in [*container_processes(str(layout.kubelet)), _kubelet(layout)]:
        _signal(process, signal.SIGCONT)


def _kubelet(layout: Layout) -> int:
    state = layout.read_state()
    return state.parts.get("kubelet", 0) if state is not None else 0


def _signal(process: int, number: signal.Signals) -> None:
    if process:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _is_stopped(process: int) -> bool:
    """Also one that has ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in "TtZX"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    thaw(Layout(Path(sys.argv[1])))
