"""What a kubelet reports about a pod, computed from its spec and from what its containers did. No input or output."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.kubelet.facts import is_sidecar

KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


@dataclass(slots=True)
class Attempt:
    """One run of a container. `number` is how often it had been restarted before."""

    number: int
    container_id: str
    started: datetime | None = None
    finished: datetime | None = None
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""

    @property
    def running(self) -> bool:
        return self.started is not None and self.finished is None

    @property
    def exited(self) -> bool:
        return self.finished is not None


@dataclass(slots=True)
class Waiting:
    reason: str
    message: str = ""


@dataclass(slots=True)
class ContainerRecord:
    """What is known about one container of a pod."""

    name: str
    current: Attempt | None = None
    previous: Attempt | None = None
    earlier: Attempt | None = None
    """The run before the previous one; shown as the last state while a new run is not yet announced."""
    waiting: Waiting | None = None
    """Why it is not started although it should be."""
    image_id: str = ""
    started: bool = False
    """Its start-up is over: post-start hook done and start-up probe passed."""
    ready: bool = False


_FINAL = ("Succeeded", "Failed")
_NEVER_SEEN: Object = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}


@dataclass(slots=True)
class PodFacts:
    """Everything beside the spec that a pod's status is made of."""

    records: dict[str, ContainerRecord] = field(default_factory=dict)
    pod_ip: str = ""
    host_ip: str = "127.0.0.1"
    start_time: datetime | None = None
    sandbox_ready: bool = False
    terminal: bool = False
    """No container will be started again, whatever the restart policy says."""
    reason: str = ""
    message: str = ""
    """Set when the node ended the pod (a deadline, a refusal): the pod is then Failed."""


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def should_restart(pod: Object, container: Object, exit_code: int) -> bool:
    """Whether the restart policy asks for another run after this exit."""
    policy = container.get("restartPolicy") or pod["spec"].get("restartPolicy") or "Always"
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code != 0))


def pod_status(pod: Object, facts: PodFacts, now: datetime) -> Object:
    """The pod's whole status, with conditions of others kept and transition times of unchanged ones carried over."""
    old: Object = pod.get("status") or {}
    spec = pod["spec"]
    has_init = bool(spec.get("initContainers"))
    init = [_container_status(pod, item, facts, has_init, is_init=True) for item in spec.get("initContainers") or []]
    main = [_container_status(pod, item, facts, has_init, is_init=False) for item in spec.get("containers") or []]
    statuses = {item["name"]: item for item in [*init, *main]}
    said = {key: old[key] for key in ("phase", "reason", "message") if old.get(key)}
    status: Object = {"phase": _phase(pod, statuses, facts)}
    if facts.reason:
        status |= {"phase": "Failed", "reason": facts.reason, "message": facts.message}
    elif said.get("phase") in _FINAL:
        status |= said
    phase = status["phase"]
    if phase in _FINAL and said.get("phase") not in _FINAL and _may_run(facts):
        # A pod is not over while one of its containers runs, whatever is decided about it.
        status = {"phase": "Pending"} | said
    elif facts.terminal and phase not in _FINAL:
        status["phase"] = "Failed"
    generation = pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    status["hostIP"] = facts.host_ip
    status["hostIPs"] = [{"ip": facts.host_ip}]
    if facts.pod_ip:
        status["podIP"] = facts.pod_ip
        status["podIPs"] = [{"ip": facts.pod_ip}]
    if facts.start_time is not None:
        status["startTime"] = timestamp(facts.start_time)
    if init:
        status["initContainerStatuses"] = init
    status["containerStatuses"] = main
    status["qosClass"] = old.get("qosClass") or qos_class(pod)
    status["conditions"] = _conditions(pod, statuses, facts, phase, now)
    return status


def _may_run(facts: PodFacts) -> bool:
    return any(record.current is not None and record.current.finished is None for record in facts.records.values())


def _container_status(pod: Object, container: Object, facts: PodFacts, has_init: bool, *, is_init: bool) -> Object:
    record = facts.records.get(container["name"]) or ContainerRecord(container["name"])
    status: Object = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "started": False,
        "lastState": {},
    }
    last = record.previous
    current = record.current
    if current is not None and current.started is None and not current.exited:
        # A run counts from when its start-up hook is done; until then the one before is what there is.
        current, last = record.previous, record.earlier
    if current is not None:
        status["imageID"] = record.image_id
    if current is None and facts.terminal and not is_init and _is_initialized(pod["spec"], facts):
        state: Object = {"terminated": _NEVER_SEEN}
    elif current is None:
        reason = "PodInitializing" if has_init else "ContainerCreating"
        state = {"waiting": _waiting(record.waiting) if record.waiting else {"reason": reason}}
    elif current.running:
        assert current.started is not None
        state = {"running": {"startedAt": timestamp(current.started)}}
    else:
        again = not facts.terminal and should_restart(pod, container, current.exit_code)
        if is_init and not is_sidecar(container) and current.exit_code == 0:
            again = False
        if again and record.waiting is not None:
            state = {"waiting": _waiting(record.waiting)}
            last = current
        else:
            state = {"terminated": _terminated(current)}
    status["restartCount"] = current.number if current else 0
    status["state"] = state
    if last is not None:
        status["lastState"] = {"terminated": _terminated(last)}
    if current is not None:
        status["containerID"] = current.container_id
        resources = container.get("resources") or {}
        status["resources"] = {key: resources[key] for key in ("limits", "requests") if resources.get(key)}
        if resources.get("requests"):
            status["allocatedResources"] = resources["requests"]
    running = current is not None and current.running
    status["started"] = bool(running and record.started)
    if is_init and not is_sidecar(container):
        status["ready"] = bool(current is not None and current.exited and current.exit_code == 0)
    else:
        status["ready"] = bool(running and record.started and record.ready)
    mounts = [_mount_status(mount) for mount in container.get("volumeMounts") or []]
    if mounts:
        status["volumeMounts"] = mounts
    return status


def _is_initialized(spec: Object, facts: PodFacts) -> bool:
    """Whether the pod came as far as its regular containers."""
    if any(
        facts.records[item["name"]].current is not None for item in spec["containers"] if item["name"] in facts.records
    ):
        return True
    init = spec.get("initContainers") or []
    last = facts.records[init[-1]["name"]].current if init and init[-1]["name"] in facts.records else None
    return not init or (last is not None and last.exited and last.exit_code == 0)


def _mount_status(mount: Object) -> Object:
    status: Object = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        status |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return status


def _waiting(waiting: Waiting) -> Object:
    return {"reason": waiting.reason} | ({"message": waiting.message} if waiting.message else {})


def _terminated(attempt: Attempt) -> Object:
    state: Object = {"exitCode": attempt.exit_code}
    if attempt.reason:
        state["reason"] = attempt.reason
    if attempt.message:
        state["message"] = attempt.message
    # A run that never began has the epoch as its start, as runtimes report it.
    state["startedAt"] = timestamp(attempt.started or datetime.fromtimestamp(0, UTC))
    if attempt.finished is not None:
        state["finishedAt"] = timestamp(attempt.finished)
    state["containerID"] = attempt.container_id
    return state


def _phase(pod: Object, statuses: dict[str, Object], facts: PodFacts) -> str:
    spec = pod["spec"]
    init_pending = sidecar_pending = 0
    for container in spec.get("initContainers") or []:
        status = statuses[container["name"]]
        state = status["state"]
        if is_sidecar(container):
            if ("running" in state and not status["started"]) or ("waiting" in state and not status["lastState"]):
                sidecar_pending += 1
            continue
        ended = state.get("terminated") or ("waiting" in state and status["lastState"].get("terminated")) or None
        if ended is None:
            init_pending += 1
        elif ended["exitCode"] != 0 and not should_restart(pod, container, ended["exitCode"]):
            return "Failed"
    running = waiting = stopped = final = succeeded = 0
    for container in [item for item in spec.get("initContainers") or [] if is_sidecar(item)]:
        status = statuses[container["name"]]
        running += "running" in status["state"]
        waiting += "waiting" in status["state"] and not status["lastState"]
    for container in spec.get("containers") or []:
        status = statuses[container["name"]]
        state = status["state"]
        if "running" in state:
            running += 1
            continue
        ended = state.get("terminated") or status["lastState"].get("terminated")
        if ended is None:
            waiting += 1
            continue
        stopped += 1
        final += not should_restart(pod, container, ended["exitCode"])
        succeeded += "terminated" in state and ended["exitCode"] == 0
    initialized = _any_started(spec, statuses)
    if init_pending or (sidecar_pending and not initialized) or waiting:
        return "Pending"
    if running:
        return "Running"
    if stopped:
        if not facts.terminal and stopped != final:
            return "Running"
        return "Succeeded" if stopped == succeeded else "Failed"
    return "Pending"


def _any_started(spec: Object, statuses: dict[str, Object]) -> bool:
    for container in spec.get("containers") or []:
        status = statuses[container["name"]]
        if "running" in status["state"] or "terminated" in status["state"] or status["lastState"]:
            return True
    return False


def _conditions(pod: Object, statuses: dict[str, Object], facts: PodFacts, phase: str, now: datetime) -> list[Object]:
    old = {item["type"]: item for item in (pod.get("status") or {}).get("conditions") or []}
    foreign = [item for kind, item in old.items() if kind not in KUBELET_CONDITIONS]
    containers_ready = _containers_ready(pod["spec"], statuses, phase)
    ready = containers_ready
    if containers_ready[0]:
        ready = _gates(pod["spec"], {item["type"]: item for item in foreign})
    made = {
        "PodReadyToStartContainers": (facts.sandbox_ready, "", ""),
        "Initialized": _initialized(pod["spec"], statuses, phase),
        "Ready": ready,
        "ContainersReady": containers_ready,
        "PodScheduled": (True, "", ""),
    }
    result = list(foreign)
    for kind, (value, reason, message) in made.items():
        condition: Object = {"type": kind, "status": "True" if value else "False", "lastProbeTime": None}
        generation = pod["metadata"].get("generation")
        if generation:
            condition["observedGeneration"] = generation
        before = old.get(kind)
        same = before is not None and before.get("status") == condition["status"]
        condition["lastTransitionTime"] = before["lastTransitionTime"] if same and before else timestamp(now)
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        result.append(condition)
    return result


def _containers_ready(spec: Object, statuses: dict[str, Object], phase: str) -> tuple[bool, str, str]:
    counted = [item for item in spec.get("initContainers") or [] if is_sidecar(item)] + list(
        spec.get("containers") or []
    )
    unready = [item["name"] for item in counted if not statuses[item["name"]]["ready"]]
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return True, "", ""


def _gates(spec: Object, conditions: dict[str, Object]) -> tuple[bool, str, str]:
    messages = []
    for gate in spec.get("readinessGates") or []:
        kind = gate["conditionType"]
        if kind not in conditions:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif conditions[kind].get("status") != "True":
            value = conditions[kind].get("status")
            messages.append(f'the status of pod readiness gate "{kind}" is not "True", but {value}')
    return (False, "ReadinessGatesNotReady", ", ".join(messages)) if messages else (True, "", "")


def _initialized(spec: Object, statuses: dict[str, Object], phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    if _any_started(spec, statuses):
        return True, "", ""
    incomplete = [
        item["name"]
        for item in spec.get("initContainers") or []
        if not statuses[item["name"]]["started" if is_sidecar(item) else "ready"]
    ]
    if incomplete:
        return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]"
    return True, "", ""


def qos_class(pod: Object) -> str:
    """Guaranteed when every container's limits equal its requests, BestEffort when none has any, else Burstable."""
    spec = pod["spec"]
    all_containers: list[Any] = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    some = False
    guaranteed = True
    for container in all_containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            some = some or name in limits or name in requests
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                guaranteed = False
    if not some:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
