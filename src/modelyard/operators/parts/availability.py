"""Is a Deployment up, and if not, why: read off its conditions, its pods and its endpoints. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of, generation_of, is_deleting, lookup, name_of, spec_of, status_of
from modelyard.kube.times import parse_time

SERVICE_NAME = "kubernetes.io/service-name"
"""The label by which an EndpointSlice says whose it is."""
_STARTING = frozenset(("", "ContainerCreating", "PodInitializing"))


@dataclass(frozen=True)
class Rollout:
    """Whether a Deployment is up, and if not, why."""

    available: bool
    message: str = ""
    since: datetime | None = None


def rollout(deployment: Object | None) -> Rollout:
    """What a Deployment's own conditions say."""
    if deployment is None:
        return Rollout(False, "Deployment not found")
    conditions = conditions_of(deployment)
    failure, progressing = find_condition(conditions, "ReplicaFailure"), find_condition(conditions, "Progressing")
    if failure is not None and failure.get("status") == "True":
        return Rollout(False, str(failure.get("message") or ""))
    if progressing is not None and progressing.get("status") == "False":
        return Rollout(False, str(progressing.get("message") or ""))
    found = find_condition(conditions, "Available")
    if found is None:
        return Rollout(False)
    since = found.get("lastTransitionTime")
    available = found.get("status") == "True"
    return Rollout(available, str(found.get("message") or ""), parse_time(since) if since else None)


def complete_rollout(deployment: Object | None, name: str) -> Rollout:
    """Available means here: the present template, all of it, and nothing older left. Then the version that answers is the one
    asked for. `name` says whose deployment it is, for people."""
    if deployment is None:
        return Rollout(False, f"{name} deployment does not exist yet")
    status, asked = status_of(deployment), spec_of(deployment).get("replicas")
    desired = 1 if asked is None else int(asked)
    ready, updated, total = (int(status.get(f) or 0) for f in ("readyReplicas", "updatedReplicas", "replicas"))
    if desired == 0:
        return Rollout(False, f"{name} deployment scaled to zero replicas")
    if ready < desired:
        why = f"{ready}/{desired} replicas ready"
    elif int(status.get("observedGeneration") or 0) < generation_of(deployment):
        why = "the Deployment controller has not seen the last change yet"
    elif updated < desired:
        why = f"{updated}/{desired} replicas updated"
    elif total > updated:
        why = f"{total - updated} replicas of the version before still run"
    else:
        return Rollout(True)
    return Rollout(False, f"{name} deployment not ready: {why}")


def cooling(state: Rollout, now: datetime, seconds: float) -> float:
    """For how many more seconds an available Deployment counts as only just available."""
    if not state.available or state.since is None:
        return 0.0
    return max(0.0, (state.since + timedelta(seconds=seconds) - now).total_seconds())


def unavailable_replicas(deployment: Object | None) -> int:
    return int(status_of(deployment or {}).get("unavailableReplicas") or 0)


def has_ready_address(slices: Sequence[Object]) -> bool:
    """Does any EndpointSlice lead to a pod that is ready? One that does not say is."""
    endpoints = (endpoint for one in slices for endpoint in one.get("endpoints") or ())
    return any(
        endpoint.get("addresses") and (endpoint.get("conditions") or {}).get("ready") is not False
        for endpoint in endpoints
    )


def pods_problem(pods: Sequence[Object]) -> str:
    """Why pods are not ready, by the first that says; empty where none does."""
    for pod in pods:
        failing = [f"{name}: {state}" for name, state in _unready_containers(pod)]
        if failing:
            return f"pod {name_of(pod)} has unready containers [{', '.join(failing)}]"
    for pod in pods:
        ready = find_condition(conditions_of(pod), "Ready")
        if ready is not None and ready.get("status") == "False":
            return f"pod {name_of(pod)} containers not ready: {_why(ready)}"
    return ""


def pending_problem(pods: Sequence[Object]) -> str:
    """Why a pod has no place to run, in the scheduler's words; empty where all have one."""
    for pod in pods:
        scheduled = find_condition(conditions_of(pod), "PodScheduled")
        if scheduled is not None and scheduled.get("status") == "False":
            return f"pod {name_of(pod)} is not scheduled: {_why(scheduled)}"
    return ""


def _unready_containers(pod: Object) -> Iterator[tuple[str, str]]:
    for status in _statuses(pod):
        if status.get("ready"):
            continue
        for state in ("waiting", "terminated"):
            found = lookup(status, "state", state)
            if found and found.get("reason", "") not in _STARTING:
                yield str(status.get("name")), f"{{{state}: {_why(found)}}}"


def _why(found: Object) -> str:
    return f"{{reason: {found.get('reason') or ''}, message: {found.get('message') or ''}}}"


def _statuses(pod: Object) -> list[Object]:
    found: list[Object] = status_of(pod).get("containerStatuses") or []
    return found


def waiting_containers(pods: Sequence[Object], container: str) -> list[str]:
    """The pods in which that container waits for something else than being created."""
    return [
        name_of(pod)
        for pod in pods
        for status in _statuses(pod)
        if status.get("name") == container
        and not status.get("ready")
        and (lookup(status, "state", "waiting") or {}).get("reason", "") not in _STARTING
    ]


def containers_problem(pods: Sequence[Object], deployment: str, containers: Sequence[str], missing: str) -> str:
    """Why no pod has all of these containers ready; empty where one has. `missing` says that one lacks the last of them."""
    if not pods:
        return f"No Pods found for Deployment {deployment}"
    active = [pod for pod in pods if not is_deleting(pod)]
    if not active:
        return f"No active Pods found for Deployment {deployment}"
    problem = ""
    for pod in active:
        problem = _container_problem(pod, containers, missing)
        if not problem:
            return ""
    return problem


def _container_problem(pod: Object, containers: Sequence[str], missing: str) -> str:
    name = name_of(pod)
    if containers[-1] not in {container.get("name") for container in spec_of(pod).get("containers") or ()}:
        return f"{missing} in Pod {name}"
    ready = {status.get("name"): bool(status.get("ready")) for status in _statuses(pod)}
    if not ready.keys() >= set(containers):
        return f"container status not yet available in Pod {name}"
    unready = next((container for container in containers if not ready[container]), None)
    return f"container {unready} not ready in Pod {name}" if unready else ""


def route_problem(route: Object | None) -> tuple[bool, str]:
    """`(admitted, why not)` of an OpenShift Route; nothing is said while the router has said nothing."""
    message = ""
    for ingress in status_of(route or {}).get("ingress") or ():
        found = find_condition(ingress.get("conditions"), "Admitted")
        if found is not None and found.get("status") == "True":
            return True, ""
        if found is not None:
            message = f"Host {ingress.get('host') or ''} in Route {name_of(route or {})} is unavailable: {_why(found)}"
    return False, message
