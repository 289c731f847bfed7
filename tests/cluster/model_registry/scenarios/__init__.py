"""The 64 scenarios of the model registry specification. Each is written once; those about the catalog are in its own book."""

from __future__ import annotations

from tests.cluster.model_registry.scenarios import admission, databases, deletion, gateway, plain, proxy
from tests.cluster.model_registry.scenarios.story import Scenario

_BOOKS = (admission.book, plain.book, proxy.book, databases.book, gateway.book, deletion.book)
SCENARIOS: dict[int, Scenario] = {number: story for book in _BOOKS for number, story in book.scenarios.items()}
NEEDS_API = frozenset(number for book in _BOOKS for number in book.needs_api)
ELSEWHERE = {
    49: "tests/cluster/model_catalog, scenario 1: the catalog without a custom resource",
    50: "about the newer Catalog resource, which is no part of this operator",
    51: "tests/cluster/model_catalog, scenario 8: what the platform's resource owns stays its own",
    52: "tests/cluster/model_catalog, scenarios 15 and 16",
    53: "tests/cluster/model_catalog, scenario 13",
    54: "tests/cluster/model_catalog, scenario 18",
    55: "tests/cluster/model_catalog, scenario 21",
    56: "tests/cluster/model_catalog, scenario 23",
    57: "tests/cluster/model_catalog, scenario 25",
    58: "tests/cluster/model_catalog, scenario 17; the claim is in use here and stays",
    59: "tests/cluster/model_catalog, scenario 30: the end of the catalog is its being switched off",
    60: "about the newer Catalog resource, which is no part of this operator",
    62: "tests/unit/operators/model_registry/test_quirks.py: kinds may come and go while the operator runs",
    63: "not shown yet: needs the registry's own server, which has no recipe on a laptop",
    64: "not shown yet: as 63",
}
"""Scenarios that are not in these books: where they are shown, or why they are not."""


def title(number: int) -> str:
    return f"{number:02}-{SCENARIOS[number].__name__}"
