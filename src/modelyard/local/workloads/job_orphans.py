"""Pods of Jobs that have gone: their end counts for nobody, so they lose the finalizer with which the Job held them."""

from __future__ import annotations

from collections.abc import Iterable

from modelyard.kube.builtin import Job, Pod
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import controller_of, is_controlled_by, is_deleting, key_of, name_of, namespace_of
from modelyard.local.workloads.job import is_tracked, let_go
from modelyard.runtime.declaring.controller import Controller, Keyed, Reader, Watch
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.world import World


def job_orphans_controller() -> Controller:
    controller = Controller(
        "job-orphans", Keyed(_every_tracked_pod), watches=[Watch(Pod, to=_itself), Watch(Job, to=_its_pods)]
    )
    controller.reconcile(reconcile)
    return controller


async def reconcile(key: Key, world: World) -> Desired:
    pod = world.get(Pod, key.namespace, key.name)
    if pod is None or not is_tracked(pod) or await _has_a_job(pod, world):
        return Desired()
    return Desired(edits=let_go([pod]))


async def _has_a_job(pod: Object, world: World) -> bool:
    """A Job that is being deleted in the foreground waits for its pods and counts no more."""
    reference = controller_of(pod)
    if reference is None or reference["kind"] != Job.kind:
        return False
    job = await world.fetch(Job, namespace_of(pod), reference["name"])
    return job is not None and is_controlled_by(pod, job) and not is_deleting(job)


def _every_tracked_pod(reader: Reader) -> Iterable[Key]:
    return [key_of(pod) for pod in reader.list(Pod) if is_tracked(pod)]


def _itself(pod: Object, reader: Reader) -> Iterable[Key]:
    return [key_of(pod)] if is_tracked(pod) and is_deleting(pod) else []


def _its_pods(job: Object, reader: Reader) -> Iterable[Key]:
    pods = reader.list(Pod, namespace_of(job), {"batch.kubernetes.io/job-name": name_of(job)})
    return [key_of(pod) for pod in pods if is_tracked(pod)]
