"""Status conditions: set without losing the time of the last transition, and found again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from modelyard.kube.kinds import Object
from modelyard.kube.times import format_time

ConditionStatus = Literal["True", "False", "Unknown"]


def condition(
    type: str, status: ConditionStatus | bool, reason: str, message: str = "", *, observed_generation: int | None = None
) -> Object:
    """A condition that has no transition time yet; `merge_conditions` gives it one."""
    text = status if isinstance(status, str) else "True" if status else "False"
    made: Object = {"type": type, "status": text, "reason": reason, "message": message}
    if observed_generation is not None:
        made["observedGeneration"] = observed_generation
    return made


def set_condition(conditions: Iterable[Object] | None, new: Object, now: datetime | str) -> list[Object]:
    """The conditions with `new` in place of the one of its type, or at the end.

    `lastTransitionTime` stays as it was while the status is the same; `now` counts when it changed.
    """
    result = [dict(existing) for existing in conditions or ()]
    at = now if isinstance(now, str) else format_time(now)
    for index, existing in enumerate(result):
        if existing.get("type") == new["type"]:
            same = existing.get("status") == new["status"] and existing.get("lastTransitionTime")
            since = existing["lastTransitionTime"] if same else new.get("lastTransitionTime") or at
            result[index] = {**new, "lastTransitionTime": since}
            return result
    result.append({**new, "lastTransitionTime": new.get("lastTransitionTime") or at})
    return result


def merge_conditions(conditions: Iterable[Object] | None, new: Sequence[Object], now: datetime | str) -> list[Object]:
    """`set_condition` for each of `new`; the others stay."""
    result = list(conditions or ())
    for one in new:
        result = set_condition(result, one, now)
    return result


def remove_condition(conditions: Iterable[Object] | None, type: str) -> list[Object]:
    return [existing for existing in conditions or () if existing.get("type") != type]


def find_condition(conditions: Iterable[Object] | None, type: str) -> Object | None:
    return next((existing for existing in conditions or () if existing.get("type") == type), None)


def is_true(conditions: Iterable[Object] | None, type: str) -> bool:
    found = find_condition(conditions, type)
    return found is not None and found.get("status") == "True"


def is_false(conditions: Iterable[Object] | None, type: str) -> bool:
    found = find_condition(conditions, type)
    return found is not None and found.get("status") == "False"
