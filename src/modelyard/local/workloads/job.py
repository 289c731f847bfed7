"""Job: pods until enough have succeeded, or too many failed, or the time is up.

A finished pod is counted once, as Kubernetes does it: its uid is written into the status, then the pod loses our
finalizer, then the counter moves. Cut off anywhere, the next pass goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from modelyard.kube.builtin import Job, Pod
from modelyard.kube.conditions import condition, find_condition, is_true, set_condition
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.times import format_time, later, parse_time
from modelyard.local.workloads import pods as podlib
from modelyard.runtime.declaring.controller import Controller, Owns
from modelyard.runtime.declaring.desired import Child, Desired, Edit, EventNote
from modelyard.runtime.declaring.world import World

TRACKING = "batch.kubernetes.io/job-tracking"
BACKOFF = 10.0
BACKOFF_LIMIT = 600.0
_MOST_DOUBLED = 10


def job_controller() -> Controller:
    controller = Controller("job", Job, owns=[Owns(Pod)], concurrency=8)
    controller.reconcile(reconcile)
    return controller


@dataclass
class Tally:
    """The pods of a Job, sorted by what they mean to it."""

    active: list[Object] = field(default_factory=list)
    succeeded: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)
    terminating: list[Object] = field(default_factory=list)

    @classmethod
    def of(cls, pods: Sequence[Object]) -> Tally:
        tally = cls()
        for pod in sorted(pods, key=lambda p: p["metadata"]["name"]):
            if podlib.phase(pod) == "Succeeded":
                tally.succeeded.append(pod)
            elif podlib.phase(pod) == "Failed":
                tally.failed.append(pod)
            elif podlib.is_deleting(pod):
                tally.terminating.append(pod)
            else:
                tally.active.append(pod)
        return tally


@dataclass
class Counts:
    """What the status says of finished pods: counted ones, and those written down but not counted yet."""

    succeeded: int
    failed: int
    waiting_succeeded: list[str]
    waiting_failed: list[str]

    @classmethod
    def of(cls, job: Object) -> Counts:
        status = job.get("status") or {}
        waiting = status.get("uncountedTerminatedPods") or {}
        return cls(
            int(status.get("succeeded") or 0),
            int(status.get("failed") or 0),
            list(waiting.get("succeeded") or []),
            list(waiting.get("failed") or []),
        )

    def advance(self, tally: Tally) -> None:
        """Counts pods that lost the finalizer (or are gone), and writes down those that still have it."""
        held = {p["metadata"]["uid"] for p in [*tally.succeeded, *tally.failed] if is_tracked(p)}
        self.succeeded += sum(uid not in held for uid in self.waiting_succeeded)
        self.failed += sum(uid not in held for uid in self.waiting_failed)
        self.waiting_succeeded = [uid for uid in self.waiting_succeeded if uid in held]
        self.waiting_failed = [uid for uid in self.waiting_failed if uid in held]
        for pods, waiting in ((tally.succeeded, self.waiting_succeeded), (tally.failed, self.waiting_failed)):
            waiting += [p["metadata"]["uid"] for p in pods if is_tracked(p) and p["metadata"]["uid"] not in waiting]

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.waiting_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.waiting_failed)


def reconcile(job: Object, world: World) -> Desired:
    spec, status = job["spec"], job.get("status") or {}
    pods = world.owned(Pod)
    tally = Tally.of(pods)
    recorded = set(Counts.of(job).waiting_succeeded) | set(Counts.of(job).waiting_failed)
    counts = Counts.of(job)
    counts.advance(tally)
    kept = _kept(job, pods, recorded)
    if _is_over(status):
        return _finished(job, tally, counts, kept, world)

    verdict = _verdict(job, tally, counts, world)
    if verdict is not None:
        return _ending(job, verdict, tally, counts, kept, world)
    if spec.get("suspend"):
        staying = _kept(job, [pod for pod in pods if pod not in tally.active], recorded)
        return _suspended(job, tally, counts, staying, world)

    wanted = _wanted_active(job, tally, counts)
    missing = wanted - len(tally.active) - len(tally.terminating)
    wait = _backoff_left(job, tally, counts, world)
    created = [_new_pod(job, world) for _ in range(min(missing, podlib.BURST))] if wait <= 0 else []
    surplus = sorted(tally.active, key=podlib.deletion_rank)[: max(len(tally.active) - wanted, 0)]
    events = [EventNote("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}") for pod in created]
    removed = [pod for pod in surplus if not is_tracked(pod)]
    events += _deleted(removed)
    resumed = is_true(status.get("conditions"), "Suspended")
    if resumed:
        events.append(EventNote("Resumed", "Job resumed"))
    deadline = _deadline(job, world)
    waits = [wait] if missing > 0 and wait > 0 else []
    waits += [max((deadline - world.now).total_seconds(), 0.1)] if deadline else []
    return Desired(
        children=[*_kept(job, [p for p in pods if p not in surplus], recorded), *(Child(pod) for pod in created)],
        edits=let_go(surplus),
        delete=[_key(pod) for pod in removed],
        prune=False,
        events=events,
        status=_status(job, tally, counts, world, created=len(created), resumed=resumed),
        requeue_after=min(waits, default=None),
    )


@dataclass(frozen=True)
class JobEnd:
    """How a Job ends."""

    success: bool
    reason: str
    message: str


def _verdict(job: Object, tally: Tally, counts: Counts, world: World) -> JobEnd | None:
    spec = job["spec"]
    target = find_condition((job.get("status") or {}).get("conditions"), "FailureTarget")
    if target is not None and target["status"] == "True":
        return JobEnd(False, target["reason"], target["message"])
    if counts.all_failed > int(spec.get("backoffLimit", 6)):
        return JobEnd(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if (
        _restarts(tally) > int(spec.get("backoffLimit", 6))
        and spec["template"]["spec"].get("restartPolicy") == "OnFailure"
    ):
        return JobEnd(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = _deadline(job, world)
    if deadline is not None and deadline <= world.now and not spec.get("suspend"):
        return JobEnd(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    completions = spec.get("completions")
    if completions is None:
        if counts.all_succeeded > 0 and not tally.active and not tally.terminating:
            return JobEnd(True, "CompletionsReached", "Reached expected number of succeeded pods")
    elif counts.all_succeeded >= int(completions):
        return JobEnd(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _ending(job: Object, verdict: JobEnd, tally: Tally, counts: Counts, kept: list[Child], world: World) -> Desired:
    """First the pods go and all are counted; then the Job says that it is over."""
    now = format_time(world.now)
    status = _status(job, tally, counts, world)
    interim = "SuccessCriteriaMet" if verdict.success else "FailureTarget"
    final = "Complete" if verdict.success else "Failed"
    conditions = status.get("conditions") or []
    events: list[EventNote] = []
    if not is_true(conditions, interim):
        conditions = _with(conditions, condition(interim, True, verdict.reason, verdict.message), now)
    elif not tally.active and not tally.terminating and not counts.waiting_succeeded and not counts.waiting_failed:
        conditions = _with(conditions, condition(final, True, verdict.reason, verdict.message), now)
        if verdict.success:
            status["completionTime"] = now
            events.append(EventNote("Completed", "Job completed"))
        else:
            events.append(EventNote(verdict.reason, verdict.message, "Warning"))
    status["conditions"] = conditions
    return Desired(
        children=kept,
        delete=[_key(pod) for pod in tally.active],
        prune=False,
        status=status,
        events=events,
        requeue_after=_ttl_left(job, status, world),
    )


def _finished(job: Object, tally: Tally, counts: Counts, kept: list[Child], world: World) -> Desired:
    status = dict(job["status"])
    left = _ttl_left(job, status, world)
    if left is not None and left <= 0:
        meta = job["metadata"]
        return Desired(delete=[(Job, Key(meta["namespace"], meta["name"]))], prune=False, status=status)
    return Desired(
        children=kept,
        delete=[_key(pod) for pod in tally.active],
        prune=False,
        status=status,
        requeue_after=left,
    )


def _suspended(job: Object, tally: Tally, counts: Counts, kept: list[Child], world: World) -> Desired:
    status = _status(job, tally, counts, world)
    status.pop("startTime", None)
    events = []
    if not is_true(status.get("conditions"), "Suspended"):
        events.append(EventNote("Suspended", "Job suspended"))
    removed = [pod for pod in tally.active if not is_tracked(pod)]
    events += _deleted(removed)
    notice = condition("Suspended", True, "JobSuspended", "Job suspended")
    status["conditions"] = _with(status.get("conditions") or [], notice, format_time(world.now))
    return Desired(
        children=kept,
        edits=let_go(tally.active),
        delete=[_key(pod) for pod in removed],
        prune=False,
        status=status,
        events=events,
    )


def _status(
    job: Object, tally: Tally, counts: Counts, world: World, *, created: int = 0, resumed: bool = False
) -> Object:
    before = job.get("status") or {}
    now = format_time(world.now)
    status: Object = {
        "active": len(tally.active) + created,
        "ready": sum(podlib.is_ready(pod) for pod in tally.active),
        "terminating": len(tally.terminating),
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "uncountedTerminatedPods": _uncounted(counts),
        "startTime": now if resumed else before.get("startTime") or now,
        "completionTime": before.get("completionTime"),
        "conditions": before.get("conditions"),
    }
    if resumed:
        status["conditions"] = _with(
            before.get("conditions") or [], condition("Suspended", False, "JobResumed", "Job resumed"), now
        )
    always = ("ready", "terminating", "uncountedTerminatedPods")
    return {k: v for k, v in status.items() if v or k in always}


def _uncounted(counts: Counts) -> Object:
    lists = {"succeeded": counts.waiting_succeeded, "failed": counts.waiting_failed}
    return {k: v for k, v in lists.items() if v}


def _with(conditions: list[Object], new: Object, now: str) -> list[Object]:
    return set_condition(conditions, {**new, "lastProbeTime": now}, now)


def _is_over(status: Object) -> bool:
    return is_true(status.get("conditions"), "Complete") or is_true(status.get("conditions"), "Failed")


def is_tracked(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or [])


def _labels(job: Object) -> dict[str, str]:
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _new_pod(job: Object, world: World) -> Object:
    name = podlib.generated_name(job["metadata"]["name"], podlib.safe_text(world.token()))
    return _pod(job, name, tracked=True)


def _kept(job: Object, pods: Sequence[Object], recorded: set[str]) -> list[Child]:
    """The pods as we made them; without our finalizer once their end is written down."""
    return [
        Child(_pod(job, pod["metadata"]["name"], tracked=not _settled(pod, recorded)), until_gone=True)
        for pod in pods
        if is_tracked(pod)
    ]


def _settled(pod: Object, recorded: set[str]) -> bool:
    return podlib.is_finished(pod) and pod["metadata"]["uid"] in recorded


def let_go(pods: Sequence[Object]) -> list[Edit]:
    """Pods that the Job takes back itself lose the finalizer; the next pass deletes them, and their end is not a failure."""
    return [
        Edit(*_key(pod), pod["metadata"]["resourceVersion"], {"metadata": {"finalizers": _others(pod)}})
        for pod in pods
        if is_tracked(pod)
    ]


def _others(pod: Object) -> list[str]:
    return [name for name in pod["metadata"]["finalizers"] if name != TRACKING]


def _deleted(pods: Sequence[Object]) -> list[EventNote]:
    return [EventNote("SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}") for pod in pods]


def _pod(job: Object, name: str, *, tracked: bool) -> Object:
    return podlib.pod_from_template(
        job["spec"]["template"],
        name=name,
        namespace=job["metadata"]["namespace"],
        labels=_labels(job),
        finalizers=[TRACKING] if tracked else [],
    )


def _wanted_active(job: Object, tally: Tally, counts: Counts) -> int:
    spec = job["spec"]
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:
        # One found the queue empty: the others may finish, and no more are started.
        return len(tally.active) if counts.all_succeeded else parallelism
    return max(min(parallelism, int(completions) - counts.all_succeeded), 0)


def _deadline(job: Object, world: World) -> datetime | None:
    seconds = job["spec"].get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if seconds is None:
        return None
    return later(parse_time(started) if started else world.now, int(seconds))


def _restarts(tally: Tally) -> int:
    statuses = [s for pod in tally.active for s in (pod.get("status") or {}).get("containerStatuses") or []]
    return sum(int(s.get("restartCount") or 0) for s in statuses)


def _backoff_left(job: Object, tally: Tally, counts: Counts, world: World) -> float:
    """How long to wait before the next pod after a failure: 10 s, doubled for each more, at most 10 minutes."""
    if not counts.all_failed or not tally.failed:
        return 0.0
    ends = [_finish_time(pod) for pod in tally.failed]
    latest = max(ends)
    successes = [_finish_time(pod) for pod in tally.succeeded]
    if successes and max(successes) > latest:
        return 0.0
    delay = min(BACKOFF * 2 ** min(counts.all_failed - 1, _MOST_DOUBLED), BACKOFF_LIMIT)
    return (later(latest, delay) - world.now).total_seconds()


def _finish_time(pod: Object) -> datetime:
    times = [
        ended
        for status in (pod.get("status") or {}).get("containerStatuses") or []
        if (ended := ((status.get("state") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    return max((parse_time(t) for t in times), default=parse_time(pod["metadata"]["creationTimestamp"]))


def _ttl_left(job: Object, status: Object, world: World) -> float | None:
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    over = next(
        (c for c in status.get("conditions") or [] if c["type"] in ("Complete", "Failed") and c["status"] == "True"),
        None,
    )
    if ttl is None or over is None:
        return None
    ended = parse_time(over["lastTransitionTime"])
    return (later(ended, int(ttl)) - world.now).total_seconds()


def _key(pod: Object) -> tuple[Kind, Key]:
    return (Pod, Key(pod["metadata"]["namespace"], pod["metadata"]["name"]))
