"""What is the case with an AppWrapper's pods and objects, as numbers that the table of phases decides on. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from modelyard.kube.conditions import is_true
from modelyard.kube.kinds import Object
from modelyard.kube.objects import (
    conditions_of,
    controller_of,
    is_deleting,
    kind_of,
    labels_of,
    spec_of,
    status_of,
)
from modelyard.operators.codeflare.appwrapper.api import UID_LABEL
from modelyard.operators.codeflare.appwrapper.config import Tolerance
from modelyard.operators.codeflare.appwrapper.nodes import requested


@dataclass(frozen=True)
class PodSummary:
    """The pods of one AppWrapper."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminal_failure: bool = False
    """One has failed in a way that another try would not mend."""
    no_execute_nodes: tuple[str, ...] = ()
    """Where pods use what they should leave."""

    def __str__(self) -> str:
        return f"{self.pending} pods pending; {self.running} pods running; {self.succeeded} pods succeeded"


def own_pods(pods: Iterable[Object], owner: str, parts: Collection[str]) -> list[Object]:
    """Those of the pods with our label that are really ours: they carry the uid of the AppWrapper, or belong to it or to an
    object that it wraps."""
    uids = {owner, *parts}
    return [
        pod for pod in pods if labels_of(pod).get(UID_LABEL) == owner or (controller_of(pod) or {}).get("uid") in uids
    ]


def summary(pods: Iterable[Object], tolerance: Tolerance, no_execute: Mapping[str, Collection[str]]) -> PodSummary:
    counts = {"Pending": 0, "Running": 0, "Succeeded": 0, "Failed": 0}
    terminal, left = False, set()
    for pod in pods:
        phase = status_of(pod).get("phase")
        if phase == "Running" and is_deleting(pod):
            continue
        if phase in counts:
            counts[phase] += 1
        if phase == "Failed":
            terminal = terminal or _is_terminal(pod, tolerance)
        if phase == "Running" and requested(spec_of(pod).get("containers") or ()) & set(
            no_execute.get(spec_of(pod).get("nodeName") or "", ())
        ):
            left.add(spec_of(pod)["nodeName"])
    return PodSummary(
        counts["Pending"], counts["Running"], counts["Succeeded"], counts["Failed"], terminal, tuple(sorted(left))
    )


def _is_terminal(pod: Object, tolerance: Tolerance) -> bool:
    for container in status_of(pod).get("containerStatuses") or ():
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode") or 0
        if code in tolerance.terminal_codes and code:
            return True
        if code and tolerance.retryable_codes and code not in tolerance.retryable_codes:
            return True
    return False


def has_failed(obj: Object) -> bool:
    """Does a component itself say that it failed? A Ray cluster may say so and recover, so it is not asked."""
    known = kind_of(obj) in (("batch/v1", "Job"), ("kubeflow.org/v1", "PyTorchJob"))
    return known and is_true(conditions_of(obj), "Failed")


def count_failed(objects: Sequence[Object]) -> int:
    return sum(map(has_failed, objects))
