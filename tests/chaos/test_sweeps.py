"""The sweeps find what they are for: each of these operators has one fault, and its story must fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from greetings_operator import controller as demo
from greetings_operator.api import GREETING, Greeting, GreetingStatus
from greetings_operator.config import Settings
from modelyard.kube.builtin import Service
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import key_of
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired, Hold, Live
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.services import Services
from modelyard.runtime.declaring.world import World
from tests.chaos import sweeps
from tests.chaos.demo_story import GREETINGS, LIFE, OTHER
from tests.chaos.subject import DATA


def changed(change: Callable[[Desired, World], Desired]) -> sweeps.SweptScenario:
    """The demo's story, with a change to all that its reconcile asks for."""

    def reconcile(greeting: Greeting, world: World) -> Desired | Hold:
        asked = demo.reconcile_greeting(greeting, world, Settings())
        return change(asked, world) if isinstance(asked, Desired) else asked

    def controllers() -> list[Controller]:
        made = demo.greetings()
        made.reconcile(reconcile)
        return [made]

    return replace(LIFE, controllers=controllers)


def test_a_status_about_an_older_generation_is_found() -> None:
    def first_generation(greeting: Greeting, live: Live) -> GreetingStatus:
        status = demo.status(greeting, live)
        status.observed_generation = 1
        return status

    with pytest.raises(AssertionError, match="older generation"):
        sweeps.baseline(changed(lambda asked, world: replace(asked, status=first_generation)))


def test_a_child_that_is_not_repaired_is_found() -> None:
    def made_and_forgotten(asked: Desired, world: World) -> Desired:
        there = [(Service, key_of(service)) for service in world.owned(Service)]
        asked_for = [
            child for child in asked.children if not isinstance(child, dict) or (Service, key_of(child)) not in there
        ]
        return replace(asked, children=asked_for, keep=there)

    with pytest.raises(AssertionError, match="Service shop/hi ends as"):
        sweeps.children_deleted_or_stomped(changed(made_and_forgotten), DATA)


def test_a_mask_that_hides_nothing_is_found() -> None:
    with pytest.raises(AssertionError, match="hide nothing"):
        sweeps.baseline(replace(LIFE, masked={("Deployment hi", "nowhere"): "there is no such field"}))


class Mesh:
    """A service beyond the API in which greetings are registered."""

    def __init__(self) -> None:
        self.registered: list[str] = []

    def state(self) -> Object:
        return {"registered": sorted(self.registered)}

    async def register(self, name: str, *, once: bool) -> None:
        if not (once and name in self.registered):
            self.registered.append(name)

    async def remove(self, name: str) -> None:
        self.registered.remove(name)


def meshed(*, once: bool) -> sweeps.SweptScenario:
    """An operator that registers greetings in the mesh: each once, or again whenever it looks."""

    def operator(environ: Mapping[str, str], services: Services) -> Operator:
        mesh = services.use("mesh", Mesh)
        controller = Controller("meshed", GREETING)

        @controller.reconcile
        async def reconcile(greeting: Greeting, world: World) -> Desired:
            await world.call(lambda: mesh.register(greeting.name, once=once), timeout=5.0)
            return Desired()

        @controller.gone
        async def gone(key: Key, world: World) -> None:
            if key.name in mesh.registered:
                await world.call(lambda: mesh.remove(key.name), timeout=5.0)

        return Operator("meshed", "Meshed", "none", [controller], definitions=[GREETING])

    subject = replace(GREETINGS, operator=operator, foreign=(), generated=(), services=lambda: {"mesh": Mesh()})
    return subject.story("greetings in a mesh", subject.made(), OTHER.made(), OTHER.deleted)


def test_what_an_operator_does_beyond_the_api_is_compared_too() -> None:
    ending = sweeps.baseline(meshed(once=True)).ending
    assert ending["service", Key("", "mesh")] == {"registered": ["hi"]}
    sweeps.lose_every_event(meshed(once=True))
    sweeps.two_planes_one_lease(meshed(once=True))


def test_a_service_that_is_told_twice_after_a_restart_is_found() -> None:
    with pytest.raises(AssertionError, match="service mesh ends as"):
        sweeps.two_planes_one_lease(meshed(once=False))
