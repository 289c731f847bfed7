"""The dice of the differential fuzzer, thrown by hypothesis: how often a sequence does what is wrong is thrown once for all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from modelyard.kube.kinds import Object

T = TypeVar("T")
_WRONG: tuple[Any, ...] = (
    None, "", "x", "Bad_Name!", "-", "a" * 70, 0, -1, 1, 2**31, 2**63, 1.5, True, False, [], {}, ["x"], [None], {"x": "y"}, {"x": None},
)  # fmt: skip


class Chance(Random):
    """Some sequences are tame and get far; others are wild and try what is refused."""

    def __init__(self, throw: Callable[[int], int], *, wide: bool = False) -> None:
        """`throw(n)` gives one of the numbers below n; the lower, the simpler."""
        super().__init__(0)
        self._throw = throw
        self.wildness = self.choice([0.02, 0.1, 0.3])
        self.mutations = self.choice([0.0, 0.2, 0.6]) if wide else 0.0
        """How often a body is changed at a random place into something that its kind may not know."""

    def _randbelow(self, n: int) -> int:
        return self._throw(n)

    def random(self) -> float:
        # The simplest is what is not done: `random() < likely` holds for the high throws.
        return 1.0 - (self._throw(1000) + 1) / 1000

    def wrong(self, share: float = 1.0) -> bool:
        """Whether to do something wrong now; `share`: how often beside other wrong things."""
        return self.random() < self.wildness * share

    def pick(self, good: Sequence[Any], bad: Sequence[Any]) -> Any:
        return self.choice(bad if self.wrong() else good)

    def maybe(self, target: Object, likely: float, **values: Any) -> None:
        if self.random() < likely:
            target.update(values)

    def mutated(self, body: Any) -> Any:
        """The body with one place changed to what may not belong there; metadata is spared most of the time."""
        places = list(_places(body, sparing=self.random() < 0.8))
        if not places:
            return body
        parent, key = self.choice(places)
        match self.randint(0, 5):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, list):
                parent.append(parent[key])
            case 1:
                parent["unheardOf"] = parent[key]
            case _:
                parent[key] = self.choice(_WRONG)
        return body


def _places(value: Any, *, sparing: bool) -> Any:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        if sparing and key in ("metadata", "apiVersion", "kind"):
            continue
        yield value, key
        yield from _places(child, sparing=sparing and not isinstance(value, list))
