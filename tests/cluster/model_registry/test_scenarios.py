"""All scenarios of the specification on an API server. `SCENARIOS` maps each number to its scene."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.model_catalog.scenarios import SCENARIOS as CATALOG
from tests.cluster.model_registry.scenarios import IN_CATALOG, REASONS, SCENARIOS, WITH_PODS, title
from tests.cluster.model_registry.scenarios.scene import RegistryScene


@pytest.mark.parametrize("number", sorted(SCENARIOS), ids=title)
async def test_scenario(number: int, scene: RegistryScene) -> None:
    await SCENARIOS[number](scene)


def test_no_scenario_is_missing() -> None:
    assert sorted(SCENARIOS.keys() | IN_CATALOG.keys()) == list(range(1, 65))
    assert not SCENARIOS.keys() & IN_CATALOG.keys()
    for number, shown in IN_CATALOG.items():
        assert set(shown) <= CATALOG.keys(), f"scenario {number}: the catalog has no scene {shown}"


def test_what_is_shown_with_pods_is_there() -> None:
    text = (Path(__file__).parents[2] / "e2e/test_registry_servers.py").read_text()
    assert [test for test in WITH_PODS.values() if f"def {test}(" not in text] == []


def test_reasons_belong_to_scenarios() -> None:
    assert REASONS.keys() <= set(range(1, 65))
