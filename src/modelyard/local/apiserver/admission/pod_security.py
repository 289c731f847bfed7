"""Pod Security admission: a namespace's labels say which level its pods must keep to, and which they are warned about."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace

from modelyard.kube.builtin import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    Pod,
    PodTemplate,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from modelyard.kube.kinds import Object
from modelyard.kube.objects import lookup
from modelyard.local.apiserver.admission.pod_security_checks import LATEST, Violation, violations
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import Cause, forbidden, go_quote, invalid, invalid_value
from modelyard.local.apiserver.storage.store import Store, Stored

log = logging.getLogger(__name__)

_LABEL = "pod-security.kubernetes.io/"
_LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,8})")
_POD_SUBRESOURCES = ("", "ephemeralcontainers", "resize")
_TEMPLATES = {
    **dict.fromkeys((Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, ReplicationController), ("spec", "template")),
    CronJob: ("spec", "jobTemplate", "spec", "template"),
    PodTemplate: ("template",),
}
"""Where the pod is in what makes pods."""
_MOST_PODS = 3000


@dataclass(frozen=True)
class Standard:
    """A level and the version of its rules."""

    level: str = "privileged"
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def violations(self, metadata: Object, spec: Object) -> list[Violation]:
        return violations(self.level, self.minor, metadata, spec)

    @property
    def strictness(self) -> int:
        return _LEVELS.index(self.level)


@dataclass(frozen=True)
class Policy:
    """What a namespace asks for, and which of its labels cannot be read. An unreadable level forbids the most and warns of nothing."""

    enforce: Standard = field(default_factory=Standard)
    audit: Standard = field(default_factory=Standard)
    warn: Standard = field(default_factory=Standard)
    problems: tuple[Cause, ...] = ()

    @classmethod
    def of(cls, labels: dict[str, str]) -> Policy:
        problems: list[Cause] = []
        enforce = _standard(labels, "enforce", "restricted", problems)
        audit = _standard(labels, "audit", "privileged", problems)
        warn = _standard(labels, "warn", "privileged", problems)
        if (
            f"{_LABEL}warn" not in labels
            and labels.get(f"{_LABEL}enforce") in _LEVELS
            and enforce.strictness > warn.strictness
        ):
            version = warn.minor if f"{_LABEL}warn-version" in labels else enforce.minor
            warn = Standard(enforce.level, version)
        return cls(enforce, audit, warn, tuple(problems))


def _standard(labels: dict[str, str], mode: str, otherwise: str, problems: list[Cause]) -> Standard:
    found = Standard()
    key, value = f"{_LABEL}{mode}", labels.get(f"{_LABEL}{mode}")
    if value is not None:
        if value not in _LEVELS:
            detail = f"must be one of {', '.join(_LEVELS)}"
            problems.append(invalid_value(f"metadata.labels[{key}]", value, detail))
        found = Standard(value if value in _LEVELS else otherwise)
    key, value = f"{_LABEL}{mode}-version", labels.get(f"{_LABEL}{mode}-version")
    if value is not None and value != "latest":
        match = _VERSION.fullmatch(value)
        if match is None:
            problems.append(invalid_value(f"metadata.labels[{key}]", value, 'must be "latest" or "v1.x"'))
        else:
            found = replace(found, minor=int(match[1]))
    return found


class PodSecurity:
    """Refuses pods below the level that their namespace enforces, and warns of pods and templates below the one it warns of."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        if admission.operation not in ("CREATE", "UPDATE"):
            return False
        kind = admission.resource.kind
        if kind == Pod:
            return admission.subresource in _POD_SUBRESOURCES
        return (kind == Namespace or kind in _TEMPLATES) and not admission.subresource

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        return None

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None:
            return
        kind = admission.resource.kind
        if kind == Namespace:
            self._check_namespace(admission, obj, old)
            return
        stored = self._store.get(Namespace.resource, "", admission.namespace)
        if stored is None or _LABEL.encode() not in stored.raw:
            return
        policy = Policy.of(stored.decode()["metadata"].get("labels") or {})
        if kind == Pod:
            if old is None or _runs_something_else(obj["spec"], old["spec"]):
                self._check_pod(admission, policy, obj)
            return
        template = lookup(obj, *_TEMPLATES[kind])
        if isinstance(template, dict) and template.get("spec"):
            _warn(admission, policy, template.get("metadata") or {}, template["spec"])

    def _check_pod(self, admission: Admission, policy: Policy, pod: Object) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        found = policy.enforce.violations(metadata, spec)
        if found:
            why = f"violates PodSecurity {go_quote(str(policy.enforce))}: {', '.join(map(str, found))}"
            raise forbidden(Pod, metadata.get("name", ""), why)
        _warn(admission, policy, metadata, spec)

    def _check_namespace(self, admission: Admission, obj: Object, old: Object | None) -> None:
        policy = Policy.of(obj["metadata"].get("labels") or {})
        before = Policy.of((old or {}).get("metadata", {}).get("labels") or {})
        if policy.problems and policy.problems != before.problems:
            raise invalid(Namespace, obj["metadata"].get("name", ""), policy.problems)
        new, known = policy.enforce, before.enforce
        relaxed = new.minor == known.minor and new.strictness <= known.strictness
        if old is None or new == known or new.level == "privileged" or relaxed:
            return
        name = obj["metadata"].get("name", "")
        admission.warnings += existing_pods(name, new, self._store.items(Pod.resource, name))


def _warn(admission: Admission, policy: Policy, metadata: Object, spec: Object) -> None:
    if found := policy.audit.violations(metadata, spec):
        text = f"would violate PodSecurity {go_quote(str(policy.audit))}: {', '.join(map(str, found))}"
        log.info("audit: %s %s/%s %s", admission.resource.kind.kind, admission.namespace, admission.name, text)
    if found := policy.warn.violations(metadata, spec):
        admission.warnings.append(
            f"would violate PodSecurity {go_quote(str(policy.warn))}: {', '.join(map(str, found))}"
        )


def _runs_something_else(spec: Object, old: Object) -> bool:
    """Whether a change brings other containers or images: a pod that was let in stays as it is."""
    for group in ("containers", "initContainers"):
        new, known = spec.get(group) or [], old.get(group) or []
        if [each.get("image") for each in new] != [each.get("image") for each in known]:
            return True
    known_images = {each.get("name"): each.get("image") for each in old.get("ephemeralContainers") or ()}
    return any(
        each.get("name") not in known_images or each.get("image") != known_images[each.get("name")]
        for each in spec.get("ephemeralContainers") or ()
    )


def existing_pods(namespace: str, enforce: Standard, stored: list[Stored]) -> list[str]:
    """Warnings about pods that a new level would not have let in: one for each kind of violation."""
    by_reason: dict[str, list[str]] = {}
    checked = stored[:_MOST_PODS]
    for each in checked:
        pod = each.decode()
        if found := enforce.violations(pod["metadata"], pod["spec"]):
            by_reason.setdefault(", ".join(one.reason for one in found), []).append(each.name)
    said = []
    if len(checked) < len(stored):
        said.append(
            f"new PodSecurity enforce level only checked against the first {len(checked)} of {len(stored)} existing pods"
        )
    if by_reason:
        level = go_quote(str(enforce))
        said.append(
            f"existing pods in namespace {go_quote(namespace)} violate the new PodSecurity enforce level {level}"
        )
    return said + sorted(f"{_first_of(names)}: {reason}" for reason, names in by_reason.items())


def _first_of(names: list[str]) -> str:
    others = len(names) - 1
    more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
    return min(names) + more
