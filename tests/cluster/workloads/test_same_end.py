"""Our workload controllers end where kube-controller-manager ends: the same story on both, compared in the end.

On the embedded server ours run; on the real server (`make test-real`) ours run in one namespace and the real ones in another
cluster, and the end states are compared field by field. Pods are played by the test, as a kubelet would.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from modelyard.kube.builtin import (
    ControllerRevision,
    Deployment,
    Job,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    StatefulSet,
)
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, NotFound
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import format_time, utc_now
from modelyard.local.workloads import (
    deployment_controller,
    job_controller,
    replicaset_controller,
    statefulset_controller,
)
from modelyard.runtime.process.manager import Manager
from tests.chaos.differential_masks import paths
from tests.cluster.conftest import Api
from tests.real.cluster import WORKLOADS, RealCluster

COMPARED = (Deployment, ReplicaSet, StatefulSet, Job, Pod, PersistentVolumeClaim)


def template(image: str = "web:1", **spec: Any) -> Object:
    container = {"name": "main", "image": image}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}


def workload(kind: Kind, **spec: Any) -> Object:
    base: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "web"}, "spec": spec}
    if kind != Job:
        base["spec"] = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    return base


class Stage:
    """One namespace in which a story is played; `pods` says what becomes of each pod."""

    def __init__(self, client: Client, namespace: str, *, ours: bool) -> None:
        self.client = client
        self.namespace = namespace
        self.ours = ours
        self.outcome = "Ready"

    async def create(self, kind: Kind, obj: Object) -> None:
        obj = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        await self.client.create(kind, obj)

    async def patch(self, kind: Kind, body: Object) -> None:
        await self.client.patch(kind, self.namespace, "web", body)

    async def get(self, kind: Kind) -> Object:
        return await self.client.get(kind, self.namespace, "web")

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Plays the kubelet while it waits."""
        for _ in range(1200):
            await self.play_pods()
            if await condition():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"it did not come to this: {what}: {await self.snapshot()}")

    async def play_pods(self) -> None:
        for pod in (await self.client.list(Pod, self.namespace)).items:
            try:
                await self._play(pod)
            except (NotFound, ApiError):
                continue

    async def _play(self, pod: Object) -> None:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        if pod["metadata"].get("deletionTimestamp"):
            if status.get("phase") not in ("Succeeded", "Failed") and pod["metadata"].get("finalizers"):
                await self._set(name, phase("Failed"))
            await self.client.delete(Pod, self.namespace, name, grace=0)
        elif self.outcome == "Ready" and status.get("phase") != "Running":
            await self._set(name, phase("Running"))
        elif self.outcome in ("Succeeded", "Failed") and status.get("phase") not in ("Succeeded", "Failed"):
            await self._set(name, phase(self.outcome))

    async def _set(self, name: str, status: Object) -> None:
        await self.client.patch(Pod, self.namespace, name, {"status": status}, subresource="status")

    async def snapshot(self) -> dict[str, Any]:
        """Everything, without what differs from cluster to cluster."""
        found: dict[str, Any] = {}
        for kind in COMPARED:
            listed = (await self.client.list(kind, self.namespace)).items
            objects = [neutral(by_rounds(obj) if kind == ReplicaSet else obj) for obj in listed]
            found[kind.kind] = sorted(objects, key=str)
        revisions = (await self.client.list(ControllerRevision, self.namespace)).items
        found["ControllerRevision"] = sorted(r["revision"] for r in revisions)
        return found


def phase(name: str) -> Object:
    now = format_time(utc_now())
    ready = {"type": "Ready", "status": "True" if name == "Running" else "False", "lastTransitionTime": now}
    state: Object = {"running": {"startedAt": now}}
    if name != "Running":
        state = {"terminated": {"exitCode": int(name == "Failed"), "startedAt": now, "finishedAt": now}}
    container = {
        "name": "main",
        "image": "web",
        "imageID": "",
        "ready": name == "Running",
        "restartCount": 0,
        "state": state,
    }
    return {"phase": name, "conditions": [ready], "containerStatuses": [container]}


_DROPPED = frozenset(
    (
        "uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime", "lastUpdateTime", "lastProbeTime", "startTime",
        "completionTime", "deletionTimestamp", "startedAt", "finishedAt", "currentRevision", "updateRevision", "controller-uid",
        "batch.kubernetes.io/controller-uid", "pod-template-hash", "controller-revision-hash", "generateName", "hostIP",
        "serviceAccount", "serviceAccountName", "volumeMounts", "podGroup",
    )
)  # fmt: skip
_GENERATED = re.compile(r"(web)(-[a-z0-9]{4,10}){1,2}\b")


def by_rounds(replica_set: Object) -> Object:
    """How many rounds a rollout takes is a matter of when each pod was seen to be ready; that the last was heeded is not."""
    metadata, status = replica_set["metadata"], replica_set["status"]
    heeded = status.get("observedGeneration") == metadata["generation"]
    return replica_set | {
        "metadata": metadata | {"generation": "of its last round"},
        "status": status | {"observedGeneration": "its generation" if heeded else "an older one"},
    }


def neutral(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            k: neutral(v)
            for k, v in value.items()
            if k not in _DROPPED and not (k == "name" and str(v).startswith("kube-api-access"))
        }
        # How our runtime knows its own objects where no owner reference may stand.
        kept = {k: v for k, v in kept.items() if not k.startswith("modelyard.dev/")}
        kept.pop("annotations", None) if not kept.get("annotations") else None
        if isinstance(value.get("volumes"), list):
            kept["volumes"] = [neutral(v) for v in value["volumes"] if not v["name"].startswith("kube-api-access")]
        kept.pop("volumes", None) if not kept.get("volumes") else None
        return kept
    if isinstance(value, list):
        return [neutral(v) for v in value]
    return _GENERATED.sub("web-X", value) if isinstance(value, str) else value


@dataclass(frozen=True)
class WorkloadScenario:
    name: str
    play: Callable[[Stage], Awaitable[None]]

    def __str__(self) -> str:
        return self.name


async def _available(stage: Stage, count: int) -> bool:
    found = await stage.get(Deployment)
    status = found.get("status") or {}
    return (
        status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == status.get("replicas", 0) == count
        and status.get("observedGeneration") == found["metadata"]["generation"]
        and any(c.get("reason") == "NewReplicaSetAvailable" for c in status.get("conditions") or [])
    )


async def first_rollout(stage: Stage) -> None:
    await stage.create(Deployment, workload(Deployment, replicas=3))
    await stage.until(lambda: _available(stage, 3), "three replicas are available")


async def second_rollout(stage: Stage) -> None:
    await first_rollout(stage)
    await stage.patch(Deployment, {"spec": {"template": template("web:2")}})
    await stage.until(lambda: _available(stage, 3), "the new template is rolled out")


async def rollback(stage: Stage) -> None:
    await second_rollout(stage)
    await stage.patch(Deployment, {"spec": {"template": template("web:1")}})
    await stage.until(lambda: _available(stage, 3), "the old template is back")


async def recreate(stage: Stage) -> None:
    await stage.create(Deployment, workload(Deployment, replicas=2, strategy={"type": "Recreate"}))
    await stage.until(lambda: _available(stage, 2), "two replicas are available")
    await stage.patch(Deployment, {"spec": {"template": template("web:2")}})
    await stage.until(lambda: _available(stage, 2), "the new template is rolled out")


async def scaled(stage: Stage) -> None:
    await first_rollout(stage)
    await stage.patch(Deployment, {"spec": {"replicas": 1}})
    await stage.until(lambda: _available(stage, 1), "one replica is left")


async def paused(stage: Stage) -> None:
    await first_rollout(stage)
    await stage.patch(Deployment, {"spec": {"paused": True, "replicas": 4, "template": template("web:2")}})
    await stage.until(lambda: _progressing(stage, "DeploymentPaused"), "the rollout is paused")
    await stage.until(lambda: _counts(stage, Deployment, replicas=4, availableReplicas=4), "it scales all the same")


async def resumed(stage: Stage) -> None:
    await paused(stage)
    await stage.patch(Deployment, {"spec": {"paused": False}})
    await stage.until(lambda: _available(stage, 4), "the new template is rolled out after all")


async def stuck(stage: Stage) -> None:
    stage.outcome = "Pending"
    await stage.create(Deployment, workload(Deployment, replicas=2, progressDeadlineSeconds=2))
    await stage.until(lambda: _progressing(stage, "ProgressDeadlineExceeded"), "the deadline passes")


async def bad_image(stage: Stage) -> None:
    await first_rollout(stage)
    stage.outcome = "Pending"
    await stage.patch(Deployment, {"spec": {"progressDeadlineSeconds": 2, "template": template("web:broken")}})
    await stage.until(lambda: _progressing(stage, "ProgressDeadlineExceeded"), "the new pods do not come")


async def surge_of_none(stage: Stage) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}}
    await stage.create(Deployment, workload(Deployment, replicas=4, strategy=strategy))
    await stage.until(lambda: _available(stage, 4), "four replicas are available")
    await stage.patch(Deployment, {"spec": {"template": template("web:2")}})
    await stage.until(lambda: _available(stage, 4), "the new template is rolled out")


async def short_history(stage: Stage) -> None:
    await stage.create(Deployment, workload(Deployment, replicas=1, revisionHistoryLimit=1))
    for number in (1, 2, 3, 4):
        await stage.patch(Deployment, {"spec": {"template": template(f"web:{number}")}})
        await stage.until(lambda: _available(stage, 1), f"template {number} is rolled out")


async def to_nothing(stage: Stage) -> None:
    await first_rollout(stage)
    await stage.patch(Deployment, {"spec": {"replicas": 0}})
    await stage.until(lambda: _available(stage, 0), "no replica is left")


async def lost_pods(stage: Stage) -> None:
    await first_rollout(stage)
    await stage.client.delete_collection(Pod, stage.namespace)
    await stage.until(
        lambda: _counts(stage, Deployment, availableReplicas=3, unavailableReplicas=0), "they are made again"
    )


async def evicted_pods(stage: Stage) -> None:
    await first_rollout(stage)
    stage.outcome = "Failed"
    await stage.until(lambda: _counts(stage, Deployment, availableReplicas=0), "all pods fail")
    stage.outcome = "Ready"
    await stage.until(lambda: _counts(stage, Deployment, availableReplicas=3), "others take their place")
    await stage.client.delete_collection(Pod, stage.namespace, fields="status.phase=Failed")


async def _progressing(stage: Stage, reason: str) -> bool:
    conditions = ((await stage.get(Deployment)).get("status") or {}).get("conditions") or []
    return any(c["type"] == "Progressing" and c.get("reason") == reason for c in conditions)


async def _counts(stage: Stage, kind: Kind, **counts: int) -> bool:
    found = await stage.get(kind)
    status = found.get("status") or {}
    current = status.get("observedGeneration") == found["metadata"]["generation"]
    return current and all(status.get(name, 0) == count for name, count in counts.items())


async def _ready_set(stage: Stage, count: int) -> bool:
    found = await stage.get(StatefulSet)
    status = found.get("status") or {}
    return (
        status.get("readyReplicas", 0) == status.get("updatedReplicas", 0) == status.get("replicas", 0) == count
        and status.get("currentRevision") == status.get("updateRevision")
        and status.get("observedGeneration") == found["metadata"]["generation"]
    )


async def stateful(stage: Stage) -> None:
    await stage.create(StatefulSet, workload(StatefulSet, replicas=3, serviceName="web"))
    await stage.until(lambda: _ready_set(stage, 3), "three pods are ready")


async def stateful_update(stage: Stage) -> None:
    await stateful(stage)
    await stage.patch(StatefulSet, {"spec": {"template": template("web:2")}})
    await stage.until(lambda: _ready_set(stage, 3), "all pods are updated")


async def stateful_scale_down(stage: Stage) -> None:
    await stateful(stage)
    await stage.patch(StatefulSet, {"spec": {"replicas": 1}})
    await stage.until(lambda: _ready_set(stage, 1), "one pod is left")


async def stateful_parallel(stage: Stage) -> None:
    await stage.create(StatefulSet, workload(StatefulSet, replicas=3, podManagementPolicy="Parallel"))
    await stage.until(lambda: _ready_set(stage, 3), "three pods are ready")


async def stateful_claims(stage: Stage) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": claim}]
    await stage.create(StatefulSet, workload(StatefulSet, replicas=2, volumeClaimTemplates=templates))
    await stage.until(lambda: _ready_set(stage, 2), "two pods are ready")
    await stage.patch(StatefulSet, {"spec": {"replicas": 1}})
    await stage.until(lambda: _ready_set(stage, 1), "one pod is left")


async def stateful_partition(stage: Stage) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await stage.create(StatefulSet, workload(StatefulSet, replicas=3, updateStrategy=strategy))
    await stage.until(lambda: _ready_set(stage, 3), "three pods are ready")
    await stage.patch(StatefulSet, {"spec": {"template": template("web:2")}})
    await stage.until(
        lambda: _counts(stage, StatefulSet, updatedReplicas=1, currentReplicas=2, readyReplicas=3), "one is updated"
    )


async def stateful_on_delete(stage: Stage) -> None:
    await stage.create(StatefulSet, workload(StatefulSet, replicas=2, updateStrategy={"type": "OnDelete"}))
    await stage.until(lambda: _ready_set(stage, 2), "two pods are ready")
    await stage.patch(StatefulSet, {"spec": {"template": template("web:2")}})
    await stage.client.delete(Pod, stage.namespace, "web-1", grace=0)
    await stage.until(lambda: _counts(stage, StatefulSet, updatedReplicas=1, readyReplicas=2), "one is updated")


async def stateful_rollback(stage: Stage) -> None:
    await stateful_update(stage)
    await stage.patch(StatefulSet, {"spec": {"template": template("web:1")}})
    await stage.until(lambda: _ready_set(stage, 3), "the old template is back")


async def stateful_stuck(stage: Stage) -> None:
    stage.outcome = "Pending"
    await stage.create(StatefulSet, workload(StatefulSet, replicas=3))
    await stage.until(lambda: _counts(stage, StatefulSet, replicas=1), "the second waits for the first")


async def _over(stage: Stage, condition: str) -> bool:
    status = (await stage.get(Job)).get("status") or {}
    return any(c["type"] == condition and c["status"] == "True" for c in status.get("conditions") or [])


def a_job(**spec: Any) -> Object:
    return workload(Job, template={"spec": {**template()["spec"], "restartPolicy": "Never"}}, **spec)


async def job_succeeds(stage: Stage) -> None:
    stage.outcome = "Succeeded"
    await stage.create(Job, a_job(completions=3, parallelism=2))
    await stage.until(lambda: _over(stage, "Complete"), "the job completes")


async def job_fails(stage: Stage) -> None:
    stage.outcome = "Failed"
    await stage.create(Job, a_job(backoffLimit=0))
    await stage.until(lambda: _over(stage, "Failed"), "the job fails")


async def job_deadline(stage: Stage) -> None:
    await stage.create(Job, a_job(activeDeadlineSeconds=1))
    await stage.until(lambda: _over(stage, "Failed"), "the deadline passes")


async def job_suspended(stage: Stage) -> None:
    await stage.create(Job, a_job(suspend=True))
    await stage.until(lambda: _over(stage, "Suspended"), "the job is suspended")
    stage.outcome = "Succeeded"
    await stage.patch(Job, {"spec": {"suspend": False}})
    await stage.until(lambda: _over(stage, "Complete"), "the job completes after all")


async def job_retries(stage: Stage) -> None:
    stage.outcome = "Failed"
    await stage.create(Job, a_job(backoffLimit=1))
    await stage.until(lambda: _over(stage, "Failed"), "the job fails for good")


async def job_recovers(stage: Stage) -> None:
    stage.outcome = "Failed"
    await stage.create(Job, a_job())
    await stage.until(lambda: _counted(stage, failed=1), "the first pod fails")
    stage.outcome = "Succeeded"
    await stage.until(lambda: _over(stage, "Complete"), "the second succeeds")


async def job_queue(stage: Stage) -> None:
    await stage.create(Job, a_job(parallelism=3))
    await stage.until(lambda: _counted(stage, active=3, ready=3), "three pods run")
    stage.outcome = "Succeeded"
    await stage.until(lambda: _over(stage, "Complete"), "all have ended")


async def job_suspended_later(stage: Stage) -> None:
    await stage.create(Job, a_job(completions=4, parallelism=2))
    await stage.until(lambda: _counted(stage, active=2, ready=2), "two pods run")
    await stage.patch(Job, {"spec": {"suspend": True}})
    await stage.until(lambda: _over(stage, "Suspended"), "the job is suspended")


async def job_less_parallel(stage: Stage) -> None:
    await stage.create(Job, a_job(completions=6, parallelism=4))
    await stage.until(lambda: _counted(stage, active=4, ready=4), "four pods run")
    await stage.patch(Job, {"spec": {"parallelism": 1}})
    await stage.until(lambda: _counted(stage, active=1, ready=1), "one pod is left")


async def _counted(stage: Stage, **counts: int) -> bool:
    status = (await stage.get(Job)).get("status") or {}
    return all(status.get(name, 0) == count for name, count in counts.items())


STORIES = [
    WorkloadScenario(fn.__name__, fn)
    for fn in (
        first_rollout, second_rollout, rollback, recreate, scaled, paused, resumed, stuck, bad_image, surge_of_none, short_history,
        to_nothing, lost_pods, evicted_pods, stateful, stateful_update, stateful_scale_down, stateful_parallel, stateful_claims,
        stateful_partition, stateful_on_delete, stateful_rollback, stateful_stuck, job_succeeds, job_fails, job_deadline, job_suspended,
        job_retries, job_recovers, job_queue, job_suspended_later, job_less_parallel,
    )
]  # fmt: skip


@asynccontextmanager
async def ours(client: Client) -> AsyncIterator[None]:
    controllers = [deployment_controller(), replicaset_controller(), statefulset_controller(), job_controller()]
    async with Manager(client, controllers):
        yield


@pytest.fixture(scope="module")
def managed_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster | None]:
    """A real cluster whose own workload controllers run."""
    if request.config.getoption("--apiserver") != "real":
        yield None
        return
    with RealCluster(workloads=WORKLOADS) as cluster:
        yield cluster


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_a_story_ends_where_the_real_controllers_end(
    api: Api, managed_cluster: RealCluster | None, story: WorkloadScenario
) -> None:
    stage = Stage(api.client, await api.namespace(), ours=True)
    async with ours(api.client):
        await story.play(stage)
        await settled(stage)
        mine = await stage.snapshot()
    if managed_cluster is None:
        assert mine["Pod"] is not None
        return
    client = connect(Path(managed_cluster.kubeconfig))
    try:
        namespace = stage.namespace
        await client.create(Namespace, {"metadata": {"name": namespace}})
        other = Stage(client, namespace, ours=False)
        await story.play(other)
        await settled(other)
        different = paths(mine, await other.snapshot())
        assert not different, "\n".join(different)
    finally:
        await client.close()


async def settled(stage: Stage) -> None:
    """Nothing changes any more: the last status writes have come. The real Job controller counts pods once a second."""
    before: Any = None
    quiet = 0
    for _ in range(200):
        await stage.play_pods()
        now = await stage.snapshot()
        quiet = quiet + 1 if now == before else 0
        if quiet == (1 if stage.ours else 5):
            return
        before = now
        await asyncio.sleep(0.4)
    raise AssertionError("it does not settle")
