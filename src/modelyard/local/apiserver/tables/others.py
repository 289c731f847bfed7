"""Rows of nodes, volumes, events, access rules and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.tables.ages import Ages, human_duration
from modelyard.local.apiserver.tables.labels import NONE

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_ROLE_PREFIX = "node-role.kubernetes.io/"


def _name_age(obj: Object, ages: Ages) -> tuple[str, str]:
    return obj["metadata"]["name"], ages.since(obj["metadata"].get("creationTimestamp"))


def named(obj: Object, ages: Ages) -> list[Any]:
    return list(_name_age(obj, ages))


def config_map(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age]


def secret(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, obj.get("type") or "", len(obj.get("data") or ()), age]


def namespace(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, (obj.get("status") or {}).get("phase") or "", age]


def node(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    ready = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles = (roles | {labels.get("kubernetes.io/role", "")}) - {""}
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name, state, ",".join(sorted(roles)) or NONE, age, info.get("kubeletVersion") or "", _address(status, "InternalIP"),
        _address(status, "ExternalIP"), info.get("osImage") or "<unknown>", kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]  # fmt: skip


def _address(status: Object, kind: str) -> str:
    return next((a["address"] for a in status.get("addresses") or () if a.get("type") == kind), NONE)


def event(obj: Object, ages: Ages) -> list[Any]:
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series:
        last, count = series.get("lastObservedTime"), series.get("count") or 0
    kind = str(involved.get("kind") or "").lower()
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        ages.since(last), obj.get("type") or "", obj.get("reason") or "",
        f"{kind}/{involved['name']}" if involved.get("name") else kind, involved.get("fieldPath") or "",
        f"{component}, {instance}" if instance else component, str(obj.get("message") or obj.get("note") or "").strip(),
        ages.since(first), count, obj["metadata"]["name"],
    ]  # fmt: skip


def persistent_volume(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef")
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or ""
    return [
        name, (spec.get("capacity") or {}).get("storage") or "0", _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "", phase,
        f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else "", _storage_class(obj),
        spec.get("volumeAttributesClassName") or "<unset>", status.get("reason") or "", age,
        spec.get("volumeMode") or "<unset>",
    ]  # fmt: skip


def persistent_volume_claim(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or ""
    volume = spec.get("volumeName") or ""
    return [
        name, phase, volume, ((status.get("capacity") or {}).get("storage") or "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "", _storage_class(obj),
        spec.get("volumeAttributesClassName") or "<unset>", age, spec.get("volumeMode") or "<unset>",
    ]  # fmt: skip


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _storage_class(obj: Object) -> str:
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    return str(annotated or (obj.get("spec") or {}).get("storageClassName") or "")


def storage_class(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [
        name, obj.get("provisioner") or "", obj.get("reclaimPolicy") or "Delete", obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")), age,
    ]  # fmt: skip


def default_class(objects: Sequence[Object]) -> str:
    """The storage class that a list marks as the default: the newest of those that say so of themselves."""
    marked = [obj for obj in objects if _is_default(obj)]
    newest = max((obj["metadata"].get("creationTimestamp") or "" for obj in marked), default="")
    names = [obj["metadata"]["name"] for obj in marked if (obj["metadata"].get("creationTimestamp") or "") == newest]
    return min(names, default="")


def _is_default(obj: Object) -> bool:
    annotations = obj["metadata"].get("annotations") or {}
    return any(annotations.get(name) == "true" for name in _DEFAULT_ANNOTATIONS)


def csi_driver(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec = obj.get("spec") or {}
    requests = spec.get("tokenRequests")
    audiences = "<unset>" if requests is None else ",".join(request.get("audience") or "" for request in requests)
    return [
        name, spec.get("attachRequired") is not False, bool(spec.get("podInfoOnMount")), bool(spec.get("storageCapacity")),
        audiences, bool(spec.get("requiresRepublish")), ",".join(spec.get("volumeLifecycleModes") or ()) or NONE, age,
    ]  # fmt: skip


def csi_node(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, len((obj.get("spec") or {}).get("drivers") or ()), age]


def signing_request(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    seconds = spec.get("expirationSeconds")
    conditions = {condition.get("type") for condition in status.get("conditions") or ()}
    state = "Denied" if "Denied" in conditions else "Approved" if "Approved" in conditions else "Pending"
    state += ",Failed" if "Failed" in conditions else ""
    state += ",Issued" if status.get("certificate") else ""
    return [
        name, age, spec.get("signerName") or NONE, spec.get("username") or "",
        NONE if seconds is None else human_duration(timedelta(seconds=seconds)), state,
    ]  # fmt: skip


def priority_class(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, obj.get("value") or 0, bool(obj.get("globalDefault")), age, obj.get("preemptionPolicy") or ""]


def runtime_class(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, obj.get("handler") or "", age]


def lease(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, (obj.get("spec") or {}).get("holderIdentity") or "", age]


def binding(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    role = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or ()
    users = [s["name"] for s in subjects if s.get("kind") == "User"]
    groups = [s["name"] for s in subjects if s.get("kind") == "Group"]
    accounts = [f"{s.get('namespace') or ''}/{s['name']}" for s in subjects if s.get("kind") == "ServiceAccount"]
    return [
        name,
        f"{role.get('kind')}/{role.get('name')}",
        age,
        ", ".join(users),
        ", ".join(groups),
        ", ".join(accounts),
    ]


def webhooks(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, len(obj.get("webhooks") or ()), age]


def disruption_budget(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec = obj.get("spec") or {}
    limits = [str(spec[k]) if spec.get(k) is not None else "N/A" for k in ("minAvailable", "maxUnavailable")]
    return [name, *limits, (obj.get("status") or {}).get("disruptionsAllowed") or 0, age]


def quota(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    texts = {key: f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard)}
    limits = [text for key, text in texts.items() if key.startswith("limits.")]
    requests = [text for key, text in texts.items() if not key.startswith("limits.")]
    return [name, ", ".join(requests), ", ".join(limits), age]


def scale(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    return [name, (obj.get("spec") or {}).get("replicas") or 0, (obj.get("status") or {}).get("replicas") or 0, age]


def autoscaler(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        name, f"{target.get('kind')}/{target.get('name')}", _metrics(spec, status), "<unset>" if least is None else str(least),
        spec.get("maxReplicas") or 0, status.get("currentReplicas") or 0, age,
    ]  # fmt: skip


def _metrics(spec: Object, status: Object) -> str:
    if spec.get("targetCPUUtilizationPercentage") is not None:
        current = status.get("currentCPUUtilizationPercentage")
        shown = "<unknown>" if current is None else f"{current}%"
        return f"cpu: {shown}/{spec['targetCPUUtilizationPercentage']}%"
    metrics, current_metrics = spec.get("metrics") or [], status.get("currentMetrics") or []
    if not metrics:
        return NONE
    texts = [_metric(m, current_metrics[i] if i < len(current_metrics) else {}) for i, m in enumerate(metrics)]
    more = f" + {len(texts) - 2} more..." if len(texts) > 2 else ""
    return ", ".join(texts[:2]) + more


def _metric(metric: Object, current: Object) -> str:
    kind = metric.get("type") or ""
    key = kind[:1].lower() + kind[1:]
    source, now = metric.get(key), (current.get(key) or {}).get("current") or {}
    if source is None:
        return "<unknown type>"
    target = source.get("target") or {}
    if kind in ("Resource", "ContainerResource"):
        if target.get("averageValue") is not None:
            return f"{source['name']}: {now.get('averageValue', '<unknown>')}/{target['averageValue']}"
        used, wanted = now.get("averageUtilization"), target.get("averageUtilization")
        shown = "<unknown>" if used is None else f"{used}%"
        return f"{source['name']}: {shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if kind == "Pods":
        return f"{now.get('averageValue', '<unknown>')}/{target.get('averageValue')}"
    if target.get("averageValue") is not None:
        return f"{now.get('averageValue', '<unknown>')}/{target['averageValue']} (avg)"
    return f"{now.get('value', '<unknown>')}/{target.get('value')}"


def attachment(obj: Object, ages: Ages) -> list[Any]:
    name, age = _name_age(obj, ages)
    spec = obj.get("spec") or {}
    volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool((obj.get("status") or {}).get("attached"))
    return [name, spec.get("attacher") or "", volume, spec.get("nodeName") or "", attached, age]


def definition(obj: Object, ages: Ages) -> list[Any]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    versions = sorted(
        f"{version.get('name', '')}{'(storage)' if version.get('storage') else ''}"
        for version in spec.get("versions") or ()
        if version.get("served")
    )
    conditions = (obj.get("status") or {}).get("conditions") or ()
    established = any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)
    return [
        obj["metadata"]["name"], spec.get("scope") or "", ",".join(versions), obj["metadata"].get("creationTimestamp"),
        spec.get("group") or "", names.get("kind") or "", ",".join(names.get("shortNames") or ()), established,
    ]  # fmt: skip
