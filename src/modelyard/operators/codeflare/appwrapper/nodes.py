"""What the health of nodes means for pods: which resources of a node are to be left or avoided, and who asks for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.kube.objects import is_deleting, labels_of, lookup, name_of, spec_of
from modelyard.kube.quantities import QuantityError, parse
from modelyard.operators.codeflare.appwrapper.config import Autopilot, Taint

_UNUSABLE = frozenset(("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"))


def no_execute(nodes: Iterable[Object], autopilot: Autopilot) -> dict[str, frozenset[str]]:
    """The resources of each node that nothing should use any longer."""
    found = {}
    for node in nodes:
        resources = _marked(node, autopilot, ("NoExecute",))
        if resources and not is_deleting(node):
            found[name_of(node)] = frozenset(resources)
    return found


def no_schedule(nodes: Iterable[Object], autopilot: Autopilot) -> dict[str, dict[str, Any]]:
    """How much of each node nothing new should use."""
    found: dict[str, dict[str, Any]] = {}
    for node in nodes:
        if is_deleting(node):
            continue
        capacity: Mapping[str, Any] = lookup(node, "status", "capacity") or {}
        taints = spec_of(node).get("taints") or ()
        if spec_of(node).get("unschedulable") or any(taint.get("key") in _UNUSABLE for taint in taints):
            amounts = {name: amount for name, amount in capacity.items() if name != "pods"}
        else:
            marked = _marked(node, autopilot, ("NoExecute", "NoSchedule"))
            amounts = {name: amount for name, amount in capacity.items() if name in marked}
        if amounts:
            found[name_of(node)] = amounts
    return found


def _marked(node: Object, autopilot: Autopilot, effects: tuple[str, ...]) -> set[str]:
    labels = labels_of(node)
    return {
        resource
        for resource, taints in autopilot.resource_taints.items()
        if any(taint.effect in effects and labels.get(taint.key) == taint.value for taint in taints)
    }


def requested(containers: Iterable[Object]) -> set[str]:
    """The resources that containers ask for, or may use, more than nothing of."""
    found = set()
    for container in containers:
        resources = container.get("resources") or {}
        for amounts in (resources.get("requests"), resources.get("limits")):
            found |= {name for name, amount in (amounts or {}).items() if _is_some(amount)}
    return found


def _is_some(amount: Any) -> bool:
    try:
        return bool(parse(amount))
    except QuantityError:
        return False


def avoiding(affinity: Object | None, resources: Iterable[str], autopilot: Autopilot) -> Object | None:
    """The affinity of a pod, with which it stays away from nodes where a resource that it asks for is not well."""
    required, preferred = _expressions(resources, autopilot)
    if not required and not preferred:
        return affinity
    made: Object = dict(affinity or {})
    node: Object = dict(made.get("nodeAffinity") or {})
    if required:
        selector = dict(node.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
        terms = selector.get("nodeSelectorTerms") or [{}]
        selector["nodeSelectorTerms"] = [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *required]} for term in terms
        ]
        node["requiredDuringSchedulingIgnoredDuringExecution"] = selector
    if preferred:
        term = {"weight": autopilot.prefer_no_schedule_weight, "preference": {"matchExpressions": preferred}}
        before = node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        node["preferredDuringSchedulingIgnoredDuringExecution"] = [*before, term]
    return {**made, "nodeAffinity": node}


def _expressions(resources: Iterable[str], autopilot: Autopilot) -> tuple[list[Object], list[Object]]:
    required: dict[str, list[str]] = {}
    preferred: dict[str, list[str]] = {}
    for resource in sorted(resources):
        taint: Taint
        for taint in autopilot.resource_taints.get(resource, ()):
            place = preferred if taint.effect == "PreferNoSchedule" else required
            values = place.setdefault(taint.key, [])
            if taint.value not in values:
                values.append(taint.value)
    return _not_in(required), _not_in(preferred)


def _not_in(values: Mapping[str, list[str]]) -> list[Object]:
    return [{"key": key, "operator": "NotIn", "values": found} for key, found in values.items()]
