"""A status being put together: its conditions, all about one generation, and the failures that people should hear of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelyard.kube.conditions import ConditionStatus, condition
from modelyard.kube.kinds import Object
from modelyard.runtime.acting.results import worth_telling
from modelyard.runtime.declaring.desired import Failure, Live


@dataclass(frozen=True)
class Conditions:
    """The conditions of a status, in the order in which they were added."""

    generation: int | None = None
    """None: the kind's conditions do not say which generation they are about."""
    made: list[Object] = field(default_factory=list)

    def add(self, type: str, status: ConditionStatus | bool, reason: str, message: str) -> None:
        self.made.append(condition(type, status, reason, message, observed_generation=self.generation))

    def keep(self, existing: Object | None) -> None:
        """Takes over a condition as it is, where there is one."""
        if existing is not None:
            self.made.append(existing)


def failures_to_tell(live: Live) -> list[Failure]:
    """What could not be applied and people should hear of."""
    return worth_telling(live.failures)
