"""The Pod Security Standards as pure checks: what a level forbids in a pod, in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests.problems import go_quote

LATEST = 1 << 30
"""The minor version that stands for the newest rules."""
_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SELINUX = ("", "container_t", "container_init_t", "container_kvm_t")
_SYSCTLS = {
    0: (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ),
    27: ("net.ipv4.ip_local_reserved_ports",),
    29: (
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    ),
    32: ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    37: ("net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"),
}


@dataclass(frozen=True)
class Violation:
    """One thing that a level forbids: shortly, and with the places."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


@dataclass(frozen=True)
class PodFacts:
    """A pod, or the template of one, and the minor version of the rules."""

    annotations: dict[str, str]
    spec: Object
    minor: int

    @property
    def context(self) -> Object:
        return self.spec.get("securityContext") or {}

    def containers(self) -> Iterator[tuple[str, Object, Object]]:
        """Name, container and its security context."""
        for group in ("initContainers", "containers", "ephemeralContainers"):
            for container in self.spec.get(group) or ():
                yield container.get("name", ""), container, container.get("securityContext") or {}

    @property
    def is_windows(self) -> bool:
        """Such pods cannot have the fields that some rules ask for."""
        return self.minor >= 25 and (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """Root in such a pod is nobody on its node."""
        return self.minor >= 35 and self.spec.get("hostUsers") is False


def violations(level: str, minor: int, metadata: Object, spec: Object) -> list[Violation]:
    """What a level forbids in a pod, in the order of kube-apiserver: the baseline first."""
    if level == "privileged":
        return []
    pod = PodFacts(metadata.get("annotations") or {}, spec, minor)
    checks = [check for name, check in _BASELINE.items() if level == "baseline" or not _replaced(name, minor)]
    if level == "restricted":
        checks += [check for since, check in _RESTRICTED if minor >= since]
    return [found for check in checks if (found := check(pod)) is not None]


def _replaced(name: str, minor: int) -> bool:
    """Whether a stricter check of the restricted level says all that this one does."""
    since = {"hostPathVolumes": 0, "capabilities": 22, "seccompProfile": 19, "procMount": 35}.get(name)
    return since is not None and minor >= since


# Words.


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _counted(word: str, names: Sequence[str], plural: str = "") -> str:
    return word if len(names) == 1 else plural or f"{word}s"


def _named(names: Sequence[str]) -> str:
    return f"{_counted('container', names)} {_quoted(names)}"


def _setters(pod: bool, names: Sequence[str]) -> list[str]:
    return [*(["pod"] if pod else []), *([_named(names)] if names else [])]


# The baseline level.


def _apparmor(pod: PodFacts) -> Violation | None:
    def bad(context: Object) -> str | None:
        kind = (
            (context.get("appArmorProfile") or {}).get("type") if context.get("appArmorProfile") is not None else None
        )
        return kind if kind is not None and kind not in ("RuntimeDefault", "Localhost") else None

    names = [name for name, _, context in pod.containers() if bad(context) is not None]
    contexts = [pod.context, *(context for _, _, context in pod.containers())]
    values = sorted({found for context in contexts if (found := bad(context)) is not None})
    notes = sorted(
        f"{key}={go_quote(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    setters = _setters(bad(pod.context) is not None, names)
    values += notes
    if notes:
        setters.append(_counted("annotation", notes))
    if not setters:
        return None
    reason = _counted("forbidden AppArmor profile", values)
    return Violation(reason, f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(values)}")


def _capabilities(pod: PodFacts) -> Violation | None:
    names, added = _adding(pod, _CAPABILITIES)
    if not names:
        return None
    return Violation("non-default capabilities", _must_not_add(names, added))


def _adding(pod: PodFacts, allowed: frozenset[str]) -> tuple[list[str], list[str]]:
    """Who adds other capabilities than these, and which."""
    found = {
        name: [each for each in (context.get("capabilities") or {}).get("add") or () if each not in allowed]
        for name, _, context in pod.containers()
    }
    names = [name for name, added in found.items() if added]
    return names, sorted({each for added in found.values() for each in added})


def _must_not_add(names: Sequence[str], added: Sequence[str]) -> str:
    return f"{_named(names)} must not include {_quoted(added)} in securityContext.capabilities.add"


def _host_namespaces(pod: PodFacts) -> Violation | None:
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_paths(pod: PodFacts) -> Violation | None:
    found = [volume.get("name", "") for volume in pod.spec.get("volumes") or () if volume.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{_counted('volume', found)} {_quoted(found)}") if found else None


def _host_ports(pod: PodFacts) -> Violation | None:
    found = {
        name: [str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")]
        for name, container, _ in pod.containers()
    }
    names = [name for name, ports in found.items() if ports]
    if not names:
        return None
    ports = sorted({port for each in found.values() for port in each})
    uses = _counted("uses", names, "use")
    return Violation("hostPort", f"{_named(names)} {uses} {_counted('hostPort', ports)} {', '.join(ports)}")


def _probe_hosts(pod: PodFacts) -> Violation | None:
    if pod.minor < 34:
        return None
    found = {name: list(_hosts(container)) for name, container, _ in pod.containers()}
    names = sorted(name for name, hosts in found.items() if hosts)
    if not names:
        return None
    hosts = sorted({host for each in found.values() for host in each})
    word = "probe or lifecycle host"
    detail = f"{_named(names)} {_counted('uses', names, 'use')} {_counted(word, hosts)} {_quoted(hosts)}"
    return Violation(word, detail)


def _hosts(container: Object) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
    for handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            if host := ((handler or {}).get(action) or {}).get("host"):
                yield host


def _privileged(pod: PodFacts) -> Violation | None:
    names = [name for name, _, context in pod.containers() if context.get("privileged")]
    return Violation("privileged", f"{_named(names)} must not set securityContext.privileged=true") if names else None


def _proc_mount(pod: PodFacts) -> Violation | None:
    return None if pod.has_own_users else _any_proc_mount(pod)


def _any_proc_mount(pod: PodFacts) -> Violation | None:
    found = {
        name: context["procMount"]
        for name, _, context in pod.containers()
        if context.get("procMount") not in (None, "Default")
    }
    if not found:
        return None
    kinds = _quoted(sorted(set(found.values())))
    return Violation("procMount", f"{_named(list(found))} must not set securityContext.procMount to {kinds}")


def _selinux(pod: PodFacts) -> Violation | None:
    allowed = (*_SELINUX, *(("container_engine_t",) if pod.minor >= 31 else ()))

    def bad(context: Object) -> Object | None:
        options = context.get("seLinuxOptions")
        if options is None:
            return None
        wrong = options.get("type", "") not in allowed or options.get("user") or options.get("role")
        return options if wrong else None

    names = [name for name, _, context in pod.containers() if bad(context) is not None]
    setters = _setters(bad(pod.context) is not None, names)
    if not setters:
        return None
    contexts = [pod.context, *(context for _, _, context in pod.containers())]
    found = [options for context in contexts if (options := bad(context)) is not None]
    types = sorted({options.get("type", "") for options in found} - set(allowed))
    data = [f"{_counted('type', types)} {_quoted(types)}"] if types else []
    data += [f"{name} may not be set" for name in ("user", "role") if any(options.get(name) for options in found)]
    said = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    return Violation("seLinuxOptions", said)


def _seccomp_type(context: Object) -> str | None:
    """None: not set."""
    profile = context.get("seccompProfile")
    return None if profile is None else str(profile.get("type", ""))


def _seccomp(pod: PodFacts) -> Violation | None:
    if pod.minor < 19:
        return _seccomp_annotations(pod)
    found = {name: _seccomp_type(context) for name, _, context in pod.containers()}
    names = [name for name, kind in found.items() if not _good_seccomp(kind)]
    own = _seccomp_type(pod.context)
    setters = _setters(not _good_seccomp(own), names)
    if not setters:
        return None
    kinds = sorted({kind for kind in (own, *found.values()) if kind is not None and not _good_seccomp(kind)})
    said = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {_quoted(kinds)}"
    return Violation("seccompProfile", said)


def _good_seccomp(kind: str | None) -> bool:
    return kind in (None, "RuntimeDefault", "Localhost")


def _seccomp_annotations(pod: PodFacts) -> Violation | None:
    keys = [_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{name}" for name, _, _ in pod.containers())]
    bad = sorted(
        f"{key}={go_quote(value)}"
        for key in keys
        if (value := pod.annotations.get(key)) is not None
        and value not in ("runtime/default", "docker/default")
        and not value.startswith("localhost/")
    )
    return Violation("seccompProfile", f"forbidden {_counted('annotation', bad)} {', '.join(bad)}") if bad else None


def _sysctls(pod: PodFacts) -> Violation | None:
    allowed = {name for since, names in _SYSCTLS.items() if pod.minor >= since for name in names}
    found = [each.get("name", "") for each in pod.context.get("sysctls") or () if each.get("name", "") not in allowed]
    return Violation("forbidden sysctls", ", ".join(found)) if found else None


def _host_process(pod: PodFacts) -> Violation | None:
    def bad(context: Object) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(bad(pod.context), [name for name, _, context in pod.containers() if bad(context)])
    said = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", said) if setters else None


# The restricted level.


def _privilege_escalation(pod: PodFacts) -> Violation | None:
    if pod.is_windows:
        return None
    names = [name for name, _, context in pod.containers() if context.get("allowPrivilegeEscalation") is not False]
    said = f"{_named(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", said) if names else None


def _all_dropped(pod: PodFacts) -> Violation | None:
    if pod.is_windows:
        return None
    keeping = [
        name
        for name, _, context in pod.containers()
        if "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())
    ]
    names, added = _adding(pod, frozenset(("NET_BIND_SERVICE",)))
    said = [f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    said += [_must_not_add(names, added)] if names else []
    return Violation("unrestricted capabilities", "; ".join(said)) if said else None


def _volume_types(pod: PodFacts) -> Violation | None:
    found = {
        volume.get("name", ""): next((key for key, value in volume.items() if key != "name" and value is not None), "")
        for volume in pod.spec.get("volumes") or ()
    }
    bad = {name: kind or "unknown" for name, kind in found.items() if kind not in _VOLUMES}
    if not bad:
        return None
    names, kinds = list(bad), sorted(set(bad.values()))
    uses = _counted("uses", names, "use")
    said = f"{_counted('volume', names)} {_quoted(names)} {uses} {_counted('restricted volume type', kinds)} {_quoted(kinds)}"
    return Violation("restricted volume types", said)


def _non_root(pod: PodFacts) -> Violation | None:
    if pod.has_own_users:
        return None
    own = pod.context.get("runAsNonRoot")
    found = {name: context.get("runAsNonRoot") for name, _, context in pod.containers()}
    setters = _setters(own is False, [name for name, said in found.items() if said is False])
    if setters:
        said = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Violation("runAsNonRoot != true", said)
    silent = [name for name, said in found.items() if said is None and not own]
    text = f"pod or {_named(silent)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", text) if silent else None


def _not_user_zero(pod: PodFacts) -> Violation | None:
    if pod.has_own_users:
        return None
    names = [name for name, _, context in pod.containers() if _is_zero(context.get("runAsUser"))]
    setters = _setters(_is_zero(pod.context.get("runAsUser")), names)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _is_zero(value: Any) -> bool:
    return value is not None and value == 0


def _seccomp_set(pod: PodFacts) -> Violation | None:
    if pod.is_windows:
        return None
    if (wrong := _seccomp(pod)) is not None:
        return wrong
    silent = [name for name, _, context in pod.containers() if _seccomp_type(context) is None]
    if not silent or _seccomp_type(pod.context) is not None:
        return None
    said = f'pod or {_named(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", said)


_Check = Callable[[PodFacts], Violation | None]
_BASELINE: dict[str, _Check] = {
    "appArmorProfile": _apparmor,
    "capabilities": _capabilities,
    "hostNamespaces": _host_namespaces,
    "hostPathVolumes": _host_paths,
    "hostPorts": _host_ports,
    "hostProbesAndHostLifecycle": _probe_hosts,
    "privileged": _privileged,
    "procMount": _proc_mount,
    "seLinuxOptions": _selinux,
    "seccompProfile": _seccomp,
    "sysctls": _sysctls,
    "windowsHostProcess": _host_process,
}
_RESTRICTED: tuple[tuple[int, _Check], ...] = (
    (8, _privilege_escalation),
    (22, _all_dropped),
    (35, _any_proc_mount),
    (0, _volume_types),
    (0, _non_root),
    (23, _not_user_zero),
    (19, _seccomp_set),
)
"""Since which minor version, and the check."""
