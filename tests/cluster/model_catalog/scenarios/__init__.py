"""The 38 scenarios of the model catalog specification, each written once."""

from __future__ import annotations

from tests.cluster.model_catalog.scenarios import lists, objects, switches
from tests.cluster.model_catalog.scenarios.scene import Scenario

_BOOKS = (objects.book, lists.book, switches.book)
SCENARIOS: dict[int, Scenario] = {number: scene for book in _BOOKS for number, scene in book.scenarios.items()}
NEEDS_API = frozenset(number for book in _BOOKS for number in book.needs_api)
WITH_PODS = {38: "test_everyone_with_a_token_reads_the_catalog"}
"""What is shown once more with pods, in tests/e2e/test_registry_servers.py, with a stand-in for the server."""
REASONS = {
    4: "upstream sets PGDATA to a place that the image does not use (Q4): three variables, and the volume where the data is",
    6: "nothing hangs on the Deployment (Q8)",
    27: "only a Deployment that says it is the catalog's is deleted; others are left alone and named",
    30: "the database's volume and password are kept unless asked for (Q13)",
    34: "it rests instead of failing for ever (Q7)",
    36: "no address is written where there is no domain (Q6)",
    38: "the server is a later issue: what the proxy asks the API is shown here, the proxy itself on a laptop cluster",
}
"""Where a scenario cannot hold word for word, the reason; the scene shows the part that does."""


def title(number: int) -> str:
    return f"{number:02}-{SCENARIOS[number].__name__}"
