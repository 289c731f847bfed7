"""Which pods of a group are made and which go."""

from __future__ import annotations

import pytest

from modelyard.kube.kinds import Object
from modelyard.operators.parts.ray_crd import WorkerGroup
from modelyard.operators.ray.groups import Change, worker_changes
from modelyard.operators.ray.names import REPLICA_INDEX

GROUP = WorkerGroup(group_name="small", replicas=2, max_replicas=4, template={})


def pod(name: str, index: int, created: str = "2026-01-01T00:00:00Z") -> Object:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    metadata = {"name": name, "labels": {REPLICA_INDEX: str(index)}, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"containers": [{"name": "ray"}]}, "status": ready}


@pytest.mark.parametrize("autoscaling", [False, True])
def test_a_pod_that_was_made_twice_goes_once(autoscaling: bool) -> None:
    late = pod("a-late", 1, "2026-01-01T00:00:05Z")
    change = worker_changes(GROUP, [late, pod("z-first", 1), pod("other", 0)], autoscaling=autoscaling)
    assert change == Change(delete=[late])


def test_pods_beyond_the_number_are_the_autoscalers_to_take() -> None:
    pods = [pod("a", 0), pod("b", 1), pod("c", 2)]
    assert worker_changes(GROUP, pods, autoscaling=True).delete == []
    assert [gone["metadata"]["name"] for gone in worker_changes(GROUP, pods, autoscaling=False).delete] == ["c"]
