"""Where the children of a `Desired` go, and a refusal of what cannot all be true: two objects at one place. Acts on nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.acting.apply import ChildFailed, Placed
from modelyard.runtime.declaring.desired import Child, Desired, Failure, Stage

CONFLICTING = "Conflicting"
"""The reason where a controller asks for things that exclude each other."""


@dataclass(frozen=True)
class Placement:
    """A `Desired` sorted by place."""

    stages: Sequence[tuple[Stage, Sequence[Placed]]]
    wanted: frozenset[tuple[Kind, Key]]
    """Every place that is asked for, also those that cannot be written."""
    failures: Sequence[Failure]


def placement(desired: Desired, place: Callable[[Child | Object], Placed]) -> Placement:
    """Each place once. What is asked for twice in the same words is one child; in different words, the place is left as it is:
    written one after the other, each would undo the other in every pass."""
    failures: list[Failure] = []
    first: dict[tuple[Kind, Key], Child] = {}
    refused: dict[tuple[Kind, Key], str] = {}
    stages: list[tuple[Stage, list[Placed]]] = []
    for stage in _stages(desired):
        children: list[Placed] = []
        for entry in stage.children:
            try:
                placed = place(entry)
            except ChildFailed as failed:
                failures.append(failed.failure)
                continue
            if placed.place not in first:
                first[placed.place] = placed.child
                children.append(placed)
            elif first[placed.place] != placed.child:
                refused[placed.place] = "two different objects with this name are asked for"
        stages.append((stage, children))
    failures += [
        Failure(
            kind,
            key,
            CONFLICTING,
            f"{why}, so it is left as it is. Choose another name in the resource that asks for it",
            retryable=False,
        )
        for (kind, key), why in refused.items()
    ]
    return Placement(
        [(stage, [placed for placed in children if placed.place not in refused]) for stage, children in stages],
        frozenset(first),
        failures,
    )


def _stages(desired: Desired) -> Sequence[Stage]:
    if desired.children and desired.stages:
        raise TypeError("a Desired has either children or stages; put the children into a first stage")
    return desired.stages or (Stage(desired.children),)
