"""From a container of a pod to what the keeper starts: environment, command, volumes and the view of the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from modelyard.kube.kinds import Object
from modelyard.local.images import Built, Invocation
from modelyard.local.kubelet.environment import ConfigError, command_line, environment, expand
from modelyard.local.kubelet.facts import Node, Objects
from modelyard.local.kubelet.processes import capabilities
from modelyard.local.kubelet.processes.runtime import Launch
from modelyard.local.kubelet.processes.sandbox import Mount, Sandbox, View
from modelyard.local.kubelet.volumes import paths
from modelyard.local.kubelet.volumes.directories import Mounted
from modelyard.local.network.bind import BindShim
from modelyard.local.network.rewrite import rewrite_argv, rewrite_env

NOBODY = 65534
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Machine:
    """What of this machine goes into every start."""

    node: Node
    objects: Objects
    sandbox: Sandbox
    shim: BindShim | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run of a container keeps its files."""

    root: Path
    log: Path
    hosts: Path
    termination: Path


def launch(
    pod: Object, container: Object, built: Built, volumes: dict[str, Mounted], place: Place, machine: Machine, *,
    identity: str, pod_ip: str, names: dict[str, str],
) -> tuple[Launch, dict[str, list[str]]]:  # fmt: skip
    """The start, and the variable names that had to be skipped. Raises `ConfigError` or `NotPossible`."""
    values = environment(pod, container, machine.objects, pod_ip=pod_ip, node=machine.node)
    uid, gid = user_of(pod, container, built)
    base = {"PATH": _PATH, "LANG": "C.UTF-8"} | dict(built.recipe.env)
    own = rewrite_env(values.given, pod_ip, built.recipe.keep_env)
    command, args = command_line(container, values.all)
    if command is None:
        argv = [*built.recipe.entrypoint, *(args if args is not None else built.recipe.command)]
    else:
        argv = [*command, *(args or [])]
    if not argv:
        raise ConfigError("no command specified")
    invocation = built.recipe.translate(
        Invocation(tuple(rewrite_argv(argv, pod_ip)), base | values.services | own, pod_ip, built)
    )
    env = dict(invocation.env)
    sources = ":".join(str(path) for path in built.python_path())
    if sources:
        env["PYTHONPATH"] = f"{sources}:{env['PYTHONPATH']}" if env.get("PYTHONPATH") else sources
    shown = built.shown()
    if machine.shim is not None:
        env = machine.shim.environment(pod_ip, env)
        shown += machine.shim.shown()
    message_path = container.get("terminationMessagePath") or "/dev/termination-log"
    view = View(
        root=place.root,
        mounts=mounts_of(pod, container, volumes, values.all),
        shown=shown,
        files={"/etc/hosts": place.hosts, message_path: place.termination},
        hostname=hostname_of(pod),
        uid=uid,
        gid=gid,
        cwd=container.get("workingDir") or "/",
        readonly_root=bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem")),
        names=names,
    )
    prepared = machine.sandbox.prepare(view, invocation.argv, env)
    place.termination.parent.mkdir(parents=True, exist_ok=True)
    place.termination.touch()
    place.termination.chmod(0o666)
    start = Launch(
        identity=identity, argv=prepared.argv, env=prepared.env, cwd=prepared.cwd, log=place.log, mode=prepared.mode,
        plan=prepared.plan, wrapper=prepared.wrapper, hostname=view.hostname, uid=uid, gid=gid,
        capabilities=capabilities.wanted(container.get("securityContext") or {})[0],
        stdin=bool(container.get("stdin")), tty=bool(container.get("tty")),
    )  # fmt: skip
    return start, values.skipped


def hostname_of(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"][:63].rstrip("-."))


def mounts_of(pod: Object, container: Object, volumes: dict[str, Mounted], values: dict[str, str]) -> list[Mount]:
    scratch = {item["name"] for item in pod["spec"].get("volumes") or [] if item.get("emptyDir") is not None}
    mounts = []
    for item in container.get("volumeMounts") or []:
        volume = volumes.get(item["name"])
        if volume is None:
            raise ConfigError(f'volume mount "{item["name"]}" names no volume of the pod')
        relative = item.get("subPath") or ""
        if item.get("subPathExpr"):
            relative = expand(item["subPathExpr"], values)
        if relative:
            try:
                # Made and checked for a clear answer; the keeper opens it again, and mounts what it opened.
                os.close(paths.open_beneath(str(volume.path), relative, make="dir"))
            except (ValueError, OSError) as error:
                raise ConfigError(f'failed to prepare subPath for volumeMount "{item["name"]}": {error}') from error
        readonly = volume.readonly or bool(item.get("readOnly"))
        mounts.append(Mount(volume.path, item["mountPath"], readonly, relative, item["name"] in scratch))
    return mounts


def user_of(pod: Object, container: Object, built: Built | None) -> tuple[int, int]:
    """The user a container runs as. A plain user can only be himself outside, but may carry another number inside."""
    outer_uid, outer_gid = os.getuid(), os.getgid()
    whole, own = pod["spec"].get("securityContext") or {}, container.get("securityContext") or {}
    wanted = own.get("runAsUser", whole.get("runAsUser"))
    group = own.get("runAsGroup", whole.get("runAsGroup"))
    nonroot = own.get("runAsNonRoot", whole.get("runAsNonRoot"))
    if nonroot and wanted == 0:
        raise ConfigError("container's runAsUser breaks non-root policy")
    if outer_uid != 0:
        return (outer_uid if wanted is None else int(wanted)), (outer_gid if group is None else int(group))
    if wanted is None:
        wanted = NOBODY if nonroot or (built is not None and built.recipe.unprivileged) else 0
    if group is None:
        group = 0 if wanted == 0 else NOBODY
    return int(wanted), int(group)


def owner_of(pod: Object) -> tuple[int, int] | None:
    """Who should own the pod's volumes when modelyard runs as root: the first user its containers name."""
    if os.getuid() != 0:
        return None
    for container in pod["spec"].get("containers") or []:
        uid, gid = user_of(pod, container, None)
        if uid != 0:
            return uid, gid
    return NOBODY, NOBODY
