"""What Kubernetes warns of in a pod spec that it accepts: duplicates that hide each other, names that no longer work."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from modelyard.kube.kinds import Object
from modelyard.kube.names import dns_label
from modelyard.kube.quantities import parse
from modelyard.local.apiserver.requests.problems import go_quote

_DEAD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_DEAD_VOLUMES = {
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def pod_warnings(pod: Object, old: Object | None) -> list[str]:
    return template_warnings(pod, old, "")


def pod_name_warnings(obj: Object) -> list[str]:
    """Of what gives its name to pods."""
    wrong = dns_label(obj["metadata"].get("name", ""))
    detail = (
        "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
    )
    return [f"metadata.name: {detail}: [{' '.join(wrong)}]"] if wrong else []


def template_warnings(template: Object, old: Object | None, field: str) -> list[str]:
    """`field` is where the template is; empty for a pod."""
    spec = template.get("spec") or {}
    metadata = template.get("metadata") or {}
    at = f"{field}." if field else ""
    found: list[str] = []
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        if constraint.get("labelSelector") is None:
            found.append(f"{at}spec.topologySpreadConstraints[{index}].labelSelector: {_NULL_SELECTOR}")
    for key, message in _DEAD_ANNOTATIONS.items():
        if key in (metadata.get("annotations") or {}):
            found.append(f"{at}metadata.annotations[{key}]: {message}")
    for index, volume in enumerate(spec.get("volumes") or ()):
        for name in volume:
            if name in _DEAD_VOLUMES:
                found.append(f"{at}spec.volumes[{index}].{name}: {_DEAD_VOLUMES[name]}")
        found += _overlaps(volume)
    found += _duplicates(spec, at)
    for path, container in _containers(spec, at):
        found += _fractions(container, path)
        found += _hidden_variables(container, path)
    found += _ports(spec, at)
    found += _affinity(spec.get("affinity") or {}, f"{at}spec.affinity")
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        detail = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{at}spec.terminationGracePeriodSeconds: {detail}")
    return found


def _overlaps(volume: Object) -> list[str]:
    """Files of one volume that would lie over each other."""
    found: list[str] = []
    name = go_quote(volume.get("name", ""))
    for kind, title, key in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
        source = volume.get(kind) or {}
        paths = sorted(item.get("path", "").rstrip("/") for item in source.get("items") or ())
        for before, after in itertools.pairwise(paths):
            if after == before or after.startswith(f"{before}/"):
                what = f"{title} {go_quote(source.get(key, ''))}"
                found.append(f"volume {name} ({what}): overlapping paths: {go_quote(after)} with {go_quote(before)}")
    for projection in (volume.get("projected") or {}).get("sources") or ():
        if not projection:
            found.append(f"volume {name} (Projected) has no sources provided")
    return found


def _affinity(affinity: Object, field: str) -> list[str]:
    found: list[str] = []
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name) or {}
        for index, term in enumerate(pods.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            if term.get("labelSelector") is None:
                place = f"{field}.{name}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
                found.append(f"{place}.labelSelector: {_NULL_SELECTOR}")
        for index, weighted in enumerate(pods.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                place = f"{field}.{name}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
                found.append(f"{place}.podAffinityTerm.labelSelector: {_NULL_SELECTOR}")
    return found


def _containers(spec: Object, at: str) -> Iterator[tuple[str, Object]]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield f"{at}spec.{group}[{index}]", container


def _duplicates(spec: Object, at: str) -> list[str]:
    found: list[str] = []
    for name, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(name) or ()):
            value = item.get(key, "")
            if value in seen:
                found.append(f"{at}spec.{name}[{index}].{key}: duplicate {key} {go_quote(value)}")
            seen.add(value)
    for index, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            found.append(f'{at}spec.imagePullSecrets[{index}].name: invalid empty name ""')
    return found


def _fractions(container: Object, path: str) -> list[str]:
    found: list[str] = []
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for group in ("limits", "requests"):
            amount = (resources.get(group) or {}).get(name)
            if amount is not None and amount[-1:] in "mun" and parse(amount).milli % 1000:
                detail = f"fractional byte value {go_quote(amount)} is invalid, must be an integer"
                found.append(f"{path}.resources.{group}[{name}]: {detail}")
    return found


def _hidden_variables(container: Object, path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen:
            reference, value = f"$({name})", variable.get("value", "")
            if variable.get("valueFrom") is not None or value == reference or reference not in value:
                detail = f"hides previous definition of {go_quote(name)}, which may be dropped when using apply"
                found.append(f"{path}.env[{index}]: {detail}")
        seen.add(name)
    return found


def _ports(spec: Object, at: str) -> list[str]:
    found: list[str] = []
    taken: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    for path, container in _containers(spec, at):
        for index, port in enumerate(container.get("ports") or ()):
            place = f"{path}.ports[{index}]"
            others = taken.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
            host = (port.get("hostIP", ""), port.get("hostPort", 0))
            for other_place, other in others:
                other_host = (other.get("hostIP", ""), other.get("hostPort", 0))
                if host == other_host:
                    found.append(f"{place}: duplicate port definition with {other_place}")
                elif not host[1] or not other_host[1]:
                    found.append(f"{place}: overlapping port definition with {other_place}")
                elif host[1] == other_host[1] and bool(host[0]) != bool(other_host[0]):
                    found.append(f"{place}: dangerously ambiguous port definition with {other_place}")
            others.append((place, port))
    named: dict[str, str] = {}
    for path, container in _containers(spec, at):
        for index, port in enumerate(container.get("ports") or ()):
            place, name = f"{path}.ports[{index}]", port.get("name", "")
            if name and name in named:
                first = named[name]
                found.append(
                    f"{place}: duplicate port name {go_quote(name)} with {first}, services and probes that select ports "
                    f"by name will use {first}"
                )
            elif name:
                named[name] = place
    return found
