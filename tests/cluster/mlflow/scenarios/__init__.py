"""The 72 scenarios of the MLflow specification. 1-69 are here, each written once; 70-72 need pods and are in the e2e tier."""

from __future__ import annotations

from tests.cluster.mlflow.scenarios import admission, migrations, platform, rendering, routing
from tests.cluster.mlflow.scenarios.scene import Scenario

_BOOKS = (admission.book, rendering.book, routing.book, migrations.book, platform.book)
SCENARIOS: dict[int, Scenario] = {number: scene for book in _BOOKS for number, scene in book.scenarios.items()}
NEEDS_API = frozenset(number for book in _BOOKS for number in book.needs_api)
E2E = {
    70: "test_70_a_fresh_mlflow_is_migrated_and_answers",
    71: "test_71_a_namespace_keeps_its_artifacts_in_its_own_bucket",
    72: "test_72_a_reader_can_read_and_no_more",
}
"""In `tests/e2e/test_mlflow.py`."""


def title(number: int) -> str:
    return f"{number:02}-{SCENARIOS[number].__name__}"
