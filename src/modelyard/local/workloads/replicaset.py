"""ReplicaSet: as many pods as asked for, made once, removed in Kubernetes' order."""

from __future__ import annotations

from modelyard.kube.builtin import Pod, ReplicaSet
from modelyard.kube.conditions import set_condition
from modelyard.kube.kinds import Key, Object
from modelyard.kube.times import format_time
from modelyard.local.workloads import pods as podlib
from modelyard.runtime.declaring.controller import Controller, Owns
from modelyard.runtime.declaring.desired import Desired, EventNote
from modelyard.runtime.declaring.world import World


def replicaset_controller() -> Controller:
    controller = Controller("replicaset", ReplicaSet, owns=[Owns(Pod)], concurrency=8)
    controller.reconcile(reconcile)
    return controller


def reconcile(replicaset: Object, world: World) -> Desired:
    spec, meta = replicaset["spec"], replicaset["metadata"]
    existing = world.owned(Pod)
    active = [pod for pod in existing if podlib.is_active(pod)]
    missing = int(spec.get("replicas", 1)) - len(active)

    created = [_new_pod(replicaset, world) for _ in range(min(missing, podlib.BURST))]
    surplus = sorted(active, key=podlib.deletion_rank)[: max(-missing, 0)]
    events = [EventNote("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}") for pod in created]
    events += [EventNote("SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}") for pod in surplus]
    return Desired(
        children=created,
        delete=[(Pod, Key(meta["namespace"], pod["metadata"]["name"])) for pod in surplus],
        prune=False,
        events=events,
        status=lambda current, live: _status(current, active, existing, world, [f.message for f in live.failures]),
        requeue_after=podlib.seconds_until_available(active, int(spec.get("minReadySeconds") or 0), world.now),
    )


def _new_pod(replicaset: Object, world: World) -> Object:
    meta = replicaset["metadata"]
    name = podlib.generated_name(meta["name"], podlib.safe_text(world.token()))
    return podlib.pod_from_template(replicaset["spec"]["template"], name=name, namespace=meta["namespace"])


def _status(
    replicaset: Object, active: list[Object], existing: list[Object], world: World, failures: list[str]
) -> Object:
    spec = replicaset["spec"]
    wanted = (spec["template"].get("metadata") or {}).get("labels") or {}
    min_ready = int(spec.get("minReadySeconds") or 0)
    status: Object = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(wanted.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active),
        "readyReplicas": sum(podlib.is_ready(pod) for pod in active),
        "availableReplicas": sum(podlib.is_available(pod, min_ready, world.now) for pod in active),
        "terminatingReplicas": sum(podlib.is_deleting(pod) and not podlib.is_finished(pod) for pod in existing),
        "observedGeneration": replicaset["metadata"].get("generation", 0),
    }
    for optional in ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"):
        if status[optional] == 0:
            del status[optional]
    if failures:
        before = (replicaset.get("status") or {}).get("conditions") or []
        failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": failures[0]}
        status["conditions"] = set_condition(before, failure, now=format_time(world.now))
    return status
