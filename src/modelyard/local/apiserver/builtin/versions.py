"""Built-in kinds that are served in two ways and stored in one: events, and horizontal pod autoscalers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import TypeVar

from modelyard.kube.kinds import Object

T = TypeVar("T")

# core/v1 field -> events.k8s.io/v1 field
_EVENT_FIELDS = {
    "involvedObject": "regarding", "message": "note", "source": "deprecatedSource", "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp", "count": "deprecatedCount", "reportingComponent": "reportingController",
}  # fmt: skip
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


async def convert_events(objects: Sequence[Object], api_version: str) -> list[Object]:
    """Between v1 and events.k8s.io/v1, which name the same fields differently."""
    names = _EVENT_FIELDS if api_version != "v1" else {new: old for old, new in _EVENT_FIELDS.items()}
    converted = []
    for obj in objects:
        if obj.get("apiVersion") == api_version:
            converted.append(deepcopy(obj))
        else:
            fields = {names.get(name, name): value for name, value in deepcopy(obj).items()}
            converted.append(fields | {"apiVersion": api_version})
    return converted


async def convert_autoscalers(objects: Sequence[Object], api_version: str) -> list[Object]:
    """Between autoscaling/v1 and v2: v1 knows one CPU target; the rest goes into annotations."""
    converted = []
    for original in objects:
        obj = deepcopy(original)
        if obj.get("apiVersion") != api_version:
            (_to_v1 if api_version == "autoscaling/v1" else _to_v2)(obj)
            obj["apiVersion"] = api_version
        converted.append(obj)
    return converted


def _is_cpu_target(metric: Object) -> bool:
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and (resource.get("target") or {}).get("type") == "Utilization"


def _to_v1(obj: Object) -> None:
    spec = obj.get("spec") or {}
    notes: dict[str, str] = {}
    rest = []
    for metric in spec.pop("metrics", None) or ():
        if _is_cpu_target(metric) and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"].get("averageUtilization")
        else:
            rest.append(metric)
    if rest:
        notes[_METRICS] = json.dumps(rest, separators=(",", ":"))
    behavior = spec.pop("behavior", None)
    if behavior:
        notes[_BEHAVIOR] = json.dumps(behavior, separators=(",", ":"))
    if notes:
        metadata = obj["metadata"]
        metadata["annotations"] = (metadata.get("annotations") or {}) | notes
    status = obj.get("status") or {}
    for name in ("currentMetrics", "conditions"):
        status.pop(name, None)


def _to_v2(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    annotations = obj["metadata"].get("annotations") or {}
    target = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _read(annotations.pop(_METRICS, None), list)
    if target is not None:
        utilization = {"type": "Utilization", "averageUtilization": target}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}, *metrics]
    if metrics:
        spec["metrics"] = metrics
    behavior = _read(annotations.pop(_BEHAVIOR, None), dict)
    if behavior:
        spec["behavior"] = behavior
    if not annotations:
        obj["metadata"].pop("annotations", None)
    (obj.get("status") or {}).pop("currentCPUUtilizationPercentage", None)


def _read(text: str | None, kind: type[T]) -> T:
    """What an annotation holds; nothing where somebody wrote something else into it."""
    try:
        value = json.loads(text) if text else None
    except ValueError:
        value = None
    return value if isinstance(value, kind) else kind()
