"""Rules of PersistentVolumeClaims and PersistentVolumes."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin, names
from modelyard.kube.kinds import Object
from modelyard.kube.quantities import parse
from modelyard.local.apiserver.builtin import checks
from modelyard.local.apiserver.builtin.differences import difference
from modelyard.local.apiserver.builtin.pods.volumes import validate_source
from modelyard.local.apiserver.builtin.rules import Rules
from modelyard.local.apiserver.requests.problems import (
    Cause,
    field_forbidden,
    go_quote,
    invalid_value,
    not_supported,
    required,
)

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_LEGACY_CLASS = "volume.beta.kubernetes.io/storage-class"
_NOT_SOURCES = frozenset({
    "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions",
    "volumeMode", "nodeAffinity", "volumeAttributesClassName",
})  # fmt: skip
_FROZEN = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def validate_claim_spec(spec: Object, field: str) -> list[Cause]:
    modes = spec.get("accessModes") or ()
    found = [] if modes else [required(f"{field}.accessModes", "at least 1 access mode is required")]
    found += checks.label_selector(spec.get("selector"), f"{field}.selector")
    found += _modes(spec, field)
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    place = f"{field}.resources[storage]"
    if amount is None:
        found.append(required(place))
    elif parse(amount).nanos <= 0:
        found.append(invalid_value(place, amount, checks.POSITIVE))
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        found += checks.told(f"{field}.storageClassName", name, names.dns_subdomain(name))
    if spec.get("volumeMode") not in (None, *_VOLUME_MODES):
        found.append(not_supported(f"{field}.volumeMode", spec["volumeMode"], _VOLUME_MODES))
    for name in ("dataSource", "dataSourceRef"):
        source = spec.get(name)
        if source is not None:
            for part in ("name", "kind"):
                if not source.get(part):
                    found.append(required(f"{field}.{name}.{part}"))
            if not source.get("apiGroup") and source.get("kind") != "PersistentVolumeClaim":
                detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
                found.append(invalid_value(f"{field}.{name}", source.get("kind", ""), detail))
    return found


def _modes(spec: Object, field: str) -> list[Cause]:
    modes = spec.get("accessModes") or ()
    found = [not_supported(f"{field}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        found.append(field_forbidden(f"{field}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return found


def claim(obj: Object) -> list[Cause]:
    return validate_claim_spec(obj.get("spec") or {}, "spec")


def claim_update(new: Object, old: Object) -> list[Cause]:
    found = claim(new)
    before, after = dict(old["spec"]), dict(new["spec"])
    if not before.get("volumeName"):
        _take(before, after, "volumeName")
    found += _class_update(new, old, before, after)
    if (new.get("status") or {}).get("phase") == "Bound":
        _take_storage(after, before)
        _take(after, before, "volumeAttributesClassName")
    if before != after:
        diff = difference(before, after, "PersistentVolumeClaimSpec")
        found.append(field_forbidden("spec", f"{_FROZEN}\n{diff}"))
    wanted = _storage(new)
    allocated = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if parse(wanted) < parse(_storage(old)) and parse(wanted) <= parse(allocated):
        found.append(field_forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    return found + checks.immutable(new["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")


def _class_update(new: Object, old: Object, before: Object, after: Object) -> list[Cause]:
    """A class may move from the old annotation to its field, and may be given where there was none."""
    noted = (old["metadata"].get("annotations") or {}).get(_LEGACY_CLASS)
    notes = new["metadata"].get("annotations") or {}
    unset, wanted = before.get("storageClassName") is None, after.get("storageClassName")
    if noted is not None and unset and wanted == noted and notes.get(_LEGACY_CLASS, noted) == noted:
        del after["storageClassName"]
        return []
    if unset and wanted is not None and noted in (None, wanted):
        del after["storageClassName"]
    return checks.immutable(notes.get(_LEGACY_CLASS, ""), noted or "", f"metadata.annotations.{_LEGACY_CLASS}")


def _take(target: dict[str, Any], source: dict[str, Any], name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _take_storage(target: dict[str, Any], source: dict[str, Any]) -> None:
    resources = target.get("resources") or {}
    if resources.get("requests") is None:
        return
    amount = ((source.get("resources") or {}).get("requests") or {}).get("storage", "0")
    target["resources"] = {**resources, "requests": {**resources["requests"], "storage": amount}}


def _storage(obj: Object) -> str:
    amount: str = ((obj["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")
    return amount


def claim_warnings(spec: Object, path: str) -> list[str]:
    """Fractions of a byte in what a claim asks for."""
    found: list[str] = []
    for group in ("requests", "limits"):
        amount = ((spec.get("resources") or {}).get(group) or {}).get("storage")
        if amount is not None and parse(amount).milli % 1000:
            detail = f"fractional byte value {go_quote(amount)} is invalid, must be an integer"
            found.append(f"{path}.resources.{group}[storage]: {detail}")
    return found


def _warn_claim(obj: Object, old: Object | None) -> list[str]:
    return claim_warnings(obj["spec"], "spec")


def claim_status(new: Object, old: Object) -> list[Cause]:
    found: list[Cause] = []
    for name, amount in ((new.get("status") or {}).get("capacity") or {}).items():
        if parse(amount).nanos < 0:
            # Fractions are rounded away from zero.
            whole = parse(amount).milli // 1000
            found.append(invalid_value(f"status.capacity[{name}]", whole, "must be a valid resource quantity"))
    return found


def volume(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = [] if spec.get("accessModes") else [required("spec.accessModes")]
    found += _modes(spec, "spec")
    capacity = spec.get("capacity") or {}
    if not capacity:
        found.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        found.append(not_supported("spec.capacity", capacity or None, ("storage",)))
    for name, amount in capacity.items():
        if parse(amount).nanos <= 0:
            found.append(invalid_value(f"spec.capacity[{name}]", amount, checks.POSITIVE))
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM:
        found.append(not_supported("spec.persistentVolumeReclaimPolicy", policy or "", _RECLAIM))
    sources = [name for name in spec if name not in _NOT_SOURCES]
    if not sources:
        found.append(required("spec", "must specify a volume type"))
    for extra in sources[1:]:
        found.append(field_forbidden(f"spec.{extra}", "may not specify more than 1 volume type"))
    for name in ("hostPath", "nfs"):
        if spec.get(name) is not None:
            found += validate_source({name: spec[name]}, "spec")
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        found += checks.told("spec.storageClassName", name, names.dns_subdomain(name))
    if spec.get("volumeMode") not in (None, *_VOLUME_MODES):
        found.append(not_supported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES))
    return found


def volume_update(new: Object, old: Object) -> list[Cause]:
    found = volume(new)
    sources = [{key: value for key, value in obj["spec"].items() if key not in _NOT_SOURCES} for obj in (old, new)]
    if sources[0] != sources[1]:
        diff = difference(sources[0], sources[1], "PersistentVolumeSource")
        detail = f"spec.persistentvolumesource is immutable after creation\n{diff}"
        found.append(field_forbidden("spec.persistentvolumesource", detail))
    return found + checks.immutable(new["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")


def _mirror_sources(obj: Object) -> None:
    """`dataSource` and `dataSourceRef` name the same thing; each is filled from the other."""
    spec = obj["spec"]
    # Other kinds of sources were never supported here; Kubernetes drops them silently.
    if spec.get("dataSource") is not None:
        named = (spec["dataSource"].get("apiGroup") or "", spec["dataSource"].get("kind"))
        if named not in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")):
            del spec["dataSource"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        known = not reference.get("apiGroup") or reference.get("kind") == "VolumeSnapshot"
        if known:
            spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _stamp_phase(obj: Object) -> None:
    obj["status"]["lastPhaseTransitionTime"] = obj["metadata"].get("creationTimestamp")


RULES = (
    Rules(
        builtin.PersistentVolumeClaim,
        claim,
        claim_update,
        claim_status,
        prepare=_mirror_sources,
        warn=_warn_claim,
        status=True,
        initial_status={"phase": "Pending"},
    ),
    Rules(
        builtin.PersistentVolume,
        volume,
        volume_update,
        prepare=_stamp_phase,
        status=True,
        initial_status={"phase": "Pending"},
    ),
)
