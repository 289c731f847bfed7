"""Volume claims that hold data: kept when their owner goes, grown when asked, never changed otherwise."""

from __future__ import annotations

from modelyard.kube import quantities
from modelyard.kube.kinds import Object
from modelyard.kube.objects import spec_of
from modelyard.runtime.desired import Child


def kept_claim(asked: Object, live: Object | None, *, keep: bool = True) -> Child:
    """The claim as it can be: what is bound stays as it is, only the size may grow. `keep`: it outlives its owner."""
    if live is None:
        return Child(asked, keep=keep, adopt=True)
    spec, bound = spec_of(asked), spec_of(live)
    size, was = _size(spec), _size(bound)
    kept = {field: bound[field] for field in ("accessModes", "storageClassName") if field in spec and field in bound}
    grown = size if was is None or quantities.compare(size or was, was) > 0 else was
    return Child({**asked, "spec": {**kept, "resources": {"requests": {"storage": grown}}}}, keep=keep, adopt=True)


def claim_differences(asked: Object, live: Object) -> list[str]:
    """What was asked of a claim that exists and cannot be had, in words."""
    spec, bound = spec_of(asked), spec_of(live)
    said = []
    size, was = _size(spec), _size(bound)
    if size and was and quantities.compare(size, was) < 0:
        said.append(f"size {size} is less than the {was} it has, and a volume cannot shrink")
    for field, name in (("storageClassName", "storage class"), ("accessModes", "access modes")):
        if field in spec and field in bound and spec[field] != bound[field]:
            said.append(f"{name} {_text(spec[field])} is not the {_text(bound[field])} it was made with")
    return said


def _size(spec: Object) -> str | None:
    requests: Object = (spec.get("resources") or {}).get("requests") or {}
    return requests.get("storage")


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)
