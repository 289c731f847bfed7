"""What a pass found and did. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from modelyard.kube.kinds import Key, Kind, Object
from modelyard.runtime.declaring.desired import Desired, Failure, Live, Outcome


@dataclass
class PassResult:
    """What a pass found and did."""

    outcome: Outcome | None = None
    live: Live = field(default_factory=Live)
    status: Object | None = None
    """The resource's status after the pass; None if the pass did not concern itself with it."""
    requeue_after: float | None = None
    paused: bool = False
    superseded: str = ""
    """Who does the work in our place, and what to do about it."""
    finalized: bool = False
    """The finalizer was removed: the resource is gone as far as we are concerned."""
    deleted: list[tuple[Kind, Key]] = field(default_factory=list)
    released: list[tuple[Kind, Key]] = field(default_factory=list)

    @property
    def leaves_nothing(self) -> bool:
        """Does nothing of the key exist any more that a later pass would compare with?"""
        outcome = self.outcome
        return isinstance(outcome, Desired) and not (self.live.objects or self.failures or outcome.events)

    @property
    def failures(self) -> Sequence[Failure]:
        return self.live.failures

    @property
    def must_retry(self) -> bool:
        return any(f.retryable for f in self.failures)

    def requeue_at_most(self, seconds: float) -> None:
        now = self.requeue_after
        self.requeue_after = seconds if now is None else min(now, seconds)


def worth_telling(failures: Sequence[Failure]) -> list[Failure]:
    """What people should hear of. That an optional kind is not served is the cluster's choice, and its children are not missed."""
    return [f for f in failures if f.retryable or f.reason != "NotServed"]
