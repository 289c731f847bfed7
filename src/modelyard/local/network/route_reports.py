"""What the gateway says about the objects that it serves: status conditions, and Events where a kind has no conditions. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.local.network.published import Settled
from modelyard.local.network.routes import Backend

CONTROLLER = "modelyard.dev/gateway"
_REASON_LENGTH = 1024


def status_of(settled: Settled, port: int, exists: Callable[[Backend], bool], now: str) -> Object | None:
    """The status that says what is served and what is not. None if there is nothing to say it to."""
    obj = settled.published.object
    spec, before = obj.get("spec") or {}, obj.get("status") or {}
    if settled.published.kind == builtin.Ingress:
        ports = [{"port": port, "protocol": "TCP"}]
        return {"loadBalancer": {"ingress": [{"hostname": "localhost", "ports": ports}] if settled.routes else None}}
    if settled.published.kind == builtin.HTTPRoute:
        known = {str(each.get("parentRef")): each.get("conditions") for each in before.get("parents") or ()}
        parents = [
            {
                "parentRef": parent,
                "controllerName": CONTROLLER,
                "conditions": _dated(_route_conditions(settled, exists), known.get(str(parent)) or (), now),
            }
            for parent in spec.get("parentRefs") or []
        ]
        return {"parents": parents} if parents else None
    admitted: Object = {"type": "Admitted", "status": "True"}
    if settled.refusals:
        admitted = {"type": "Admitted", "status": "False", "reason": "HostAlreadyClaimed", "message": refusal(settled)}
    first: Object = next(iter(before.get("ingress") or ()), {})
    conditions = _dated([admitted], first.get("conditions") or (), now)
    served = next((route.host for route in settled.routes), "")
    host = spec.get("host") or served or "localhost"
    return {"ingress": [{"host": host, "routerName": "default", "wildcardPolicy": "None", "conditions": conditions}]}


def _route_conditions(settled: Settled, exists: Callable[[Backend], bool]) -> list[Object]:
    generation = settled.published.object["metadata"].get("generation") or 0

    def condition(name: str, good: bool, reason: str, message: str = "") -> Object:
        said: Object = {"type": name, "status": str(good), "reason": reason, "message": message}
        return {**said, "observedGeneration": generation}

    reason = "PathTaken" if settled.refusals else "UnsupportedValue"
    if settled.is_complete:
        accepted = [condition("Accepted", True, "Accepted")]
    elif settled.routes:
        accepted = [
            condition("Accepted", True, "Accepted"),
            condition("PartiallyInvalid", True, reason, refusal(settled)),
        ]
    else:
        accepted = [condition("Accepted", False, reason, refusal(settled))]
    backends = {backend for route in settled.routes for backend in route.backends}
    lost = sorted({f"{each.namespace}/{each.service}" for each in backends if each.permitted and not exists(each)})
    if settled.forbidden:
        text = f"{_some(settled.forbidden)}: its namespace has no ReferenceGrant for HTTPRoutes of {settled.published.namespace}"
        return [*accepted, condition("ResolvedRefs", False, "RefNotPermitted", text)]
    if lost:
        return [*accepted, condition("ResolvedRefs", False, "BackendNotFound", f"no such Service: {_some(lost)}")]
    return [*accepted, condition("ResolvedRefs", True, "ResolvedRefs")]


def refusal(settled: Settled) -> str:
    taken = f"{_some(settled.refusals)}; the first one to ask for a host and path has it" if settled.refusals else ""
    return f"not served: {'; '.join(filter(None, (taken, _some(settled.invalid))))}"


def _some(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")
    return shown[:_REASON_LENGTH]


def _dated(conditions: Sequence[Object], before: Sequence[Object], now: str) -> list[Object]:
    """Each with the time of its last change."""
    since = {(each.get("type"), each.get("status")): each.get("lastTransitionTime") for each in before}
    return [{**each, "lastTransitionTime": since.get((each["type"], each["status"])) or now} for each in conditions]


def event_of(settled: Settled, now: str, name: str) -> Object:
    """An Ingress has no conditions."""
    one = settled.published
    return {
        "metadata": {"name": name, "namespace": one.namespace},
        "involvedObject": {
            "apiVersion": one.kind.api_version,
            "kind": one.kind.kind,
            "namespace": one.namespace,
            "name": one.name,
            "uid": one.uid,
        },
        "reason": "PathTaken",
        "message": refusal(settled),
        "type": "Warning",
        "source": {"component": "modelyard-gateway"},
        "reportingComponent": CONTROLLER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
