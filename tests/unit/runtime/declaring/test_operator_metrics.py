"""Metrics of an operator's own, served at /metrics with those of the plane."""

from __future__ import annotations

import asyncio

import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.declaring.controller import Controller, Reader
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.operator_metrics import CacheGauge, Count, counted_by
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.lease import LeaseSettings
from modelyard.runtime.process.manager import Manager
from tests.unit.runtime.greetings import GREETING, Greeting, GreetingsPlane, clock, controller, running

pytestmark = pytest.mark.looptime


def phase(greeting: Object) -> tuple[str]:
    return (str((greeting.get("status") or {}).get("phase") or "Pending"),)


def gauge(name: str = "greetings") -> CacheGauge:
    return CacheGauge(
        name,
        "Greetings by phase",
        ["phase"],
        "greetings",
        counted_by(GREETING.kind, phase),
        always=[("Done",), ("Failed",)],
    )


def greeter(said: Count) -> Controller:
    def reconcile(greeting: Greeting, world: World) -> Desired:
        said.add(greeting.spec.text)
        return Desired(status={"phase": "Done"})

    return controller(reconcile)


def lines(bench: GreetingsPlane, name: str) -> list[str]:
    text = bench.manager.metrics.text().decode()
    return [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]


async def test_a_gauge_shows_what_is_in_the_caches_when_it_is_read() -> None:
    said = Count("greetings_said", "Passes by text", ["text"])
    async with running(greeter(said), own_metrics=[gauge(), said]) as bench:
        assert lines(bench, "greetings") == ['greetings{phase="Done"} 0.0', 'greetings{phase="Failed"} 0.0']
        await bench.greet("one")
        await bench.greet("two")
        assert lines(bench, "greetings") == ['greetings{phase="Done"} 2.0', 'greetings{phase="Failed"} 0.0']
        await bench.user.delete(GREETING.kind, "shop", "one")
        await bench.manager.idle()
        assert lines(bench, "greetings")[0] == 'greetings{phase="Done"} 1.0'


async def test_a_counter_counts_and_stands_beside_the_planes_own() -> None:
    said = Count("greetings_said", "Passes by text", ["text"])
    async with running(greeter(said), own_metrics=[said]) as bench:
        said.add("by hand", amount=3)
        assert lines(bench, "greetings_said_total") == ['greetings_said_total{text="by hand"} 3.0']
        assert lines(bench, "controller_runtime_max_concurrent_reconciles") != []


async def test_only_the_leader_shows_gauges() -> None:
    lease = LeaseSettings("plane", "shop")
    made = greeter(Count("said", "Passes by text", ["text"]))
    async with running(made, own_metrics=[gauge()], lease=lease, identity="first") as leader:
        await leader.greet("one")
        standby = Manager(
            leader.server.client(), [made], lease=lease, identity="second", clock=clock, own_metrics=[gauge()]
        )
        async with standby:
            while standby.problems:
                await asyncio.sleep(0.1)
            assert [
                line for line in standby.metrics.text().decode().splitlines() if line.startswith("greetings{")
            ] == []
        assert lines(leader, "greetings")[0] == 'greetings{phase="Done"} 1.0'


async def test_a_gauge_that_fails_does_not_take_the_others_along(caplog: pytest.LogCaptureFixture) -> None:
    def broken(reader: Reader) -> dict[tuple[str, ...], float]:
        raise RuntimeError("no idea")

    bad = CacheGauge("broken", "Never there", [], "greetings", broken)
    async with running(greeter(Count("said", "Passes", ["text"])), own_metrics=[bad, gauge()]) as bench:
        assert len(lines(bench, "greetings")) == 2
        assert lines(bench, "broken") == []
    assert "metric broken could not be computed" in caplog.text


async def test_bad_declarations_are_refused() -> None:
    async with ApiServer() as server:
        made = controller(lambda greeting, world: Desired(), owns=[ConfigMap])
        with pytest.raises(ValueError, match="two operators declare the same metric: greetings"):
            Manager(server.client(), [made], own_metrics=[gauge(), gauge()])
        with pytest.raises(ValueError, match="an operator declares a metric that every process has"):
            Manager(server.client(), [made], own_metrics=[gauge("workqueue_depth")])
        with pytest.raises(ValueError, match="reads the caches of controller 'greetings', which does not run"):
            Manager(server.client(), [], own_metrics=[gauge()])


def test_a_counter_only_grows_and_knows_its_labels() -> None:
    count = Count("said_total", "Passes by text", ["text"])
    assert count.name == "said"
    with pytest.raises(ValueError, match="only grows"):
        count.add("x", amount=-1)
    with pytest.raises(ValueError, match="has the labels"):
        count.add()
