"""Which containers of a pod should be started or stopped now: the kubelet's rules, as a function of what is known."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelyard.kube.kinds import Object
from modelyard.local.kubelet.facts import is_sidecar
from modelyard.local.kubelet.status import ContainerRecord, should_restart

Records = dict[str, ContainerRecord]


@dataclass(frozen=True, slots=True)
class Decision:
    start: list[str] = field(default_factory=list)
    finished: bool = False
    """Nothing is left to run: what still runs (sidecars) is stopped and the pod ends."""


def decide(pod: Object, records: Records) -> Decision:
    """The containers that should run and do not. Whether one must wait first (back-off) is not asked here."""
    spec = pod["spec"]
    init = list(spec.get("initContainers") or [])
    main = list(spec.get("containers") or [])
    began = any(records[item["name"]].current is not None for item in main if item["name"] in records)
    start: list[str] = []
    for container in init:
        record = records[container["name"]]
        current = record.current
        if is_sidecar(container):
            if current is None or current.exited:
                start.append(container["name"])
            if not began and not (current is not None and current.running and record.started):
                return Decision(start)
            continue
        if began or (current is not None and current.exited and current.exit_code == 0):
            continue
        if current is None:
            return Decision([*start, container["name"]])
        if current.running or not current.exited:
            return Decision(start)
        if should_restart(pod, container, current.exit_code):
            return Decision([*start, container["name"]])
        return Decision([], finished=True)
    over = True
    for container in main:
        current = records[container["name"]].current
        if current is None:
            start.append(container["name"])
            over = False
        elif current.exited:
            if should_restart(pod, container, current.exit_code):
                start.append(container["name"])
                over = False
        else:
            over = False
    return Decision([], finished=True) if over else Decision(start)


def stop_order(pod: Object) -> list[list[str]]:
    """Groups to stop one after the other: the containers and plain init containers, then sidecars, last one first."""
    init = pod["spec"].get("initContainers") or []
    first = [item["name"] for item in pod["spec"].get("containers") or []]
    first += [item["name"] for item in init if not is_sidecar(item)]
    return [first, *([item["name"]] for item in reversed(init) if is_sidecar(item))]
