"""The ConfigMap with the settings is made once, where there is a place for it."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.kinds import Key, Object
from modelyard.operators.codeflare.config import CONFIG_MAP, Settings
from modelyard.operators.codeflare.configuration import configuration_controller
from modelyard.runtime.acting.memory import KeyMemory
from modelyard.runtime.acting.passes import Pass
from modelyard.runtime.testing.inmemory import MemoryCluster

KEY = Key("plane", CONFIG_MAP)
PLACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane"}}
SOMEONES: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": "plane"}}


@pytest.mark.parametrize(("there", "writes"), [([], 0), ([PLACE], 1), ([PLACE, {**SOMEONES, "data": {"a": ""}}], 0)])
async def test_it_is_made_where_its_namespace_is_and_it_is_not(there: list[Any], writes: int) -> None:
    cluster = MemoryCluster(there)
    for _ in range(2):
        await Pass(configuration_controller(Settings(namespace="plane")), cluster, KeyMemory(), KEY).run()
    assert len(cluster.writes) == writes
