"""Volume claims that hold data: kept when their owner goes, grown when asked, never changed otherwise. Pure."""

from __future__ import annotations

from modelyard.kube import builtin, quantities
from modelyard.kube.kinds import Object
from modelyard.kube.objects import spec_of, status_of
from modelyard.runtime.declaring.desired import Child
from modelyard.runtime.declaring.world import World


def class_of(claim: Object | None, world: World) -> Object | None:
    """The storage class that an existing claim names."""
    name = spec_of(claim or {}).get("storageClassName")
    return world.get(builtin.StorageClass, "", name) if name else None


def kept_claim(asked: Object, live: Object | None, storage_class: Object | None, *, keep: bool = True) -> Child:
    """The claim as it can be: what exists stays as it is, only the size may grow. `keep`: it outlives its owner."""
    if live is None:
        return Child(asked, keep=keep, adopt=True)
    spec, bound = spec_of(asked), spec_of(live)
    size, was = _size(spec), _size(bound)
    kept = {field: bound[field] for field in ("accessModes", "storageClassName") if field in bound}
    grows = can_grow(live, storage_class) and size is not None and (was is None or quantities.compare(size, was) > 0)
    request = {"storage": size if grows else was or size}
    return Child({**asked, "spec": {**kept, "resources": {"requests": request}}}, keep=keep, adopt=True)


def can_grow(claim: Object, storage_class: Object | None) -> bool:
    """The API lets only bound claims grow, and only where their class says so."""
    return _is_bound(claim) and bool((storage_class or {}).get("allowVolumeExpansion"))


def _is_bound(claim: Object) -> bool:
    return status_of(claim).get("phase") == "Bound"


def claim_differences(asked: Object, live: Object | None, storage_class: Object | None) -> list[str]:
    """What was asked of a claim that exists and cannot be had, in words."""
    if live is None:
        return []
    spec, bound = spec_of(asked), spec_of(live)
    said = []
    size, was = _size(spec), _size(bound)
    order = quantities.compare(size, was) if size and was else 0
    if order < 0:
        said.append(f"size {size} is less than the {was} it has, and a volume cannot shrink")
    elif order > 0 and not can_grow(live, storage_class):
        why = "its storage class does not let it grow" if _is_bound(live) else "it is not bound to a volume yet"
        said.append(f"size {size} is more than the {was} it has, and {why}")
    for field, name in (("storageClassName", "storage class"), ("accessModes", "access modes")):
        if field in spec and spec[field] != bound.get(field):
            said.append(f"{name} {_text(spec[field])} is not the {_text(bound.get(field))} it was made with")
    return said


def _size(spec: Object) -> str | None:
    requests: Object = (spec.get("resources") or {}).get("requests") or {}
    return requests.get("storage")


def _text(value: str | list[str] | None) -> str:
    return (value if isinstance(value, str) else ",".join(value or ())) or "none"
