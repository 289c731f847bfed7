"""Tests of a controller without any server: objects in, objects and status out.

    outcome = run(controller, resource, objects=[secret])
    assert outcome.children[Deployment, "demo"]["spec"]["replicas"] == 2
    assert outcome.condition("Ready")["status"] == "False"

`run` makes one pass with the engine's own code over a cluster in memory; `settle` repeats it until nothing changes.
`Bench` keeps that cluster for a scenario of several steps. `FakeWorld` is for calling a reconcile or a helper by itself.
"""

from modelyard.runtime.testing.inmemory import NOW, MemoryCluster
from modelyard.runtime.testing.kit import (
    Bench,
    Children,
    FakeAccessReviews,
    FakeWorld,
    Question,
    RunOutcome,
    bench,
    drive,
    drop_empty_identity,
    make_ready,
    run,
    settle,
    without_system_fields,
)

__all__ = [
    "NOW",
    "Bench",
    "Children",
    "FakeAccessReviews",
    "FakeWorld",
    "MemoryCluster",
    "Question",
    "RunOutcome",
    "bench",
    "drive",
    "drop_empty_identity",
    "make_ready",
    "run",
    "settle",
    "without_system_fields",
]
