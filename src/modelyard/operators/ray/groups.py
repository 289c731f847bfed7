"""Which pods of a RayCluster are made and which go: from what is asked for and what there is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from modelyard.kube.conditions import is_true
from modelyard.kube.kinds import Object
from modelyard.kube.objects import conditions_of, is_deleting, labels_of, name_of, spec_of, status_of
from modelyard.operators.parts.ray_crd import WorkerGroup
from modelyard.operators.ray import names as label


@dataclass(frozen=True)
class Place:
    """One pod that is missing: which replica of its group, and which host of that replica."""

    replica: int
    host: int = 0

    def labels(self, group: WorkerGroup) -> dict[str, str]:
        index = {label.REPLICA_INDEX: str(self.replica)}
        if group.num_of_hosts == 1:
            return index
        name = f"{group.group_name}-{self.replica}"
        return {**index, label.REPLICA_NAME: name, label.HOST_INDEX: str(self.host)}


@dataclass(frozen=True)
class Change:
    """What is to be done about the pods of one group."""

    missing: Sequence[Place] = ()
    delete: Sequence[Object] = field(default_factory=list)


def is_head(pod: Object) -> bool:
    return labels_of(pod).get(label.NODE_TYPE) == label.HEAD


def group_of(pod: Object) -> str:
    return labels_of(pod).get(label.GROUP, "")


def active(pods: Sequence[Object]) -> list[Object]:
    """Those that are not on their way out."""
    return [pod for pod in pods if not is_deleting(pod)]


def is_running(pod: Object) -> bool:
    return status_of(pod).get("phase") == "Running"


def is_ready(pod: Object) -> bool:
    return is_true(conditions_of(pod), "Ready")


def is_lost(pod: Object) -> bool:
    """It has ended, or its Ray has and nothing will start it again."""
    phase = status_of(pod).get("phase")
    if phase in ("Failed", "Succeeded"):
        return True
    spec = spec_of(pod)
    if phase != "Running" or spec.get("restartPolicy", "Always") != "Never":
        return False
    ray = spec["containers"][0]["name"]
    found = (each for each in status_of(pod).get("containerStatuses") or [] if each.get("name") == ray)
    return any("terminated" in (each.get("state") or {}) for each in found)


def wanted_replicas(group: WorkerGroup) -> int:
    """How many replicas a group is to have, within its limits; a suspended group has none."""
    if group.suspend:
        return 0
    return min(max(group.replicas, group.min_replicas), group.max_replicas)


def wanted_workers(group: WorkerGroup) -> int:
    return wanted_replicas(group) * group.num_of_hosts


def worker_changes(group: WorkerGroup, pods: Sequence[Object], *, autoscaling: bool) -> Change:
    """For the pods of one group. Hosts of one replica live and die together."""
    if twice := made_twice(active(pods)):
        return Change(delete=twice)
    replicas = _replicas(active(pods))
    if broken := {index for index, of in replicas.items() if any(map(is_lost, of)) or _is_partial(of, group)}:
        return Change(delete=_pods(replicas, broken))
    named = set((group.scale_strategy.workers_to_delete if group.scale_strategy else None) or ())
    leaving = {index for index, of in replicas.items() if any(name_of(pod) in named for pod in of)}
    staying = {index: of for index, of in replicas.items() if index not in leaving}
    target = wanted_replicas(group)
    surplus = len(staying) - target
    if surplus > 0 and (not autoscaling or group.suspend):
        leaving |= set(sorted(staying, key=lambda index: _worth(staying[index], index))[:surplus])
    free = _free_indices(set(replicas))
    missing = [Place(next(free), host) for _ in range(max(-surplus, 0)) for host in (0,)]
    every = [Place(place.replica, host) for place in missing for host in range(group.num_of_hosts)]
    return Change(every, _pods(replicas, leaving))


def made_twice(pods: Sequence[Object]) -> list[Object]:
    """Pods have random names: if the answer to a creation is lost, the next pass makes the pod of that place once more."""
    seen: set[tuple[str, str]] = set()
    twice = []
    for pod in sorted(pods, key=_age):
        labels = labels_of(pod)
        place = labels.get(label.REPLICA_INDEX, ""), labels.get(label.HOST_INDEX, "")
        if place[0] and place in seen:
            twice.append(pod)
        seen.add(place)
    return twice


def _age(pod: Object) -> tuple[bool, str, str]:
    """The ready and the oldest come first."""
    return not is_ready(pod), str(pod["metadata"].get("creationTimestamp") or ""), name_of(pod)


def _replicas(pods: Sequence[Object]) -> dict[int, list[Object]]:
    """The pods by the index of their replica. One without an index is a replica of its own."""
    found: dict[int, list[Object]] = {}
    for pod in pods:
        text = labels_of(pod).get(label.REPLICA_INDEX, "")
        index = int(text) if text.isdigit() else -1
        if index < 0:
            index = min(found, default=0) - 1
        found.setdefault(index, []).append(pod)
    return found


def _is_partial(pods: Sequence[Object], group: WorkerGroup) -> bool:
    return group.num_of_hosts > 1 and len(pods) < group.num_of_hosts


def _pods(replicas: Mapping[int, Sequence[Object]], chosen: set[int]) -> list[Object]:
    return [pod for index in sorted(chosen) for pod in replicas[index]]


def _worth(pods: Sequence[Object], index: int) -> tuple[bool, int]:
    """Those that go first come first: not ready before ready, late before early."""
    return all(map(is_ready, pods)), -index


def _free_indices(taken: set[int]) -> Iterator[int]:
    index = 0
    while True:
        if index not in taken:
            yield index
        index += 1
