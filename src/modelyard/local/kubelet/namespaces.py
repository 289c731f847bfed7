"""Linux namespaces by hand: what a freshly forked child does to see a container's root, before it becomes the program.

Only the standard library may be imported here: the keeper runs this in a bare interpreter.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from typing import Any, Final

Plan = dict[str, Any]
"""How a container sees the machine; built by `sandbox.Sandbox.plan`, passed to the keeper as JSON."""

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000

MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MNT_DETACH: Final = 2

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38

_SYSCALLS: Final = {
    "x86_64": {"clone": 56, "pivot_root": 155},
    "aarch64": {"clone": 220, "pivot_root": 41},
}
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class NamespaceError(OSError):
    """A step of building the container's view failed; the text says which."""


def _check(result: int, step: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise NamespaceError(code, f"{step}: {os.strerror(code)}")
    return result


def _syscall(name: str, *args: Any) -> int:
    numbers = _SYSCALLS.get(platform.machine())
    if numbers is None:
        raise NamespaceError(0, f"namespaces are not supported on {platform.machine()}")
    return int(_LIBC.syscall(ctypes.c_long(numbers[name]), *args))


def prctl(option: int, value: int) -> None:
    _check(_LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def clone(flags: int) -> int:
    """A fork into new namespaces: 0 in the child, the child's pid in the parent. Single-threaded callers only."""
    zero = ctypes.c_long(0)
    return _check(_syscall("clone", ctypes.c_long(flags | signal.SIGCHLD), zero, zero, zero, zero), "clone")


def setns(fd: int, kind: int) -> None:
    _check(_LIBC.setns(fd, kind), "setns")


def sethostname(name: str) -> None:
    data = name.encode()[:63]
    _check(_LIBC.sethostname(data, len(data)), "sethostname")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = _LIBC.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"mount {source or kind} on {target}")


def die_with_parent(parent: int) -> None:
    """The kernel kills this process when its parent dies; if that already happened, exit now."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() not in (parent, 0):
        os._exit(137)


def map_user(inner_uid: int, inner_gid: int, outer_uid: int, outer_gid: int) -> None:
    """Inside a new user namespace: one user and one group, mapped to the user that runs modelyard."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{inner_uid} {outer_uid} 1"),
        ("gid_map", f"{inner_gid} {outer_gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enter_root(plan: Plan) -> None:
    """Build the container's file system below `plan["root"]` and make it the root of this process."""
    root = plan["root"]
    mount("", "/", "", MS_REC | MS_PRIVATE)
    mount(root, root, "", MS_BIND | MS_REC)
    for item in plan["mounts"]:
        _place(root, item)
    os.chdir(root)
    _check(_syscall("pivot_root", b".", b"."), "pivot_root")
    _check(_LIBC.umount2(b".", MNT_DETACH), "umount the old root")
    os.chdir("/")
    if plan.get("readonly_root"):
        _remount("/", readonly=True)


def _place(root: str, item: dict[str, Any]) -> None:
    target = root + item["target"]
    match item["type"]:
        case "dir":
            os.makedirs(target, mode=0o755, exist_ok=True)
            if "mode" in item:
                os.chmod(target, item["mode"])
        case "symlink":
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.lexists(target):
                os.symlink(item["to"], target)
        case "tmpfs":
            os.makedirs(target, exist_ok=True)
            options = f"mode={item.get('mode', 0o755):o}" + (f",size={item['size']}" if item.get("size") else "")
            mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)
        case "proc":
            os.makedirs(target, exist_ok=True)
            try:
                mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
            except NamespaceError:
                # A machine that masks parts of /proc refuses a fresh one in a user namespace: show the host's.
                mount("/proc", target, "", MS_BIND | MS_REC)
        case "bind":
            _bind(item["source"], target, readonly=item.get("readonly", False))


def _bind(source: str, target: str, *, readonly: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, mode=0o755, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(source, target, "", MS_BIND | MS_REC)
    if readonly:
        _remount(target, readonly=True)


def _remount(target: str, *, readonly: bool) -> None:
    # A user namespace may not drop the flags that the original mount has, so they are carried over.
    flags = os.statvfs(target).f_flag
    keep = flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME)
    if keep & os.ST_RELATIME:
        keep = (keep & ~os.ST_RELATIME) | (1 << 21)
    mount("", target, "", MS_BIND | MS_REMOUNT | keep | (MS_RDONLY if readonly else 0))


def join(pid: int) -> None:
    """Enter the user, mount, host name and PID namespaces of a running process; the next fork is inside."""
    files = []
    for name, kind in (("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS), ("uts", CLONE_NEWUTS), ("pid", CLONE_NEWPID)):
        path = f"/proc/{pid}/ns/{name}"
        if os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
            files.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind))
    for fd, kind in files:
        setns(fd, kind)
        os.close(fd)


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Drop to an unprivileged user; a no-op for whoever is that user already."""
    if os.getuid() == 0 and uid != 0:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def probe(directory: str) -> None:
    """Try the whole way into a container in a child process; raises with the step that this machine refuses."""
    owner = (os.getuid(), os.getgid())
    failed_read, failed_write = os.pipe()
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | (CLONE_NEWUSER if owner[0] != 0 else 0)
    pid = clone(flags)
    if pid == 0:
        try:
            if owner[0] != 0:
                map_user(*owner, *owner)
            usr = {"type": "bind", "source": "/usr", "target": "/usr", "readonly": True}
            enter_root({"root": directory, "mounts": [usr, {"type": "proc", "target": "/proc"}]})
        except BaseException as error:
            os.write(failed_write, str(error).encode())
        os._exit(0)
    os.close(failed_write)
    failure = os.read(failed_read, 4096)
    os.waitpid(pid, 0)
    if failure:
        raise NamespaceError(0, failure.decode(errors="replace"))


if __name__ == "__main__":
    import sys

    try:
        probe(sys.argv[1])
    except OSError as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
