"""The metrics of AppWrappers: every phase that is entered counts."""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER
from modelyard.runtime.declaring.operator_metrics import OwnMetrics
from tests.cluster.appwrapper.scenarios.scene import AppWrapperScene, pod
from tests.ground import MemoryGround


async def test_every_phase_that_is_entered_counts() -> None:
    scene = AppWrapperScene(MemoryGround([APPWRAPPER], collects=True))
    await scene.start()
    await scene.ground.halt()
    made = scene.operator
    await scene.ground.start(list(made.controllers))
    await scene.running(pod())
    await scene.report("pod", "Succeeded")
    await scene.phase("Succeeded")
    registry = CollectorRegistry()
    OwnMetrics(made.metrics, lambda controller: None).register(registry)
    for phase in ("Suspended", "Resuming", "Running", "Succeeded"):
        labels = {"namespace": scene.namespace, "phase": phase}
        assert registry.get_sample_value("appwrapper_phase_total", labels) == 1
