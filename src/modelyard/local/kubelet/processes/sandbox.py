"""What a container sees of this machine, by the strongest means that the machine allows.

Isolated with namespaces (bubblewrap, or our own launcher): the file system (a container sees its image's files read-only,
its volumes at their mount paths, its own /etc/hosts and /tmp, and nothing of the user's home), process ids and the host
name. Never isolated: the network (one loopback for all, so NetworkPolicies are not enforced), users (all containers run
as the user who runs modelyard; as root those that must not be root run as `nobody`, and the others without the
capabilities that reach beyond a container), kernel resources beside memory limits, which are watched. With neither means, paths in arguments and variables are rewritten to where volumes really are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from modelyard.local.kubelet.processes import namespaces
from modelyard.local.network.rewrite import rewrite_paths

_ETC = (
    "ssl", "pki", "ca-certificates", "ca-certificates.conf", "crypto-policies", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "alternatives", "localtime", "timezone", "mime.types", "protocols", "services", "resolv.conf", "gai.conf", "magic",
)  # fmt: skip
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_WRITABLE = (
    "/var/tmp",
    "/var/log",
    "/var/cache",
    "/var/lib",
    "/home/modelyard",
    "/opt",
    "/srv",
    "/mnt",
    "/run",
    "/root",
)
SHARED_MEMORY = 64 << 20
"""Bytes that fit into a container's /dev/shm, as on a cluster."""
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Isolation(StrEnum):
    """Strongest first: only with namespaces of our own no mount can be led astray while it is made."""

    NAMESPACES = "namespaces"
    BUBBLEWRAP = "bubblewrap"
    PATHS = "plain"


class NotPossible(Exception):
    """This container cannot be given what it asks for on this machine; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Mount:
    source: Path
    target: str
    readonly: bool = False
    beneath: str = ""
    """A path inside the source that is shown instead of all of it. Pods may change what is on the way to it."""
    scratch: bool = False
    """Holds nothing of its own at first (an emptyDir): a program that does not find it can do without."""


@dataclass(frozen=True, slots=True)
class View:
    """What one container should see."""

    root: Path
    mounts: Sequence[Mount]
    shown: Sequence[Path]
    files: Mapping[str, Path]
    """Single files at fixed places: /etc/hosts, the termination message."""
    hostname: str
    uid: int
    gid: int
    cwd: str = "/"
    readonly_root: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    """Service names and their addresses, for when there is no hosts file of the container's own."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """How the keeper must start it."""

    mode: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    plan: namespaces.Plan = field(default_factory=dict)
    wrapper: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sandbox:
    isolation: Isolation
    why: str = ""
    """What the stronger means failed with."""
    bubblewrap: str = ""

    @property
    def mounts_are_real(self) -> bool:
        return self.isolation is not Isolation.PATHS

    def describe(self) -> list[str]:
        """Plain sentences for the user."""
        common = "network: shared loopback, one address a pod; NetworkPolicies are stored but not enforced"
        if self.isolation is Isolation.PATHS:
            return [
                f"files: not isolated ({self.why}); mount paths in arguments and variables are rewritten",
                "processes: not isolated; killed with their pod",
                "nothing keeps a container from what you can do on this machine: run only what you trust",
                common,
            ]
        by = "bubblewrap" if self.isolation is Isolation.BUBBLEWRAP else "user and mount namespaces"
        return [
            f"files: isolated by {by}; a container sees its volumes, its image and system libraries, nothing of your home",
            "processes: isolated by a PID namespace; none outlives its pod",
            "users: not isolated; containers run with your rights on what they see",
            common,
        ]

    def prepare(self, view: View, argv: Sequence[str], env: Mapping[str, str]) -> Prepared:
        if self.isolation is Isolation.PATHS:
            return self._rewritten(view, argv, env)
        view.root.mkdir(parents=True, exist_ok=True)
        view.root.chmod(0o755)
        plan: namespaces.Plan = {
            "root": str(view.root),
            "mounts": mounts(view),
            "readonly_root": view.readonly_root,
        }
        _accounts(view)
        environment = {"HOME": "/home/modelyard", "HOSTNAME": view.hostname} | dict(env)
        wrapper = self._wrapper(view, plan) if self.isolation is Isolation.BUBBLEWRAP else []
        return Prepared(self.isolation.value, list(argv), environment, view.cwd, plan, wrapper)

    def _wrapper(self, view: View, plan: namespaces.Plan) -> list[str]:
        words = [self.bubblewrap, "--args", "@ENVIRONMENT_FD@", "--bind", str(view.root), "/"]
        for number, item in enumerate(plan["mounts"]):
            match item["type"]:
                case "bind" if item.get("beneath"):
                    option = "--ro-bind-fd" if item.get("readonly") else "--bind-fd"
                    words += [option, f"@BENEATH_{number}@", item["target"]]
                case "bind":
                    option = "--ro-bind" if item.get("readonly") else "--dev-bind"
                    words += [option, item["source"], item["target"]]
                case "symlink":
                    words += ["--symlink", item["to"], item["target"]]
                case "tmpfs":
                    size = ["--size", str(item["size"])] if item.get("size") else []
                    words += ["--perms", f"{item.get('mode', 0o755):04o}", *size, "--tmpfs", item["target"]]
                case "dir":
                    words += ["--perms", f"{item.get('mode', 0o755):04o}", "--dir", item["target"]]
                case "proc":
                    words += ["--proc", item["target"]]
        if view.readonly_root:
            words += ["--remount-ro", "/"]
        words += ["--unshare-user", "--uid", str(view.uid), "--gid", str(view.gid)]
        words += [
            "--unshare-pid",
            "--as-pid-1",
            "--unshare-ipc",
            "--unshare-uts",
            "--hostname",
            view.hostname,
            "--die-with-parent",
        ]
        return [*words, "--info-fd", "@INFO_FD@", "--chdir", view.cwd, "--"]

    def _rewritten(self, view: View, argv: Sequence[str], env: Mapping[str, str]) -> Prepared:
        places = {mount.target: str(mount.source / mount.beneath) for mount in view.mounts}
        places |= {target: str(path) for target, path in view.files.items() if target != "/etc/hosts"}
        text = "\n".join([*argv, *env.values()])
        for mount in view.mounts:
            if not mount.scratch and mount.target != _ACCOUNT and mount.target.rstrip("/") not in text:
                raise NotPossible(
                    f"the volume at {mount.target} cannot be shown: this machine allows no mount namespaces ({self.why}) and "
                    "the path is in no argument or variable that could be rewritten; install bubblewrap"
                )
        view.root.mkdir(parents=True, exist_ok=True)

        def rewritten(value: str) -> str:
            value = rewrite_paths(value, places)
            for name in sorted(view.names, key=len, reverse=True):
                if name in value:
                    value = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", view.names[name], value)
            return value

        environment = {"HOME": str(view.root), "TMPDIR": str(view.root), "HOSTNAME": view.hostname}
        environment |= {name: rewritten(value) for name, value in env.items()}
        if _ACCOUNT in places:
            environment["MODELYARD_SERVICE_ACCOUNT"] = places[_ACCOUNT]
        cwd = rewritten(view.cwd) if view.cwd != "/" else str(view.root)
        return Prepared("plain", [rewritten(word) for word in argv], environment, cwd)


def detect(prefer: Isolation | None = None) -> Sandbox:
    """The strongest isolation that really works here, found by trying. `prefer` asks for one and takes no other."""
    why: list[str] = []
    candidates = [prefer] if prefer else list(Isolation)
    for candidate in candidates:
        if candidate is Isolation.PATHS:
            return Sandbox(Isolation.PATHS, "; ".join(why) or "asked for")
        found, reason = _try_bubblewrap() if candidate is Isolation.BUBBLEWRAP else _try_namespaces()
        if found is not None:
            return found
        why.append(reason)
    raise NotPossible(f"isolation by {prefer} is not available: {'; '.join(why)}")


def _try_bubblewrap() -> tuple[Sandbox | None, str]:
    path = shutil.which("bwrap")
    if path is None:
        return None, "bubblewrap is not installed"
    if os.getuid() == 0:
        # Root needs no help to make namespaces, and bubblewrap would keep containers from becoming another user.
        return None, "bubblewrap is for plain users"
    command = [
        path,
        "--unshare-user",
        "--unshare-pid",
        "--unshare-uts",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "/bin/true",
    ]
    # Older ones cannot be given what was checked; a path may lead elsewhere by the time they mount it.
    known = subprocess.run([path, "--help"], capture_output=True, text=True, check=False).stdout
    if "--bind-fd" not in known or "--size" not in known:
        return None, "bubblewrap is too old (it needs --bind-fd and --size, as in 0.10)"
    failure = _failure(command)
    return (None, f"bubblewrap: {failure}") if failure else (Sandbox(Isolation.BUBBLEWRAP, bubblewrap=path), "")


def _try_namespaces() -> tuple[Sandbox | None, str]:
    root = str(Path(namespaces.__file__).parents[4])
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-S", "-B", "-m", namespaces.__name__, scratch]
        failure = _failure(command, {"PYTHONPATH": root})
    return (None, f"namespaces: {failure}") if failure else (Sandbox(Isolation.NAMESPACES), "")


def _failure(command: list[str], env: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, env=dict(env) if env else None, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def mounts(view: View) -> list[dict[str, object]]:
    """The container's file system, in the order it is put together."""
    targets = [_through_links(target) for target in [*(mount.target for mount in view.mounts), *view.files]]
    items: list[dict[str, object]] = []
    items += _host_tree(Path("/usr"), targets)
    for name in _TOP:
        path = Path("/") / name
        if path.is_symlink():
            items.append({"type": "symlink", "target": f"/{name}", "to": os.readlink(path)})
        elif path.is_dir():
            items += _host_tree(path, targets)
    for name in _ETC:
        path = Path("/etc") / name
        if path.exists():
            items += _host_tree(path, targets)
    items += [{"type": "bind", "source": f"/dev/{name}", "target": f"/dev/{name}"} for name in _DEVICES]
    items += [
        {"type": "symlink", "target": f"/dev/{name}", "to": to}
        for name, to in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"),
                         ("stderr", "/proc/self/fd/2"))
    ]  # fmt: skip
    items.append({"type": "tmpfs", "target": "/dev/shm", "mode": 0o1777, "size": SHARED_MEMORY})
    items.append({"type": "proc", "target": "/proc"})
    if Path("/sys").is_dir():
        items.append({"type": "bind", "source": "/sys", "target": "/sys", "readonly": True})
    items.append({"type": "dir", "target": "/tmp", "mode": 0o1777})
    items += [{"type": "dir", "target": path, "mode": 0o777} for path in _WRITABLE]
    items.append({"type": "symlink", "target": "/var/run", "to": "/run"})
    shown = [path for path in view.shown if not path.is_relative_to("/usr")]
    hidden = [path for path in shown if any(path.is_relative_to(mount.target) for mount in view.mounts)]
    for path in shown:
        if path not in hidden:
            items += _host_tree(path, targets)
    for mount in sorted(view.mounts, key=lambda mount: _through_links(mount.target)):
        item: dict[str, object] = {"type": "bind", "source": str(mount.source), "target": _through_links(mount.target)}
        items.append(item | {"readonly": mount.readonly} | ({"beneath": mount.beneath} if mount.beneath else {}))
    # A cache below /tmp would be covered by a volume at /tmp: the image's files go on top of it.
    items += [{"type": "bind", "source": str(path), "target": str(path), "readonly": True} for path in hidden]
    items += [
        {"type": "bind", "source": str(path), "target": _through_links(target)} for target, path in view.files.items()
    ]
    return items


def _through_links(target: str) -> str:
    """A mount point stays in the root, and may not pass through the symlinks that the root itself has."""
    target = os.path.normpath("/" + target.strip("/"))
    return (
        f"/run{target.removeprefix('/var/run')}" if target == "/var/run" or target.startswith("/var/run/") else target
    )


def _host_tree(path: Path, targets: Sequence[str]) -> list[dict[str, object]]:
    """Show a directory of this machine read-only; if something is to be mounted inside, its parts one by one."""
    inside = [target for target in targets if target.startswith(f"{path}/")]
    if not inside or not path.is_dir():
        real = path.resolve() if path.is_symlink() else path
        return [{"type": "bind", "source": str(real), "target": str(path), "readonly": True}]
    items: list[dict[str, object]] = [{"type": "dir", "target": str(path)}]
    for child in sorted(path.iterdir()):
        if str(child) in inside:
            continue
        if child.is_symlink():
            items.append({"type": "symlink", "target": str(child), "to": os.readlink(child)})
        else:
            items += _host_tree(child, inside)
    return items


def _accounts(view: View) -> None:
    """User and group names for the container's user; many programs ask for their own name."""
    etc = view.root / "etc"
    etc.mkdir(parents=True, exist_ok=True)
    name = "root" if view.uid == 0 else "modelyard"
    users = {0: "root:x:0:0:root:/root:/bin/sh", 65534: "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"}
    users[view.uid] = f"{name}:x:{view.uid}:{view.gid}:{name}:/home/modelyard:/bin/sh"
    groups = {0: "root:x:0:", 65534: "nogroup:x:65534:"}
    groups[view.gid] = f"{name}:x:{view.gid}:"
    (etc / "passwd").write_text("\n".join(users.values()) + "\n")
    (etc / "group").write_text("\n".join(groups.values()) + "\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    (etc / "hostname").write_text(f"{view.hostname}\n")
