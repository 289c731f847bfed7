"""Rows of pods and of what makes pods."""

from __future__ import annotations

from typing import Any

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.tables.ages import Ages
from modelyard.local.apiserver.tables.labels import format_labels, format_selector

NONE = "<none>"
_OVER = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_conditions(obj: Object) -> list[Object]:
    phase = (obj.get("status") or {}).get("phase")
    if phase not in _OVER:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _OVER[phase]}]


def pod(obj: Object, ages: Ages) -> list[Any]:
    spec, status, metadata = obj.get("spec") or {}, obj.get("status") or {}, obj["metadata"]
    restartable = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(restartable)
    reason = status.get("reason") or status.get("phase") or ""
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()
    ):
        reason = "SchedulingGated"
    init = _InitContainers(spec, status, restartable)
    reason = init.reason or reason
    ready, restarts, last = init.ready, init.restarts, init.last
    if not init.initializing or _condition_true(status, "Initialized"):
        restarts, last = init.sidecar_restarts, init.sidecar_last
        main = _Containers(status, reason)
        reason, ready = main.reason, ready + main.ready
        restarts += main.restarts
        last = max(last, main.last)
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    shown = f"{restarts} ({ages.since(last)} ago)" if restarts and last else str(restarts)
    ips = status.get("podIPs") or ()
    return [
        metadata["name"], f"{ready}/{total}", reason, shown, ages.since(metadata.get("creationTimestamp")),
        (ips[0].get("ip") if ips else "") or NONE, spec.get("nodeName") or NONE, status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]  # fmt: skip


class _InitContainers:
    """What the init containers say about the pod."""

    def __init__(self, spec: Object, status: Object, restartable: set[str]) -> None:
        self.reason = ""
        self.initializing = False
        self.ready = self.restarts = self.sidecar_restarts = 0
        self.last = self.sidecar_last = ""
        count = len(spec.get("initContainers") or ())
        for index, container in enumerate(status.get("initContainerStatuses") or ()):
            sidecar = container.get("name") in restartable
            ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
            self.restarts += container.get("restartCount") or 0
            self.last = max(self.last, ended)
            if sidecar:
                self.sidecar_restarts += container.get("restartCount") or 0
                self.sidecar_last = max(self.sidecar_last, ended)
            state = container.get("state") or {}
            terminated, waiting = state.get("terminated"), state.get("waiting") or {}
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if sidecar and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            self.initializing = True
            if terminated is not None:
                self.reason = f"Init:{_terminated_reason(terminated)}"
            elif waiting.get("reason") not in (None, "", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{count}"
            break


class _Containers:
    """What the main containers say; the first one has the last word."""

    def __init__(self, status: Object, reason: str) -> None:
        self.ready = self.restarts = 0
        self.last = ""
        running, failure = False, ""
        for container in reversed(status.get("containerStatuses") or ()):
            self.restarts += container.get("restartCount") or 0
            ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
            self.last = max(self.last, ended)
            state = container.get("state") or {}
            terminated, waiting = state.get("terminated"), state.get("waiting") or {}
            if waiting.get("reason"):
                reason = waiting["reason"]
            elif terminated is not None:
                reason = _terminated_reason(terminated)
                if terminated.get("exitCode"):
                    failure = reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if reason == "Completed":
            if running and _condition_true(status, "Ready"):
                reason = "Running"
            elif failure:
                reason = failure
            elif running:
                reason = "NotReady"
        self.reason = reason


def _terminated_reason(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _condition_true(status: Object, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in status.get("conditions") or ())


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    return f"{sum(_condition_true(status, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


def _containers(template: Object | None) -> list[str]:
    containers = ((template or {}).get("spec") or {}).get("containers") or ()
    return [",".join(c.get("name", "") for c in containers), ",".join(c.get("image", "") for c in containers)]


def _parts(obj: Object, ages: Ages) -> tuple[Object, Object, str, str]:
    metadata = obj["metadata"]
    return (
        obj.get("spec") or {}, obj.get("status") or {}, metadata["name"], ages.since(metadata.get("creationTimestamp"))
    )  # fmt: skip


def deployment(obj: Object, ages: Ages) -> list[Any]:
    spec, status, name, age = _parts(obj, ages)
    return [
        name, f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}", status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0, age, *_containers(spec.get("template")),
        format_selector(spec.get("selector"), empty=""),
    ]  # fmt: skip


def replica_set(obj: Object, ages: Ages) -> list[Any]:
    spec, status, name, age = _parts(obj, ages)
    selector = spec.get("selector")
    # A ReplicationController has plain labels as its selector.
    shown = format_selector(selector) if obj.get("kind") != "ReplicationController" else format_labels(selector)
    return [
        name, spec.get("replicas") or 0, status.get("replicas") or 0, status.get("readyReplicas") or 0, age,
        *_containers(spec.get("template")), shown,
    ]  # fmt: skip


def stateful_set(obj: Object, ages: Ages) -> list[Any]:
    spec, status, name, age = _parts(obj, ages)
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [name, ready, age, *_containers(spec.get("template"))]


def daemon_set(obj: Object, ages: Ages) -> list[Any]:
    spec, status, name, age = _parts(obj, ages)
    counts = (
        "desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable",
    )  # fmt: skip
    template = spec.get("template") or {}
    return [
        name, *(status.get(count) or 0 for count in counts),
        format_labels((template.get("spec") or {}).get("nodeSelector")), age, *_containers(template),
        format_selector(spec.get("selector")),
    ]  # fmt: skip


def job(obj: Object, ages: Ages) -> list[Any]:
    spec, status, name, age = _parts(obj, ages)
    succeeded = status.get("succeeded") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        parallelism = spec.get("parallelism") or 0
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    start, end = status.get("startTime"), status.get("completionTime")
    return [
        name, _job_state(obj, status), completions, ages.span(start, end) if start else "", age,
        *_containers(spec.get("template")), format_selector(spec.get("selector")),
    ]  # fmt: skip


def _job_state(obj: Object, status: Object) -> str:
    for kind in ("Complete", "Failed"):
        if _condition_true(status, kind):
            return kind
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _condition_true(status, kind):
            return kind
    return "Running"


def cron_job(obj: Object, ages: Ages) -> list[Any]:
    spec, status, name, age = _parts(obj, ages)
    last = status.get("lastScheduleTime")
    suspend = spec.get("suspend")
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        name, spec.get("schedule") or "", spec.get("timeZone") or NONE,
        "<unset>" if suspend is None else "True" if suspend else "False", len(status.get("active") or ()),
        ages.since(last) if last else NONE, age, *_containers(inner.get("template")),
        format_selector(inner.get("selector")),
    ]  # fmt: skip


def controller_revision(obj: Object, ages: Ages) -> list[Any]:
    metadata = obj["metadata"]
    owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    shown = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = f"{owner['kind']}.{group}" if group else owner["kind"]
        shown = f"{kind.lower()}/{owner['name']}"
    return [metadata["name"], shown, obj.get("revision") or 0, ages.since(metadata.get("creationTimestamp"))]


def pod_template(obj: Object, ages: Ages) -> list[Any]:
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [obj["metadata"]["name"], *_containers(template), format_labels(labels)]
