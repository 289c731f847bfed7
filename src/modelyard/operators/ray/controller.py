"""The controller of RayClusters: what it watches, and a reconcile that says which pods and Services should be there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec

from modelyard.kube import builtin
from modelyard.kube.conditions import condition
from modelyard.kube.kinds import Object
from modelyard.kube.objects import annotations_of, is_deleting, key_of, name_of, spec_of, status_of
from modelyard.operators.parts.mappings import everyone
from modelyard.operators.parts.ray_crd import MANAGERS, RAY_CLUSTER, RayCluster, RayClusterSpec
from modelyard.operators.ray import names as label
from modelyard.operators.ray.children import children
from modelyard.operators.ray.config import Settings
from modelyard.operators.ray.groups import active, group_of, is_head, is_lost, worker_changes
from modelyard.operators.ray.pods import Plan, head_pod, worker_pod
from modelyard.operators.ray.problems import first_problem, unused_fields
from modelyard.operators.ray.status import (
    FAILURE,
    PROVISIONED,
    SUSPENDED,
    SUSPENDING,
    Seen,
    cluster_status,
    is_marked,
)
from modelyard.runtime.acting.status import with_conditions
from modelyard.runtime.declaring.controller import Controller, Owns, Permission, Watch
from modelyard.runtime.declaring.desired import Desired, EventNote, Hold, Stage
from modelyard.runtime.declaring.world import World

OPERATOR_LABEL = {"app.kubernetes.io/component": "kuberay-operator"}
OTHER = "OtherOperatorRunning"
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def ray_controller(settings: Settings) -> Controller:
    controller = Controller(
        "ray",
        RAY_CLUSTER,
        owns=[
            Owns(builtin.Pod),
            Owns(builtin.Service),
            Owns(builtin.Secret),
            Owns(builtin.ServiceAccount),
            Owns(builtin.Role),
            Owns(builtin.RoleBinding),
            Owns(builtin.Ingress),
            Owns(builtin.HTTPRoute, optional=True),
        ],
        watches=[Watch(builtin.Deployment, to=everyone(RAY_CLUSTER.kind), labels=OPERATOR_LABEL)],
        ready_condition=PROVISIONED,
        permissions=_GRANTED,
        predecessor=settings.predecessor,
        resync=float(settings.requeue),
    )

    @controller.reconcile
    def reconcile(cluster: RayCluster, world: World) -> Desired | Hold:
        return reconcile_cluster(cluster, world, settings)

    return controller


_GRANTED = (
    Permission(("",), ("pods",), ("get", "list", "watch", "patch")),
    Permission(("",), ("pods/resize",), ("patch",)),
    Permission((RAY_CLUSTER.group,), (RAY_CLUSTER.plural,), ("get", "patch")),
    Permission((RAY_CLUSTER.group,), (f"{RAY_CLUSTER.plural}/finalizers",), ("update",)),
)
"""What the autoscaler's role grants, as the API lets nobody grant what they do not have."""


def reconcile_cluster(cluster: RayCluster, world: World, settings: Settings) -> Desired | Hold:
    """One pass: may we act at all, is the cluster well made, and then its pods."""
    if cluster.spec is not None and cluster.spec.managed_by not in (None, MANAGERS[0]):
        return Desired(prune=False)
    if (other := _other_operator(world, settings)) is not None:
        # Its status is the other's to write.
        return Desired(prune=False, events=[EventNote(OTHER, other, "Warning")])
    problem = first_problem(cluster)
    if problem is not None or cluster.spec is None:
        reason, message = (problem.reason, problem.message) if problem else ("InvalidRayClusterSpec", "spec is missing")
        return Hold(reason, message, events=[EventNote(reason, message, "Warning")])
    return _Pass(cluster, cluster.spec, world, settings).outcome()


def _other_operator(world: World, settings: Settings) -> str | None:
    """Why nothing may be done: KubeRay's Deployment runs. One in any other namespace does not count, as anyone may make it."""
    for deployment in world.list(builtin.Deployment, None, OPERATOR_LABEL):
        key = key_of(deployment)
        alive = int(spec_of(deployment).get("replicas", 1)) > 0 or int(status_of(deployment).get("replicas") or 0) > 0
        if alive and key.namespace in settings.predecessor.namespaces:
            return (
                f"KubeRay is installed here (Deployment {key}), and RayClusters are its work. Nothing is changed as long as it "
                f"is. Stop it: kubectl -n {key.namespace} scale deployment {key.name} --replicas=0"
            )
    return None


class _Pass:
    """The pods of one cluster, once it is known that they are ours to make."""

    def __init__(self, cluster: RayCluster, spec: RayClusterSpec, world: World, settings: Settings) -> None:
        self._cluster = cluster
        self._spec = spec
        self._world = world
        self._hash = spec_hash(spec)
        self._plan = Plan.of(cluster, spec, settings, self._hash)
        self._pods: list[Object] = world.owned(builtin.Pod)
        self._create: list[Object] = []
        self._delete: list[Object] = []
        self._problems: list[Object] = []

    def outcome(self) -> Desired:
        stop = suspension(self._cluster, self._spec, bool(self._pods))
        if stop is Stop.NO:
            self._decide()
        else:
            self._delete = active(self._pods)
        gone = {name_of(pod) for pod in self._delete}
        staying = [pod for pod in active(self._pods) if name_of(pod) not in gone]
        seen = Seen(
            self._plan, staying, self._world.now, stop is Stop.SUSPENDING, stop is Stop.SUSPENDED, self._problems
        )
        routes = self._world.serves(builtin.HTTPRoute)
        return Desired(
            stages=[
                Stage(children(self._cluster, self._plan, self._world.token, routes=routes)),
                Stage(self._create),
            ],
            delete=[(builtin.Pod, key_of(pod)) for pod in self._delete],
            # A pod is made once: what changes in its template later does not touch it.
            keep=[(builtin.Pod, key_of(pod)) for pod in self._pods],
            status_first=self._begin_to_suspend() if stop is Stop.SUSPENDING else None,
            status=lambda cluster, live: cluster_status(cluster, seen, live),
            events=list(self._events()),
            # The next step of a suspension is decided from what this one has recorded.
            requeue_after=1.0 if stop is Stop.SUSPENDED and self._spec.suspend is False else None,
        )

    def _begin_to_suspend(self) -> Object | None:
        """Recorded before the first pod goes: from there on all of them go, whatever is asked meanwhile."""
        if is_marked(self._cluster, SUSPENDING):
            return None
        before = self._cluster.status.to_dict() if self._cluster.status else {}
        return with_conditions(before, [condition(SUSPENDING, True, SUSPENDING)])

    def _decide(self) -> None:
        heads = [pod for pod in self._pods if is_head(pod)]
        if outdated := self._outdated():
            self._delete = outdated
            return
        self._decide_head(heads)
        if not any(map(is_deleting, heads)):
            # A worker that comes now would join the head that goes.
            self._decide_workers()

    def _outdated(self) -> list[Object]:
        """Pods of an earlier spec, where a change of it means other pods. Each says what it was made from, so that a change that
        was cut off halfway goes on."""
        strategy = self._spec.upgrade_strategy
        if strategy is None or strategy.type != "Recreate":
            return []
        return [pod for pod in active(self._pods) if self._is_outdated(annotations_of(pod))]

    def _is_outdated(self, notes: dict[str, str]) -> bool:
        """Digests that others have written are made from other things."""
        return notes.get(label.MADE_BY) == label.US and notes.get(label.SPEC_HASH) != self._hash

    def _decide_head(self, heads: Sequence[Object]) -> None:
        if len(active(heads)) > 1:
            names = ", ".join(sorted(map(name_of, active(heads))))
            text = f"there are {len(active(heads))} heads ({names}), and one is wanted; delete all but one"
            self._problems.append(condition(FAILURE, True, "FailedCreateHeadPod", text))
        elif not heads:
            self._create.append(head_pod(self._plan, self._pod_name(self._plan.names.pod_prefix())))
        else:
            self._delete += [pod for pod in active(heads) if is_lost(pod)]

    def _decide_workers(self) -> None:
        groups = self._spec.worker_group_specs or []
        workers = [pod for pod in self._pods if not is_head(pod)]
        for group in groups:
            own = [pod for pod in workers if group_of(pod) == group.group_name]
            change = worker_changes(group, own, autoscaling=self._plan.autoscaling)
            self._delete += change.delete
            prefix = self._plan.names.pod_prefix(group.group_name)
            self._create += [
                worker_pod(self._plan, group, self._pod_name(prefix), place.labels(group)) for place in change.missing
            ]
        named = {group.group_name for group in groups}
        self._delete += [pod for pod in active(workers) if group_of(pod) not in named]

    def _pod_name(self, prefix: str) -> str:
        return f"{prefix}-{name_suffix(self._world.token())}"

    def _events(self) -> Iterator[EventNote]:
        for pod in self._delete:
            yield _pod_event("Deleted", pod)
        for pod in self._create:
            yield _pod_event("Created", pod)
        for field in unused_fields(self._spec):
            text = f"{field} is left alone: without KubeRay nobody acts on it; take it out, or run KubeRay"
            yield EventNote("FieldNotUsed", text, "Warning")


def _pod_event(what: str, pod: Object) -> EventNote:
    kind = label.HEAD if is_head(pod) else label.WORKER
    return EventNote(f"{what}{kind.title()}Pod", f"{what} {kind} Pod {key_of(pod)}")


class Stop(Enum):
    """Whether the pods of a cluster are to go, and how far that is."""

    NO = "no"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"


def suspension(cluster: RayCluster, spec: RayClusterSpec, has_pods: bool) -> Stop:
    """A suspension that has begun is finished; one that is finished ends when `suspend: false` is said, not by silence."""
    if is_marked(cluster, SUSPENDED) and not is_marked(cluster, SUSPENDING):
        if spec.suspend is False:
            return Stop.NO
        return Stop.SUSPENDED
    if spec.suspend or is_marked(cluster, SUSPENDING):
        return Stop.SUSPENDING if has_pods else Stop.SUSPENDED
    return Stop.NO


def spec_hash(spec: RayClusterSpec) -> str:
    """A digest of what the pods are made from: without the numbers of replicas, and without what queues put into templates."""
    data = spec.to_dict()
    data.pop("suspend", None)
    for group in data.get("workerGroupSpecs") or []:
        for name in ("replicas", "minReplicas", "maxReplicas", "scaleStrategy"):
            group.pop(name, None)
    for group in (data["headGroupSpec"], *(data.get("workerGroupSpecs") or [])):
        pod = dict(group["template"].get("spec") or {})
        pod.pop("tolerations", None)
        pod.pop("schedulingGates", None)
        group["template"] = {**group["template"], "spec": pod}
    return hashlib.sha256(msgspec.json.encode(data, order="deterministic")).hexdigest()[:32]


def name_suffix(random: str) -> str:
    """Five letters that make no words, as the API would append them to a generateName."""
    digest = hashlib.sha256(random.encode()).digest()
    return "".join(_NAME_LETTERS[byte % len(_NAME_LETTERS)] for byte in digest[:5])
