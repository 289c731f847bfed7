"""Linux namespaces by hand: what a freshly forked child does to see a container's root, before it becomes the program.

Only the standard library may be imported here: the keeper runs this in a bare interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import stat
from collections.abc import Collection
from typing import Any, Final

from modelyard.local.kubelet.processes import capabilities
from modelyard.local.kubelet.volumes import paths
from modelyard.local.kubelet.volumes.paths import by_descriptor

Plan = dict[str, Any]
"""How a container sees the machine; built by `sandbox.Sandbox.plan`, passed to the keeper as JSON."""

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CONTAINER: Final = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC
"""What every container has of its own; a plain user needs a user namespace for it."""

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
PR_SET_DUMPABLE: Final = 4
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38

_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_SYSCALLS: Final = {
    "x86_64": {"clone": 56, "pivot_root": 155, "mount_setattr": 442},
    "aarch64": {"clone": 220, "pivot_root": 41, "mount_setattr": 442},
}
_READONLY_PROC: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_HIDDEN_PROC: Final = ("kcore", "keys", "latency_stats", "timer_list", "sched_debug", "scsi", "acpi", "asound")
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


def hide_from_containers() -> None:
    """Nobody may look into this process while it is on its way to the program: it still holds what the keeper knows."""
    prctl(PR_SET_DUMPABLE, 0)


def enter_root(plan: Plan) -> None:
    """Build the container's file system below `plan["root"]` and make it the root of this process."""
    root = plan["root"]
    mount("", "/", "", MS_REC | MS_PRIVATE)
    mount(root, root, "", MS_BIND | MS_REC)
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    restrict(top, MS_NOSUID | MS_NODEV, recursive=False)
    for item in plan["mounts"]:
        _place(top, item)
    os.close(top)
    os.chdir(root)
    _check(_syscall("pivot_root", b".", b"."), "pivot_root")
    _check(_LIBC.umount2(b".", MNT_DETACH), "umount the old root")
    os.chdir("/")
    if plan.get("readonly_root"):
        top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        restrict(top, MS_RDONLY, recursive=False)
        os.close(top)


def _place(top: int, item: dict[str, Any]) -> None:
    """Put one thing into the new root. A target is what the container would see there: no link leads out of the root."""
    target = item["target"]
    match item["type"]:
        case "dir":
            with paths.in_root(top, target, make="dir") as found:
                if "mode" in item:
                    os.chmod(by_descriptor(found.descriptor), item["mode"])
        case "symlink":
            folder, _, name = target.rpartition("/")
            with paths.in_root(top, folder, make="dir") as found:
                with contextlib.suppress(FileExistsError):
                    os.symlink(item["to"], name, dir_fd=found.descriptor)
        case "tmpfs":
            with paths.in_root(top, target, make="dir") as found:
                options = f"mode={item.get('mode', 0o755):o}" + (f",size={item['size']}" if item.get("size") else "")
                mount("tmpfs", by_descriptor(found.descriptor), "tmpfs", MS_NOSUID | MS_NODEV, options)
        case "proc":
            _proc(top, target)
        case "bind":
            _bind(top, item)


def _proc(top: int, target: str) -> None:
    with paths.in_root(top, target, make="dir") as found:
        try:
            mount("proc", by_descriptor(found.descriptor), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        except NamespaceError:
            # A machine that masks parts of /proc refuses a fresh one in a user namespace: show the host's.
            mount("/proc", by_descriptor(found.descriptor), "", MS_BIND | MS_REC)
        mounted = found.again()
    try:
        for name in (*_READONLY_PROC, *_HIDDEN_PROC):
            try:
                with paths.in_root(mounted, name) as part:
                    is_folder = stat.S_ISDIR(os.fstat(part.descriptor).st_mode)
                    if name in _READONLY_PROC:
                        mount(by_descriptor(part.descriptor), by_descriptor(part.descriptor), "", MS_BIND | MS_REC)
                    elif is_folder:
                        mount(
                            "tmpfs", by_descriptor(part.descriptor), "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "size=0"
                        )
                    else:
                        mount("/dev/null", by_descriptor(part.descriptor), "", MS_BIND)
                    if name in _READONLY_PROC:
                        over = part.again()
                        restrict(over, MS_RDONLY, recursive=True)
                        os.close(over)
            except FileNotFoundError:
                continue
    finally:
        os.close(mounted)


def _bind(top: int, item: dict[str, Any]) -> None:
    if item.get("beneath"):
        source = paths.open_beneath(item["source"], item["beneath"])
    else:
        source = os.open(item["source"], os.O_PATH | os.O_CLOEXEC)
    kind = os.fstat(source).st_mode
    try:
        with paths.in_root(top, item["target"], make="dir" if stat.S_ISDIR(kind) else "file") as found:
            if found.parent < 0:
                raise NamespaceError(errno.EINVAL, f"{item['target']}: nothing can be mounted on the root itself")
            mount(by_descriptor(source), by_descriptor(found.descriptor), "", MS_BIND | MS_REC)
            mounted = found.again()
        try:
            flags = (MS_RDONLY if item.get("readonly") else 0) | (0 if stat.S_ISCHR(kind) else MS_NOSUID | MS_NODEV)
            if flags:
                restrict(mounted, flags, recursive=True)
        finally:
            os.close(mounted)
    finally:
        os.close(source)


def restrict(mounted: int, flags: int, *, recursive: bool) -> None:
    """Add flags to a mount and, if asked, to all mounts below it."""
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    at = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    result = _syscall(
        "mount_setattr", ctypes.c_int(mounted), b"", ctypes.c_uint(at), ctypes.byref(attributes), ctypes.c_size_t(32)
    )
    if result < 0 and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        _check(result, "mount_setattr")
    if result < 0:
        # A kernel before 5.12, or one that is told to refuse this call.
        top = os.readlink(by_descriptor(mounted))
        for point in [
            top,
            *(point for point in _mount_points() if recursive and point.startswith(f"{top.rstrip('/')}/")),
        ]:
            _remount(point, flags)


def _mount_points() -> list[str]:
    with open("/proc/self/mountinfo", "rb") as file:
        names = [line.split(b" ")[4] for line in file]
    return [name.decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape") for name in names]


def _remount(target: str, flags: int) -> None:
    # A user namespace may not drop the flags that the original mount has, so they are carried over.
    had = os.statvfs(target).f_flag
    keep = had & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME)
    if keep & os.ST_RELATIME:
        keep = (keep & ~os.ST_RELATIME) | (1 << 21)
    mount("", target, "", MS_BIND | MS_REMOUNT | keep | flags)


def join(pid: int) -> None:
    """Enter the user, mount, host name and PID namespaces of a running process; the next fork is inside."""
    files = []
    for name, kind in (
        ("user", CLONE_NEWUSER),
        ("mnt", CLONE_NEWNS),
        ("uts", CLONE_NEWUTS),
        ("ipc", CLONE_NEWIPC),
        ("pid", CLONE_NEWPID),
    ):
        path = f"/proc/{pid}/ns/{name}"
        if os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
            files.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind))
    for fd, kind in files:
        setns(fd, kind)
        os.close(fd)


def become(uid: int, gid: int, groups: list[int], keep: Collection[int] = ()) -> None:
    """Drop to an unprivileged user (a no-op for whoever is that user already), and keep no more than these capabilities."""
    capabilities.limit(keep)
    if os.getuid() == 0 and uid != 0:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    capabilities.hold(keep if uid == 0 else ())
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def probe(directory: str) -> None:
    """Try the whole way into a container in a child process; raises with the step that this machine refuses."""
    owner = (os.getuid(), os.getgid())
    failed_read, failed_write = os.pipe()
    flags = CONTAINER | (CLONE_NEWUSER if owner[0] != 0 else 0)
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
