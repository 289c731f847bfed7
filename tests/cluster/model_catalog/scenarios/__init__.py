"""The 38 scenarios of the model catalog specification. 1-37 are here, each written once; 38 needs pods."""

from __future__ import annotations

from tests.cluster.model_catalog.scenarios import lists, objects, switches
from tests.cluster.model_catalog.scenarios.story import Scenario

_BOOKS = (objects.book, lists.book, switches.book)
SCENARIOS: dict[int, Scenario] = {number: story for book in _BOOKS for number, story in book.scenarios.items()}
NEEDS_API = frozenset(number for book in _BOOKS for number in book.needs_api)
ELSEWHERE = {38: "not shown yet: needs the catalog's own server, which has no recipe on a laptop"}


def title(number: int) -> str:
    return f"{number:02}-{SCENARIOS[number].__name__}"
