"""Plays the Job controller and the kubelet, for `bench.ours`: every Job gets a pod, which succeeds at once, and ends well."""

from __future__ import annotations

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import metadata_of, name_of, namespace_of, spec_of, status_of
from modelyard.kube.times import format_time
from modelyard.kube.workload_status import job_succeeded
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Child, Desired, Policy
from modelyard.runtime.declaring.world import World


def controllers() -> list[Controller]:
    return [_jobs(), _pods()]


def _jobs() -> Controller:
    controller = Controller("job-player", builtin.Job, owns=[builtin.Pod], field_manager="modelyard-bench-job-player")

    @controller.reconcile
    def reconcile(job: Object, world: World) -> Desired:
        template = spec_of(job)["template"]
        metadata = {
            "name": name_of(job),
            "namespace": namespace_of(job),
            "labels": metadata_of(template).get("labels") or {},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        status = status_of(job) if status_of(job).get("completionTime") else job_succeeded(format_time(world.now))
        return Desired([Child(pod, policy=Policy.ONCE)], status=status)

    return controller


def _pods() -> Controller:
    controller = Controller("pod-player", builtin.Pod, field_manager="modelyard-bench-pod-player")

    @controller.reconcile
    def reconcile(pod: Object, world: World) -> Desired:
        return Desired(status={**status_of(pod), "phase": "Succeeded"}, prune=False)

    return controller
