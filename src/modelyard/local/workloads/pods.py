"""What workload controllers ask of pods, and how they make one from a template."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from modelyard.kube.kinds import Object
from modelyard.kube.times import later, parse_time

BURST = 500
"""So many pods are made in one pass, whatever number is asked for."""
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""Letters that make no words, as Kubernetes uses for generated names."""


def safe_text(source: str, size: int = 5) -> str:
    """A short name part from any text; the same text gives the same part."""
    digest = hashlib.sha256(source.encode()).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:size])


def template_hash(template: Object, collisions: int = 0) -> str:
    """Names a template's content; the order of keys plays no part."""
    content = msgspec.json.encode(template, order="deterministic") + str(collisions).encode()
    return safe_text(hashlib.sha256(content).hexdigest(), 10)


def generated_name(base: str, suffix: str) -> str:
    """`base-suffix`, cut as Kubernetes cuts a generateName so that the whole fits 63 characters."""
    return f"{base[: 63 - len(suffix) - 1]}-{suffix}"


def pod_from_template(
    template: Object,
    *,
    name: str,
    namespace: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Iterable[str] = (),
) -> Object:
    meta = template.get("metadata") or {}
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "labels": {**(meta.get("labels") or {}), **(labels or {})},
    }
    if notes := {**(meta.get("annotations") or {}), **(annotations or {})}:
        metadata["annotations"] = notes
    if held := [*(meta.get("finalizers") or []), *finalizers]:
        metadata["finalizers"] = held
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_finished(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_deleting(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_active(pod: Object) -> bool:
    """Neither finished nor on its way out."""
    return not is_finished(pod) and not is_deleting(pod)


def condition(obj: Object, kind: str) -> Object | None:
    for found in (obj.get("status") or {}).get("conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return None


def is_ready(pod: Object) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def available_at(pod: Object, min_ready_seconds: int) -> datetime | None:
    """When a ready pod counts as available; None while it is not ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    since = parse_time(ready.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
    return later(since, min_ready_seconds)


def is_available(pod: Object, min_ready_seconds: int, now: datetime) -> bool:
    if min_ready_seconds == 0:
        return is_ready(pod)
    at = available_at(pod, min_ready_seconds)
    return at is not None and at <= now


def seconds_until_available(pods: Iterable[Object], min_ready_seconds: int, now: datetime) -> float | None:
    """How long until the next ready pod becomes available; None if none is waiting."""
    if min_ready_seconds == 0:
        return None
    waits = [(at - now).total_seconds() for pod in pods if (at := available_at(pod, min_ready_seconds)) and at > now]
    return min(waits, default=None)


def deletion_rank(pod: Object) -> tuple[Any, ...]:
    """Sorts pods so that those to remove first come first: unassigned, pending, not ready, cheap, restarted, young."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    cost = int((pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost") or 0)
    return (
        bool((pod.get("spec") or {}).get("nodeName")),
        {"Pending": 0, "Unknown": 1, "Running": 2}.get(phase(pod), 1),
        is_ready(pod),
        cost,
        -max((int(s.get("restartCount") or 0) for s in statuses), default=0),
        _newest_first(pod["metadata"].get("creationTimestamp") or ""),
        pod["metadata"]["name"],
    )


def _newest_first(stamp: str) -> float:
    return -parse_time(stamp).timestamp() if stamp else 0.0
