"""Processes that go on from here: what this one has loaded is there at once, and its memory is shared."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_MOST_DESCRIPTORS = 65536
_STOPPING = (signal.SIGTERM, signal.SIGINT)


def fork(
    work: Callable[[], int], output: Path, *, name: str = "", keep: int = -1, die_with_parent: bool = False
) -> int:
    """Runs work in a new process, in a session of its own; gives its id. What it prints is appended to a file, it has no other
    open files of ours than the descriptor `keep`, and its exit code is what work returns."""
    sys.stdout.flush()
    sys.stderr.flush()
    # What is there already stays as it is: pages that the collector does not write to are shared.
    gc.collect()
    gc.freeze()
    parent = os.getpid() if die_with_parent else 0
    # Until the new process has handlers of its own, a signal would run those of this one in it, and be lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    process = os.fork()
    if not process:
        _go_on(work, output, name, keep, parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _go_on(work: Callable[[], int], output: Path, name: str, keep: int, parent: int) -> NoReturn:
    code = 1
    try:
        _settle(output, name, keep, parent)
        code = work()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        _write_traceback()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        # Without the clean-up that is the parent's: its objects are still here.
        os._exit(code & 0xFF)


def _write_traceback() -> None:
    """Into the log, if the disk takes it: a full one must not send this process back into the parent's code."""
    with contextlib.suppress(OSError):
        traceback.print_exc()


def _settle(output: Path, name: str, keep: int, parent: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in _STOPPING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    libc = ctypes.CDLL(None, use_errno=True)
    if name:
        libc.prctl(_PR_SET_NAME, name.encode()[:15])
    if parent:
        # The kernel ends this process when its parent dies, however it dies.
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
    os.setsid()
    log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    if keep >= 0:
        os.closerange(3, keep)
    os.closerange(max(keep + 1, 3), _MOST_DESCRIPTORS)
    # Not the parent's own: another thread of it may have been in the middle of writing.
    sys.stdout = os.fdopen(1, "w", 1, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, closefd=False)
