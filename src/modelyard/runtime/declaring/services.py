"""What operators reach beyond the API: each is asked for by name when an operator is built, so that a test can give a fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from modelyard.runtime.declaring.world import T


class Services:
    """`Services(mesh=FakeMesh())` in a test; `Services()` where everything is real."""

    def __init__(self, **given: object) -> None:
        self._given = given
        self.asked: list[str] = []
        """The names that operators have asked for."""

    def use(self, name: str, real: Callable[[], T]) -> T:
        """The service that was given under this name, or the one that `real` makes. An operator gives it to its reconcile
        functions, and its `Background` keeps it alive while this process leads."""
        self.asked.append(name)
        return cast(T, self._given[name]) if name in self._given else real()

    @property
    def unused(self) -> list[str]:
        """What was given and nobody asked for: a wrong name, most of the time."""
        return sorted(self._given.keys() - set(self.asked))
