"""Several workload controllers over one cluster in memory, with pods that a test makes ready, failed or finished."""

from __future__ import annotations

import copy
from collections.abc import Callable

from modelyard.kube.builtin import Pod
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import key_of
from modelyard.kube.times import format_time
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.testing import Bench, MemoryCluster, RunOutcome


class Stage:
    """`play` runs every controller over its resources until nothing changes."""

    def __init__(self, *controllers: Controller) -> None:
        self.controllers = {controller.kind: controller for controller in controllers if controller.kind is not None}
        assert len(self.controllers) == len(controllers), "each controller is for a kind of its own"
        self.cluster = MemoryCluster()
        self.benches: dict[tuple[Kind, object], Bench] = {}
        self.began = self.cluster.now
        self.statuses: list[tuple[float, dict[str, Object]]] = []

    def put(self, obj: Object) -> Object:
        return self.cluster.put(obj)

    def one(self, kind: Kind, name: str, namespace: str = "ns") -> Object:
        found = next((o for o in self.all(kind) if o["metadata"]["name"] == name), None)
        assert found is not None, f"no {kind.kind} {name}; there is {[o['metadata']['name'] for o in self.all(kind)]}"
        return found

    def condition(self, kind: Kind, name: str, type: str) -> Object:
        conditions = self.one(kind, name)["status"]["conditions"]
        found = find_condition(conditions, type)
        assert found is not None, f"no condition {type}; there is {[c['type'] for c in conditions]}"
        return found

    def all(self, kind: Kind) -> list[Object]:
        return [copy.deepcopy(o) for (k, _), o in self.cluster.objects.items() if k == kind]

    def edit(self, kind: Kind, name: str, change: Callable[[Object], None]) -> None:
        obj = self.one(kind, name)
        change(obj)
        place = (kind, key_of(obj))
        self.cluster.objects[place] = self.cluster._system_fields(obj, self.cluster.objects[place])

    def step(self) -> list[RunOutcome]:
        outcomes = []
        for kind, controller in self.controllers.items():
            for obj in self.all(kind):
                key = key_of(obj)
                bench = self.benches.setdefault((kind, key), Bench(controller, self.cluster, key))
                outcomes.append(bench.run())
        self._remember()
        return outcomes

    def _remember(self) -> None:
        """The status of everything that the controllers look after, as it is now."""
        found = {
            self._title(obj): copy.deepcopy(obj.get("status") or {})
            for kind in self.controllers
            for obj in self.all(kind)
        }
        self.statuses.append(((self.cluster.now - self.began).total_seconds(), found))

    def _title(self, obj: Object) -> str:
        return f"{obj['kind']} {obj['metadata']['name']}"

    def play(self, pods: Callable[[Object], Object | None] | None = None, rounds: int = 60) -> list[RunOutcome]:
        for _ in range(rounds):
            outcomes = self.step()
            changed = any(outcome.writes for outcome in outcomes)
            for pod in self.all(Pod):
                answer = pods(copy.deepcopy(pod)) if pods else None
                if answer is not None and answer != pod:
                    self.cluster.put(answer)
                    changed = True
            if not changed:
                return outcomes
        raise AssertionError(f"does not settle: {[o.writes for o in outcomes if o.writes]}")

    def pods(self) -> list[str]:
        return sorted(p["metadata"]["name"] for p in self.all(Pod) if not p["metadata"].get("deletionTimestamp"))

    @property
    def now(self) -> str:
        return format_time(self.cluster.now)

    def ready(self, pod: Object) -> Object:
        """The pod runs and its probes pass."""
        status = pod.get("status") or {}
        if status.get("phase") in ("Running", "Succeeded", "Failed"):
            return pod
        pod["status"] = {
            "phase": "Running",
            "podIP": "127.1.0.1",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": self.now}],
        }
        return pod

    def ended(self, phase: str) -> Callable[[Object], Object]:
        """A pod reaction: every pod that has not ended ends like this, now."""

        def react(pod: Object) -> Object:
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                return pod
            done = {
                "name": "main",
                "state": {"terminated": {"finishedAt": self.now, "exitCode": int(phase == "Failed")}},
            }
            pod["status"] = {"phase": phase, "containerStatuses": [done]}
            return pod

        return react


def template(image: str = "web:1", **spec: object) -> Object:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}


def set_image(image: str) -> Callable[[Object], None]:
    """A change for `edit`."""

    def change(workload: Object) -> None:
        workload["spec"]["template"]["spec"]["containers"][0]["image"] = image

    return change
