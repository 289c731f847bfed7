"""What a namespace's LimitRanges give to pods that ask for nothing, and refuse to pods and claims that ask for too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from modelyard.kube.builtin import LimitRange, PersistentVolumeClaim, Pod
from modelyard.kube.kinds import Object
from modelyard.kube.quantities import Quantity, parse
from modelyard.local.apiserver.admission.plugins import creates
from modelyard.local.apiserver.requests.hooks import Admission
from modelyard.local.apiserver.requests.problems import forbidden
from modelyard.local.apiserver.storage.store import Store

_NOTE = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, str]
Constraint = Callable[[str, str, str, Amounts, Amounts], str]
"""Says what is wrong with requests and limits, given the limit's type, the resource and the bound; empty when nothing is."""


class LimitRangeAdmission:
    def __init__(self, store: Store) -> None:
        self._store = store

    def concerns(self, admission: Admission) -> bool:
        kinds = (Pod, PersistentVolumeClaim)
        return any(creates(admission, kind) for kind in kinds) and self._store.count(LimitRange.resource) > 0

    async def mutate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None or admission.resource.kind != Pod:
            return
        for limits in self._limits(admission.namespace):
            notes = [note for limit in limits if limit.get("type") == "Container" for note in _give(obj["spec"], limit)]
            if notes:
                annotations = obj["metadata"].setdefault("annotations", {})
                annotations[_NOTE] = "LimitRanger plugin set: " + "; ".join(notes)

    async def validate(self, admission: Admission, obj: Object | None, old: Object | None) -> None:
        if obj is None:
            return
        kind = admission.resource.kind
        wrong = _wrong_pod if kind == Pod else _wrong_claim
        for limits in self._limits(admission.namespace):
            found = [text for limit in limits for text in wrong(obj["spec"], limit)]
            if found:
                why = found[0] if len(found) == 1 else f"[{', '.join(dict.fromkeys(found))}]"
                raise forbidden(kind, obj["metadata"].get("name", ""), why)

    def _limits(self, namespace: str) -> Iterator[list[Object]]:
        """The limits of each LimitRange of a namespace."""
        for stored in self._store.items(LimitRange.resource, namespace):
            yield (stored.decode().get("spec") or {}).get("limits") or []


def _give(spec: Object, limit: Object) -> Iterator[str]:
    """Fills in what a container leaves out; tells what was set."""
    for field, title in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            resources = container.setdefault("resources", {})
            for part, given, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
                missing = {
                    name: amount
                    for name, amount in sorted((limit.get(given) or {}).items())
                    if name not in (resources.get(part) or {})
                }
                if missing:
                    resources[part] = (resources.get(part) or {}) | missing
                    yield f"{', '.join(missing)} {word} for {title} {container.get('name', '')}"


def _wrong_pod(spec: Object, limit: Object) -> Iterator[str]:
    if limit.get("type") == "Container":
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            yield from _wrong(limit, resources.get("requests") or {}, resources.get("limits") or {})
    elif limit.get("type") == "Pod":
        yield from _wrong(limit, _total(spec, "requests"), _total(spec, "limits"))


def _wrong_claim(spec: Object, limit: Object) -> Iterator[str]:
    if limit.get("type") != "PersistentVolumeClaim":
        return
    requests = (spec.get("resources") or {}).get("requests") or {}
    for name, bound in (limit.get("min") or {}).items():
        if text := _at_least("PersistentVolumeClaim", name, bound, requests, {}):
            yield text
    for name, bound in (limit.get("max") or {}).items():
        usage = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
        if name not in requests:
            yield f"{usage}.  No request is specified"
        elif parse(bound) < parse(requests[name]):
            yield f"{usage}, but request is {requests[name]}"


def _wrong(limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    checks: tuple[tuple[str, Constraint], ...] = (
        ("min", _at_least), ("max", _at_most), ("maxLimitRequestRatio", _in_proportion),
    )  # fmt: skip
    for field, check in checks:
        for name, bound in (limit.get(field) or {}).items():
            if text := check(limit["type"], name, bound, requests, limits):
                yield text


def _at_least(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    usage = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        return f"{usage}.  No request is specified"
    if parse(requests[name]) < parse(bound):
        return f"{usage}, but request is {requests[name]}"
    if name in limits and parse(limits[name]) < parse(bound):
        return f"{usage}, but limit is {limits[name]}"
    return ""


def _at_most(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    usage = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        return f"{usage}.  No limit is specified"
    if parse(bound) < parse(limits[name]):
        return f"{usage}, but limit is {limits[name]}"
    if name in requests and parse(bound) < parse(requests[name]):
        return f"{usage}, but request is {requests[name]}"
    return ""


def _in_proportion(kind: str, name: str, bound: str, requests: Amounts, limits: Amounts) -> str:
    head = f"{name} max limit to request ratio per {kind} is {bound}"
    if not requests.get(name) or not parse(requests[name]):
        return f"{head}, but no request is specified or request is 0"
    if not limits.get(name) or not parse(limits[name]):
        return f"{head}, but no limit is specified or limit is 0"
    ratio = float(parse(limits[name])) / float(parse(requests[name]))
    return f"{head}, but provided ratio is {ratio:f}" if ratio > float(parse(bound)) else ""


def _total(spec: Object, part: str) -> dict[str, str]:
    """What a pod's containers ask for together; those that only start it run one after the other."""
    together: dict[str, Quantity] = {}
    first = spec.get("initContainers") or ()
    beside = [container for container in first if container.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *beside):
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            together[name] = together[name] + parse(amount) if name in together else parse(amount)
    for container in first:
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items():
            if container not in beside and (name not in together or together[name] < parse(amount)):
                together[name] = parse(amount)
    return {name: str(amount) for name, amount in together.items()}
