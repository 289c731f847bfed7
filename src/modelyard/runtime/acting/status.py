"""The status of a resource as the engine writes it: engine conditions merged in, times kept, as the smallest merge patch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from modelyard.kube.conditions import condition, find_condition, remove_condition
from modelyard.kube.crd import Model, drop_none
from modelyard.kube.kinds import Object
from modelyard.kube.times import format_time
from modelyard.runtime.acting.ownership import PAUSE, RECONCILE
from modelyard.runtime.declaring.desired import Failure, Hold, Live, Status, StatusFn

LONGEST_MESSAGE = 32768
"""So many characters Kubernetes lets the message of a condition have."""
RECONCILED = "Reconciled"
"""The engine's own condition: there, as False, only while something is wrong."""
PAUSED = "Paused"
RECONCILE_NOW = "ReconcileNow"
SUPERSEDED = "OtherOperatorRunning"
"""The reason while the operator before us still does the work."""
ENGINE_TYPES = frozenset({RECONCILED, PAUSED, RECONCILE_NOW})
ENGINE_REASONS = frozenset(
    {
        "ApplyFailed", "Conflicting", "Contested", "FinalizerNotRemoved", "Foreign", "InvalidResource", "NotServed",
        "ReconcileFailed", "ReconcileTimeout",
    }
)  # fmt: skip


def as_data(status: Status) -> Object:
    """A status as plain data in the API's spelling."""
    if isinstance(status, Model):
        return status.to_dict()
    data: Object = drop_none(msgspec.to_builtins(status)) if isinstance(status, msgspec.Struct) else drop_none(status)
    return data


def compute(wanted: StatusFn | Status | None, resource: Any, live: Live) -> Object | None:
    """What the controller says the status is; None if it says nothing."""
    if wanted is None:
        return None
    return as_data(wanted(resource, live) if callable(wanted) else wanted)


def held(current: Object, hold: Hold, ready: str, generation: int | None) -> Object:
    """The status that a `Hold` without one of its own stands for."""
    return with_conditions(
        current, [condition(ready, False, hold.reason, hold.message, observed_generation=generation)]
    )


def with_conditions(status: Object, new: Sequence[Object]) -> Object:
    """The status with these conditions in place of those of their type, or at the end."""
    if not new:
        return status
    conditions = list(status.get("conditions") or [])
    for one in new:
        for position, old in enumerate(conditions):
            if old.get("type") == one["type"]:
                conditions[position] = one
                break
        else:
            conditions.append(one)
    return status | {"conditions": conditions}


def without_engine_marks(status: Object, ready: str) -> Object:
    """The status without what the engine itself has put there before."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return status
    kept = [c for c in conditions if c.get("type") not in ENGINE_TYPES]
    mark = find_condition(kept, ready)
    if mark is not None and mark.get("reason") in ENGINE_REASONS:
        kept = remove_condition(kept, ready)
    if kept == conditions:
        return status
    return status | {"conditions": kept} if kept else {k: v for k, v in status.items() if k != "conditions"}


def failed(failures: Sequence[Failure], generation: int | None) -> Object:
    """The engine's condition for children that could not be made as desired."""
    first = failures[0]
    message = "; ".join(map(described, failures))
    return condition(RECONCILED, False, first.reason, shortened(message), observed_generation=generation)


def described(failure: Failure) -> str:
    return f"{failure.kind.kind} {failure.key}: {failure.message}"


def paused(generation: int | None) -> Object:
    message = f"nothing is changed while the annotation {PAUSE} is set; remove it to go on"
    return condition(PAUSED, True, "PauseAnnotation", message, observed_generation=generation)


def superseded(message: str, generation: int | None) -> Object:
    return condition(RECONCILED, False, SUPERSEDED, shortened(message), observed_generation=generation)


def reconcile_now(generation: int | None) -> Object:
    message = f"every child is applied again because the annotation {RECONCILE} is set; it is removed when that is done"
    return condition(RECONCILE_NOW, True, "ReconcileAnnotation", message, observed_generation=generation)


def shortened(message: str, limit: int = 1024) -> str:
    """Fits what Events and most condition schemas allow."""
    return message if len(message) <= limit else f"{message[: limit - 1]}…"


def fitted(status: Object) -> Object:
    """The status with messages that the API keeps. One that is too long makes it refuse the whole status, and nobody would
    learn the reason that the message begins with."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return status
    cut = [
        entry | {"message": shortened(entry["message"], LONGEST_MESSAGE)}
        if isinstance(entry, dict) and isinstance(entry.get("message"), str)
        else entry
        for entry in conditions
    ]
    return status | {"conditions": cut} if cut != conditions else status


def keep_times(new: Object, old: Object, now: datetime) -> Object:
    """The new status, where a condition that did not change its `status` keeps its old transition time.

    A condition without a time gets the present one; unless the API dropped it before, because its type has no such field.
    A controller may count more as a transition: the time that it gives stands where anything of the condition changed.
    """
    if not isinstance(new.get("conditions"), list):
        return new
    before = [c for c in old.get("conditions") or () if isinstance(c, dict)]
    timed: list[Any] = []
    for entry in new["conditions"]:
        if isinstance(entry, dict) and "type" in entry and "status" in entry:
            entry = dict(entry)
            last = find_condition(before, entry["type"])
            if last is not None and last.get("status") == entry["status"]:
                if "lastTransitionTime" not in last:
                    entry.pop("lastTransitionTime", None)
                elif "lastTransitionTime" not in entry or last == entry | {
                    "lastTransitionTime": last["lastTransitionTime"]
                }:
                    entry["lastTransitionTime"] = last["lastTransitionTime"]
            elif not entry.get("lastTransitionTime"):
                entry["lastTransitionTime"] = format_time(now)
        timed.append(entry)
    return new | {"conditions": timed}
