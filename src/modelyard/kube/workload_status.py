"""The statuses that Kubernetes' workload controllers report: for whoever plays their part where none run. Pure."""

from __future__ import annotations

from modelyard.kube.kinds import Object
from modelyard.kube.objects import generation_of, spec_of

COUNTS = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas", "unavailableReplicas")
"""The counts of a Deployment or StatefulSet; one that is zero is left out."""


def replicas_status(workload: Object, pods: int | None = None, ready: int | None = None, *, since: str = "") -> Object:
    """Of a Deployment or StatefulSet with so many up-to-date pods (all that are asked for), so many of them ready (all).

    `since`: the time of the conditions; without one they have none.
    """
    asked = spec_of(workload).get("replicas")
    pods = (1 if asked is None else int(asked)) if pods is None else pods
    ready = pods if ready is None else ready
    counts = {"replicas": pods, "updatedReplicas": pods, "readyReplicas": ready, "availableReplicas": ready}
    status: Object = {"observedGeneration": generation_of(workload) or 1}
    if workload.get("kind") == "StatefulSet":
        counts["currentReplicas"] = pods
    else:
        counts["unavailableReplicas"] = pods - ready
        available = ready == pods
        reason = "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable"
        status["conditions"] = [
            _condition("Available", reason, since, "lastUpdateTime", status="True" if available else "False"),
            _condition(
                "Progressing", "NewReplicaSetAvailable" if available else "ReplicaSetUpdated", since, "lastUpdateTime"
            ),
        ]
    return status | {name: count for name, count in counts.items() if count}


def status_when_well(workload: Object, *, since: str = "", ended: str) -> Object:
    """Of a Deployment, StatefulSet or Job whose pods do what they are for: ready `since` then, or at their `ended` time."""
    return job_succeeded(ended) if workload.get("kind") == "Job" else replicas_status(workload, since=since)


def job_succeeded(at: str) -> Object:
    """Of a Job whose one pod has ended well."""
    conditions = [
        _condition(type, "CompletionsReached", at, "lastProbeTime") for type in ("SuccessCriteriaMet", "Complete")
    ]
    counts = {"succeeded": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    return {"startTime": at, "completionTime": at, "conditions": conditions, **counts}


def job_failed(at: str, *, failures: int, message: str) -> Object:
    """Of a Job that has been tried so often."""
    conditions = [
        _condition(type, "BackoffLimitExceeded", at, "lastProbeTime", message) for type in ("FailureTarget", "Failed")
    ]
    counts = {"failed": failures, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    return {"startTime": at, "conditions": conditions, **counts}


def pod_running(containers: list[Object], since: str) -> Object:
    """Of a pod whose containers all run and are ready."""
    running = {"ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": since}}}
    statuses = [{"name": one["name"], "image": one["image"], "imageID": "", **running} for one in containers]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    return {"phase": "Running", "conditions": [ready], "containerStatuses": statuses}


def _condition(type: str, reason: str, at: str, checked: str, message: str = "", *, status: str = "True") -> Object:
    times = {"lastTransitionTime": at, checked: at} if at else {}
    return {"type": type, "status": status, "reason": reason, "message": message, **times}
