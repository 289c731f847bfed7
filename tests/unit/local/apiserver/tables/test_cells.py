"""Cells: JSONPath of printer columns, ages, and the state of a pod."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.tables.ages import Ages, human_duration
from modelyard.local.apiserver.tables.jsonpath import PathError, compile_path, printed
from modelyard.local.apiserver.tables.workloads import pod

DATA = {
    "spec": {
        "a": 1,
        "b.c": "dotted",
        "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "z"}],
        "map": {"k": [1, 2]},
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.a", [1]),
        (".spec.none", []),
        (".spec.a.b", []),
        (".spec['b.c']", ["dotted"]),
        (r".spec.b\.c", ["dotted"]),
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["z"]),
        (".spec.list[9].n", []),
        (".spec.list[*].n", ["x", "y", "z"]),
        (".spec.list[0:2].n", ["x", "y"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Other')].status", ["False"]),
        (".spec.list[?(@.v>1)].n", ["y"]),
        (".spec.list[?(@.v)].n", ["x", "y"]),
        ("..status", [DATA["status"], "True", "False"]),
    ],
)
def test_path_finds(path: str, found: list[Any]) -> None:
    assert compile_path(path)(DATA) == found


def test_path_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(PathError, match="cannot read"):
        compile_path("spec[")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (1, "1"),
        (1.5, "1.5"),
        (2.0, "2"),
        (True, "true"),
        (["a", 1], '["a",1]'),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
    ],
)
def test_value_is_printed(value: Any, text: str) -> None:
    assert printed(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-0.5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (601, "10m"), (10800, "3h"),
        (12000, "3h20m"), (86400, "24h"), (180000, "2d2h"), (86400 * 8, "8d"), (86400 * 729, "729d"), (86400 * 800, "2y70d"),
        (86400 * 365 * 9, "9y"),
    ],
)  # fmt: skip
def test_duration_has_few_digits(seconds: float, text: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == text


NOW = datetime(2024, 1, 1, 0, 5, tzinfo=UTC)
AGES = Ages(lambda: NOW)


def running(**more: Any) -> Object:
    return {"ready": True, "restartCount": 0, "state": {"running": {}}} | more


def ended(code: int, **more: Any) -> Object:
    return {"ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": code} | more}}


def waiting(reason: str) -> Object:
    return {"ready": False, "restartCount": 0, "state": {"waiting": {"reason": reason}}}


def a_pod(status: Object, *, containers: int = 1, init: list[Object] | None = None, **metadata: Any) -> Object:
    spec = {"containers": [{"name": f"c{i}"} for i in range(containers)], "initContainers": init or []}
    return {
        "metadata": {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z"} | metadata,
        "spec": spec,
        "status": status,
    }


READY = [{"type": "Ready", "status": "True"}]
STATES: list[tuple[str, Object, tuple[str, str, str]]] = [
    ("pending", a_pod({"phase": "Pending"}), ("0/1", "Pending", "0")),
    ("running", a_pod({"phase": "Running", "containerStatuses": [running()]}), ("1/1", "Running", "0")),
    ("reason", a_pod({"phase": "Failed", "reason": "Evicted"}), ("0/1", "Evicted", "0")),
    (
        "gated",
        a_pod(
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated", "status": "False"}],
            }
        ),
        ("0/1", "SchedulingGated", "0"),
    ),
    (
        "restarted",
        a_pod(
            {
                "phase": "Running",
                "containerStatuses": [
                    running(restartCount=2, lastState={"terminated": {"finishedAt": "2024-01-01T00:04:00Z"}})
                ],
            }
        ),
        ("1/1", "Running", "2 (60s ago)"),
    ),
    (
        "crash",
        a_pod({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}),
        ("0/1", "CrashLoopBackOff", "0"),
    ),
    ("failed", a_pod({"phase": "Failed", "containerStatuses": [ended(3)]}), ("0/1", "ExitCode:3", "0")),
    ("signal", a_pod({"phase": "Failed", "containerStatuses": [ended(137, signal=9)]}), ("0/1", "Signal:9", "0")),
    (
        "completed",
        a_pod({"phase": "Succeeded", "containerStatuses": [ended(0, reason="Completed")]}),
        ("0/1", "Completed", "0"),
    ),
    (
        "half done but ready",
        a_pod(
            {"phase": "Running", "conditions": READY, "containerStatuses": [ended(0, reason="Completed"), running()]},
            containers=2,
        ),
        ("1/2", "Running", "0"),
    ),
    (
        "half done and not ready",
        a_pod({"phase": "Running", "containerStatuses": [ended(0, reason="Completed"), running()]}, containers=2),
        ("1/2", "NotReady", "0"),
    ),
    (
        "init running",
        a_pod(
            {"phase": "Pending", "initContainerStatuses": [running(ready=False)]}, init=[{"name": "i"}, {"name": "j"}]
        ),
        ("0/1", "Init:0/2", "0"),
    ),
    (
        "init failed",
        a_pod({"phase": "Pending", "initContainerStatuses": [ended(1, reason="Error")]}, init=[{"name": "i"}]),
        ("0/1", "Init:Error", "0"),
    ),
    (
        "init waiting",
        a_pod({"phase": "Pending", "initContainerStatuses": [waiting("ErrImagePull")]}, init=[{"name": "i"}]),
        ("0/1", "Init:ErrImagePull", "0"),
    ),
    (
        "sidecar",
        a_pod(
            {
                "phase": "Running",
                "initContainerStatuses": [running(name="s", started=True, restartCount=1)],
                "containerStatuses": [running()],
            },
            init=[{"name": "s", "restartPolicy": "Always"}],
        ),
        ("2/2", "Running", "1"),
    ),
    (
        "terminating",
        a_pod({"phase": "Running", "containerStatuses": [running()]}, deletionTimestamp="2024-01-01T00:06:00Z"),
        ("1/1", "Terminating", "0"),
    ),
    (
        "lost node",
        a_pod({"phase": "Running", "reason": "NodeLost"}, deletionTimestamp="2024-01-01T00:06:00Z"),
        ("0/1", "Unknown", "0"),
    ),
]


@pytest.mark.parametrize(("obj", "expected"), [c[1:] for c in STATES], ids=[c[0] for c in STATES])
def test_pod_state(obj: Object, expected: tuple[str, str, str]) -> None:
    assert tuple(pod(obj, AGES)[1:4]) == expected
    assert pod(obj, AGES)[4] == "5m"
