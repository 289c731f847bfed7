"""The 26 RayCluster scenarios of the CodeFlare specification."""

from __future__ import annotations

from tests.cluster.ray_cluster.scenarios import controller, webhook
from tests.cluster.ray_cluster.scenarios.scene import Scenario

_BOOKS = (webhook.book, controller.book)
SCENARIOS: dict[int, Scenario] = {number: scene for book in _BOOKS for number, scene in book.scenarios.items()}
NEEDS_API = frozenset(number for book in _BOOKS for number in book.needs_api)
REASONS = {
    19: "the pod must belong to the cluster: one that only carries its labels is someone else's and stays",
    25: "the process lives on: what is wrong is told on every cluster, and nothing changes until it is mended",
    26: "the process lives on: a domain is needed only for a way in, and the rest is made without one",
}
"""Where a scenario cannot hold word for word, the reason; the scene shows the part that does."""


def title(number: int) -> str:
    return f"{number:02}-{SCENARIOS[number].__name__}"
