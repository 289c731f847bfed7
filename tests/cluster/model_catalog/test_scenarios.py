"""All scenarios of the catalog's specification, on an API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.model_catalog.scenarios import REASONS, SCENARIOS, WITH_PODS, title
from tests.cluster.model_catalog.scenarios.scene import CatalogScene


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, scene: CatalogScene) -> None:
    await SCENARIOS[number](scene)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS) == list(range(1, 39))
    assert REASONS.keys() <= SCENARIOS.keys()


def test_what_is_shown_with_pods_is_there() -> None:
    text = (Path(__file__).parents[2] / "e2e/test_catalog_servers.py").read_text()
    assert [test for test in WITH_PODS.values() if f"def {test}(" not in text] == []
