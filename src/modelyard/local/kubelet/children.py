"""What a forked child does on its way to the program, and how the keeper looks at its children.

Only the standard library may be imported here: the keeper runs in a bare interpreter.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import termios


def reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def redirect(streams: tuple[int, int, int]) -> None:
    # First out of the way of 0..2, in case one of them is itself such a number.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in streams]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=True)


def control_terminal(env: dict[str, str]) -> dict[str, str]:
    """If the leader of a session was given a terminal, it gets signals and its hang-up from it, and is told its kind."""
    if not os.isatty(0):
        return env
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    return {"TERM": "xterm"} | env


def execute_program(argv: list[str], env: dict[str, str]) -> None:
    program = argv[0]
    if "/" in program:
        candidates = [program]
    else:
        candidates = [
            f"{folder}/{program}" for folder in env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":") if folder
        ]
    error: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, argv, env)
        except FileNotFoundError:
            continue
        except OSError as failure:
            error = error or failure
    if error is not None:
        raise OSError(error.errno, f'exec: "{program}": {(error.strerror or "").lower()}')
    where = "no such file or directory" if "/" in program else "executable file not found in $PATH"
    raise OSError(
        2, f'exec: "{program}": {where}' if "/" not in program else f'exec: "{program}": stat {program}: {where}'
    )


def bubblewrap_child(info: int) -> int:
    data = b""
    while chunk := os.read(info, 4096):
        data += chunk
        if b"}" in data:
            break
    try:
        return int(json.loads(data)["child-pid"])
    except (ValueError, KeyError):
        return 0


def exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def children_of(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def environment_of(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []
