"""Pods onto the one local node: selectors, gates, taints and room are respected, as a real scheduler words it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from modelyard.kube.builtin import Node, PersistentVolumeClaim, Pod
from modelyard.kube.conditions import condition, set_condition
from modelyard.kube.kinds import Key, Object
from modelyard.kube.quantities import Quantity, parse
from modelyard.kube.selectors import Operator, Requirement
from modelyard.kube.times import format_time
from modelyard.local.workloads import pods as podlib
from modelyard.runtime.declaring.controller import Controller, Permission, Reader, Watch
from modelyard.runtime.declaring.desired import Desired, EventNote, Hold
from modelyard.runtime.declaring.world import World

Bind = Callable[[str, str, str], Awaitable[None]]
"""`(namespace, pod, node)`: asks the API for the binding."""
RETRY = 60.0
_SHARED = "cpu"
"""The resource that only a single pod can ask too much of."""
_OPERATORS = {
    "In": Operator.IN, "NotIn": Operator.NOT_IN, "Exists": Operator.EXISTS, "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN, "Lt": Operator.LESS_THAN,
}  # fmt: skip


def scheduler_controller(bind: Bind) -> Controller:
    controller = Controller(
        "scheduler",
        Pod,
        watches=[Watch(Node, to=_waiting_pods), Watch(PersistentVolumeClaim, to=_pods_of_claim)],
        permissions=[Permission(("",), ("pods/binding",), ("create",))],
        concurrency=8,
    )

    async def reconcile(pod: Object, world: World) -> Desired | Hold:
        return await schedule(pod, world, bind)

    controller.reconcile(reconcile)
    return controller


async def schedule(pod: Object, world: World, bind: Bind) -> Desired | Hold:
    spec, meta = pod["spec"], pod["metadata"]
    if (
        spec.get("nodeName")
        or podlib.is_deleting(pod)
        or spec.get("schedulerName", "default-scheduler") != "default-scheduler"
    ):
        return Desired(prune=False)
    if gates := [gate["name"] for gate in spec.get("schedulingGates") or []]:
        held = condition(
            "PodScheduled", False, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
        )
        return Hold("SchedulingGated", f"gated by {', '.join(gates)}", status=_with(pod, held, world))
    nodes = world.list(Node)
    unbound = _unbound_claim(pod, world)
    reasons: list[str] = []
    for node in nodes if unbound is None else ():
        misfits = _misfits(pod, node, world)
        if not misfits:
            await bind(meta["namespace"], meta["name"], node["metadata"]["name"])
            note = EventNote(
                "Scheduled", f"Successfully assigned {meta['namespace']}/{meta['name']} to {node['metadata']['name']}"
            )
            return Desired(prune=False, events=[note])
        reasons += misfits
    counted = unbound or ", ".join(sorted(f"{reasons.count(why)} {why}" for why in set(reasons)))
    message = f"0/{len(nodes)} nodes are available: {counted}." if nodes else "no nodes available to schedule pods"
    stuck = condition("PodScheduled", False, "Unschedulable", message)
    note = EventNote("FailedScheduling", message, "Warning")
    return Hold("Unschedulable", message, status=_with(pod, stuck, world), events=[note], requeue_after=RETRY)


def _with(pod: Object, new: Object, world: World) -> Object:
    status = dict(pod.get("status") or {})
    status["conditions"] = set_condition(status.get("conditions"), new, format_time(world.now))
    return status


def _misfits(pod: Object, node: Object, world: World) -> list[str]:
    """Why this pod cannot go to this node; empty if it can."""
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if node["spec"].get("unschedulable"):
        return ["node(s) were unschedulable"]
    for taint in node["spec"].get("taints") or []:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not _tolerated(taint, spec.get("tolerations") or []):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    if not (spec.get("nodeSelector") or {}).items() <= labels.items() or not _fits_affinity(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return _no_room(pod, node, world)


def _unbound_claim(pod: Object, world: World) -> str | None:
    """A claim that no node could serve yet, in words; None if all are bound."""
    for volume in pod["spec"].get("volumes") or []:
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not claim:
            continue
        found = world.get(PersistentVolumeClaim, pod["metadata"]["namespace"], claim)
        if found is None:
            return f'persistentvolumeclaim "{claim}" not found'
        if found["metadata"].get("deletionTimestamp"):
            return f'persistentvolumeclaim "{claim}" is being deleted'
        if (found.get("status") or {}).get("phase") != "Bound":
            return "pod has unbound immediate PersistentVolumeClaims"
    return None


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        if toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def _fits_affinity(spec: Object, node: Object) -> bool:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not required:
        return True
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_holds(e, labels) for e in term.get("matchExpressions") or [])
        and all(_holds(e, fields) for e in term.get("matchFields") or [])
        for term in required.get("nodeSelectorTerms") or []
    )


def _holds(expression: Object, labels: dict[str, str]) -> bool:
    operator = _OPERATORS.get(expression["operator"])
    return operator is not None and Requirement(
        expression["key"], operator, tuple(expression.get("values") or ())
    ).matches(labels)


def _no_room(pod: Object, node: Object, world: World) -> list[str]:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    others = [
        p
        for p in world.list(Pod)
        if p["spec"].get("nodeName") == node["metadata"]["name"]
        and not podlib.is_finished(p)
        and p["metadata"]["uid"] != pod["metadata"]["uid"]
    ]
    lacking = []
    if "pods" in allocatable and len(others) >= parse(allocatable["pods"]).value:
        lacking.append("Too many pods")
    for resource, wanted in requests_of(pod).items():
        # Pods share the processors of a laptop, and most wait most of the time: together they may ask for more than there is.
        sharing = () if resource == _SHARED else others
        used = sum((requests_of(p).get(resource, Quantity(0)) for p in sharing), Quantity(0))
        if wanted and (resource not in allocatable or used + wanted > parse(allocatable[resource])):
            lacking.append(f"Insufficient {resource}")
    return lacking


def requests_of(pod: Object) -> dict[str, Quantity]:
    """What a pod asks for: all containers and sidecars together, or the largest init container."""
    total: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in pod["spec"].get("initContainers") or []:
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
        for resource, amount in asked.items():
            peak[resource] = max(peak.get(resource, Quantity(0)), total.get(resource, Quantity(0)) + amount)
    for container in pod["spec"]["containers"]:
        _add(total, _asked(container))
    return {
        resource: max(total.get(resource, Quantity(0)), peak.get(resource, Quantity(0))) for resource in total | peak
    }


def _asked(container: Object) -> dict[str, Quantity]:
    return {k: parse(v) for k, v in ((container.get("resources") or {}).get("requests") or {}).items()}


def _add(total: dict[str, Quantity], more: dict[str, Quantity]) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, Quantity(0)) + amount


def _waiting_pods(node: Object, reader: Reader) -> Iterable[Key]:
    return [_key(pod) for pod in reader.list(Pod) if not pod["spec"].get("nodeName")]


def _pods_of_claim(claim: Object, reader: Reader) -> Iterable[Key]:
    name = claim["metadata"]["name"]
    return [
        _key(pod)
        for pod in reader.list(Pod, claim["metadata"]["namespace"])
        if not pod["spec"].get("nodeName")
        and any(
            (v.get("persistentVolumeClaim") or {}).get("claimName") == name for v in pod["spec"].get("volumes") or []
        )
    ]


def _key(pod: Object) -> Key:
    return Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
