"""What a forked child does on its way to the program, and how the keeper looks at its children.

Only the standard library may be imported here: the keeper runs in a bare interpreter.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import termios
from typing import Any

from modelyard.local.kubelet.volumes import paths


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


def wrapped(
    wrapper: list[str], mounts: list[dict[str, Any]], argv: list[str], env: dict[str, str], info: int
) -> list[str]:
    """The command line of bubblewrap: the container's environment and what lies inside its volumes go by descriptors."""
    os.set_inheritable(info, True)
    given = os.memfd_create("environment", 0)
    for name, value in env.items():
        # As the kernel reads it: a name ends at its first "=".
        name, _, rest = f"{name}={value}".partition("=")
        os.write(given, b"".join(os.fsencode(word) + b"\0" for word in ("--setenv", name, rest)))
    os.lseek(given, 0, os.SEEK_SET)
    _check_mount_points(mounts)
    known = {"@INFO_FD@": str(info), "@ENVIRONMENT_FD@": str(given)}
    for number, item in enumerate(mounts):
        if item.get("beneath"):
            descriptor = paths.open_beneath(item["source"], item["beneath"])
            os.set_inheritable(descriptor, True)
            known[f"@BENEATH_{number}@"] = str(descriptor)
    return [known.get(word, word) for word in wrapper] + argv


def _check_mount_points(mounts: list[dict[str, Any]]) -> None:
    """Bubblewrap follows links on its way to a mount point: below a volume there must be none."""
    volumes = {item["target"]: item for item in mounts if item["type"] == "bind" and not item.get("readonly")}
    for item in mounts:
        over = [target for target in volumes if item["target"].startswith(f"{target}/")]
        if item["type"] != "bind" or not over:
            continue
        outer = volumes[max(over, key=len)]
        inside = "/".join(
            part for part in (outer.get("beneath", ""), item["target"][len(outer["target"]) + 1 :]) if part
        )
        kind = "dir" if os.path.isdir(item["source"]) else "file"
        os.close(paths.open_beneath(outer["source"], inside, make=kind, mode=0o755, links=0))


def close_all_but(kept: int) -> None:
    """Close everything but the standard streams and this."""
    os.closerange(3, kept)
    os.closerange(kept + 1, 1 << 20)


def belonging(pid: int, mark: bytes) -> list[int]:
    """The descendants of a process, and whoever carries the mark in its environment."""
    found, pending = [], [pid]
    while pending:
        below = children_of(pending.pop())
        found += below
        pending += below
    marked = [int(name) for name in os.listdir("/proc") if name.isdigit() and mark in environment_of(int(name))]
    return sorted({*found, *marked} - {os.getpid()})


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
