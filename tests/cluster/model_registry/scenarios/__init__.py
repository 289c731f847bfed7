"""The 64 scenarios of the model registry specification: each has a scene here, or in the catalog's book."""

from __future__ import annotations

from tests.cluster.model_registry.scenarios import (
    admission,
    databases,
    deletion,
    gateway,
    newer,
    plain,
    proxy,
)
from tests.cluster.model_registry.scenarios.scene import Scenario

_BOOKS = (admission.book, plain.book, proxy.book, databases.book, gateway.book, deletion.book, newer.book)
SCENARIOS: dict[int, Scenario] = {number: scene for book in _BOOKS for number, scene in book.scenarios.items()}
NEEDS_API = frozenset(number for book in _BOOKS for number in book.needs_api)
IN_CATALOG: dict[int, tuple[int, ...]] = {
    49: (1, 2, 3, 4, 5), 51: (8, 9), 52: (15, 16), 53: (13,), 54: (18, 19), 55: (21,), 56: (23,), 57: (25,), 58: (17, 26),
    59: (30,),
}  # fmt: skip
"""Scenarios about the catalog: those of its own specification that show the same for the catalog without a resource."""
WITH_PODS = {
    63: "test_a_wrong_password_of_the_database_is_told",
    64: "test_only_those_with_the_role_get_in",
}
"""What is shown once more with pods, in tests/e2e/test_registry_servers.py, with a stand-in for the server."""
REASONS = {
    27: "a Deployment with another selector is deleted and made again only if this registry controls it",
    33: "behind a proxy there is no plain port, so the Route needs a registry that declined the proxy (defect 12)",
    41: "the old database's server goes; its volume and password stay (defect 20)",
    49: "the catalog runs without a resource (the issue leaves `Catalog` out): its objects have no such owner",
    50: "`Catalog` is not read (the issue leaves it out): what holds is that nobody claims it, and the defaults are used",
    51: "as 49: what the platform's resource owns stays its own",
    58: "the claim holds the database here (the catalog's specification, section 12, asks for that) and stays",
    59: "as 49: the end of the catalog is its being switched off",
    60: "`Catalog` is not judged (the issue leaves it out): what holds is that no webhook concerns itself with it",
    62: "this process waits and says why instead of ending: it can be asked, and needs no restart",
    63: "the server is a later issue: what holds is shown with pod states here, and with a stand-in on a laptop cluster",
    64: "as 63: what the proxy asks the API is shown here, the proxy itself on a laptop cluster",
}
"""Where a scenario cannot hold word for word, the reason; the scene shows the part that does."""


def title(number: int) -> str:
    return f"{number:02}-{SCENARIOS[number].__name__}"
