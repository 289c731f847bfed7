"""The status of a RayCluster, computed from its pods and from what could not be made. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from modelyard.kube import builtin, quantities
from modelyard.kube.conditions import condition, find_condition, is_true
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of, name_of, spec_of, status_of
from modelyard.kube.quantities import Quantity
from modelyard.kube.times import format_time
from modelyard.operators.parts.conditions import failures_to_tell
from modelyard.operators.parts.ray_crd import LARGEST, HeadGroup, RayCluster, WorkerGroup
from modelyard.operators.ray.groups import is_head, is_ready, is_running, wanted_workers
from modelyard.operators.ray.pods import Plan
from modelyard.operators.ray.start import is_gpu
from modelyard.runtime.declaring.desired import Live

HEAD_READY, PROVISIONED, FAILURE = "HeadPodReady", "RayClusterProvisioned", "ReplicaFailure"
SUSPENDING, SUSPENDED = "RayClusterSuspending", "RayClusterSuspended"
READY_STATE, SUSPENDED_STATE = "ready", "suspended"
_TIMES = ("lastUpdateTime", "observedGeneration")


@dataclass(frozen=True)
class Seen:
    """What a pass has found and decided."""

    plan: Plan
    pods: Sequence[Object]
    """Those that stay."""
    now: datetime
    suspending: bool = False
    suspended: bool = False
    problems: Sequence[Object] = field(default_factory=list)
    """Conditions about what keeps the pods from being as wanted."""


def cluster_status(cluster: RayCluster, seen: Seen, live: Live) -> Object:
    """The whole status; the same object as before where nothing but its times would change."""
    before = cluster.status.to_dict() if cluster.status else {}
    made = {**before, **_counts(seen), **_amounts(seen.plan), **_places(seen, live)}
    failed = [*seen.problems, *_pod_failures(live)]
    all_up = not failed and not failures_to_tell(live) and not live.waiting and _is_up(seen)
    made["conditions"] = list(_conditions(before, seen, failed, all_up))
    state = _state(str(before.get("state") or ""), seen, all_up)
    made.pop("state", None)
    made.pop("reason", None)
    if state:
        made["state"] = state
    if state != (before.get("state") or "") and state:
        made["stateTransitionTimes"] = {**(before.get("stateTransitionTimes") or {}), state: format_time(seen.now)}
    if (reason := "; ".join(str(one["message"]) for one in failed)) != "":
        made["reason"] = reason
    made["observedGeneration"] = cluster.metadata.generation
    made["lastUpdateTime"] = before.get("lastUpdateTime") or format_time(seen.now)
    if _differs(made, before):
        made["lastUpdateTime"] = format_time(seen.now)
    return made


def _differs(made: Object, before: Object) -> bool:
    """Beside the times."""

    def rest(status: Object) -> Object:
        kept = {name: value for name, value in status.items() if name not in _TIMES}
        told = [{k: v for k, v in one.items() if k != "lastTransitionTime"} for one in kept.get("conditions") or []]
        return kept | {"conditions": told}

    return rest(made) != rest(before)


def _is_up(seen: Seen) -> bool:
    wanted = 1 + sum(map(wanted_workers, _groups(seen.plan)))
    return len(seen.pods) == wanted and all(is_running(pod) and is_ready(pod) for pod in seen.pods)


def _state(before: str, seen: Seen, all_up: bool) -> str:
    """`ready` is not taken back when a pod goes: it says that the cluster came up."""
    if seen.suspended:
        return SUSPENDED_STATE
    if all_up:
        return READY_STATE
    return "" if before == SUSPENDED_STATE else before


def _conditions(before: Object, seen: Seen, failed: Sequence[Object], all_up: bool) -> Iterator[Object]:
    yield _head_condition(seen)
    old = find_condition(before.get("conditions"), PROVISIONED)
    if seen.suspended:
        yield condition(PROVISIONED, False, SUSPENDED, "The cluster is suspended")
    elif old is not None and old["status"] == "True":
        yield old
    elif all_up:
        yield condition(
            PROVISIONED, True, "AllPodRunningAndReadyFirstTime", "All Ray Pods are ready for the first time"
        )
    else:
        yield condition(
            PROVISIONED, False, "RayClusterPodsProvisioning", "RayCluster Pods are being provisioned for first time"
        )
    yield from failed[:1]
    yield condition(SUSPENDING, seen.suspending, SUSPENDING)
    yield condition(SUSPENDED, seen.suspended, SUSPENDED)


def _head_condition(seen: Seen) -> Object:
    head = next(filter(is_head, seen.pods), None)
    if head is None:
        return condition(HEAD_READY, False, "HeadPodNotFound", "Head Pod not found")
    found = find_condition(conditions_of(head), "Ready")
    if found is not None and found["status"] == "True":
        return condition(HEAD_READY, True, "HeadPodRunningAndReady", str(found.get("message") or ""))
    reason, message = str((found or {}).get("reason") or "Unknown"), str((found or {}).get("message") or "")
    for container in status_of(head).get("containerStatuses") or []:
        told = next((state for name, state in (container.get("state") or {}).items() if name != "running"), None)
        if told and told.get("reason"):
            reason, message = str(told["reason"]), str(told.get("message") or message)
            break
    return condition(HEAD_READY, False, reason, message)


def _pod_failures(live: Live) -> Iterator[Object]:
    """Pods that could not be made."""
    for failure in live.failures:
        if failure.kind == builtin.Pod:
            who = "HeadPod" if failure.key.name.rpartition("-")[0].endswith("-head") else "WorkerPod"
            yield condition(FAILURE, True, f"FailedCreate{who}", failure.message)


def _groups(plan: Plan) -> list[WorkerGroup]:
    return plan.spec.worker_group_specs or []


def _counts(seen: Seen) -> Object:
    groups, workers = _groups(seen.plan), [pod for pod in seen.pods if not is_head(pod)]
    running = [pod for pod in workers if is_running(pod)]
    most = sum(0 if group.suspend else group.max_replicas * group.num_of_hosts for group in groups)
    return {
        "desiredWorkerReplicas": sum(map(wanted_workers, groups)),
        "minWorkerReplicas": sum(0 if group.suspend else group.min_replicas * group.num_of_hosts for group in groups),
        "maxWorkerReplicas": min(most, LARGEST),
        "availableWorkerReplicas": len(running),
        "readyWorkerReplicas": sum(map(is_ready, running)),
    }


def _amounts(plan: Plan) -> Object:
    """What all pods together ask for."""
    total: dict[str, Quantity] = {}
    parts: list[tuple[HeadGroup | WorkerGroup, int]] = [(plan.spec.head_group_spec, 1)]
    parts += [(group, wanted_workers(group)) for group in _groups(plan)]
    for group, times in parts:
        for container in (group.template.get("spec") or {}).get("containers") or []:
            for name, amount in _asked(container.get("resources") or {}).items():
                total[name] = total.get(name, quantities.parse(0)) + quantities.parse(amount) * times

    def sum_of(names: Sequence[str]) -> str:
        amounts = [total[name] for name in names]
        return quantities.canonical(str(sum(amounts[1:], amounts[0]))) if amounts else "0"

    return {
        "desiredCPU": sum_of([name for name in total if name == "cpu"]),
        "desiredMemory": sum_of([name for name in total if name == "memory"]),
        "desiredGPU": sum_of([name for name in total if is_gpu(name)]),
        "desiredTPU": sum_of([name for name in total if name == "google.com/tpu"]),
    }


def _asked(given: Object) -> Mapping[str, str | int | float]:
    return {**(given.get("limits") or {}), **(given.get("requests") or {})}


def _places(seen: Seen, live: Live) -> Object:
    """Where the head is."""
    names = seen.plan.names
    service = live.get(builtin.Service, names.namespace, names.head_service)
    head = next(filter(is_head, seen.pods), None)
    pod_ip = str(status_of(head).get("podIP") or "") if head else ""
    address = str(spec_of(service).get("clusterIP") or "") if service else ""
    found = {
        "podIP": pod_ip,
        "podName": name_of(head) if head else "",
        "serviceIP": pod_ip if address in ("", "None") else address,
        "serviceName": names.head_service if service else "",
    }
    ports = (spec_of(service).get("ports") or []) if service else []
    endpoints = {port["name"]: str(port.get("nodePort") or port["targetPort"]) for port in ports if port.get("name")}
    return {"head": {name: value for name, value in found.items() if value}, "endpoints": endpoints}


def is_marked(cluster: RayCluster, type: str) -> bool:
    return is_true((cluster.status.to_dict() if cluster.status else {}).get("conditions"), type)
