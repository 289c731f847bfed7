"""Which resources an event about another object wakes, and what is decoded to find them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from modelyard.kube.builtin import Secret
from modelyard.kube.kinds import Object
from modelyard.operators.parts.mappings import readers, users
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.declaring.controller import Watch
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.world import World
from tests.unit.runtime.greetings import GREETING, Greeting, controller, obj, running

pytestmark = pytest.mark.looptime


async def test_a_secret_decodes_its_users_and_no_other_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def names(greeting: Object) -> list[str]:
        looked_at.append(greeting["metadata"]["name"])
        return [greeting["spec"]["text"]]

    index = readers(GREETING.kind, names)
    passes: list[str] = []

    def reconcile(resource: Greeting, world: World) -> Desired:
        passes.append(resource.name)
        return Desired()

    made = controller(reconcile, owns=[], watches=[Watch(Secret, to=users(index, all_use=("ca",)))], indexes=[index])
    async with running(made) as bench:
        for number in range(20):
            await bench.greet(f"g{number}", text="one" if number in (3, 7) else "two")
        await bench.user.create(Secret, obj(Secret, "first"))
        await bench.manager.idle()
        looked_at.clear()
        passes.clear()
        decoded: list[str] = []

        def counted(entry: Entry) -> Object:
            found: Object = msgspec.json.decode(entry.raw)
            decoded.append(f"{found['kind']} {entry.key.name}")
            return found

        monkeypatch.setattr(Entry, "object", property(counted))
        await bench.user.create(Secret, obj(Secret, "one"))
        await bench.manager.idle()
        assert sorted(passes) == ["g3", "g7"]
        assert not looked_at
        assert {name for name in decoded if name.startswith("Greeting")} == {"Greeting g3", "Greeting g7"}
        passes.clear()
        await bench.user.create(Secret, obj(Secret, "ca"))
        await bench.manager.idle()
        assert len(passes) == 20


async def test_a_namesake_in_another_namespace_wakes_nobody() -> None:
    index = readers(GREETING.kind, lambda greeting: [greeting["spec"]["text"]])
    passes: list[str] = []

    def reconcile(resource: Greeting, world: World) -> Desired:
        passes.append("pass")
        return Desired()

    made = controller(reconcile, owns=[], watches=[Watch(Secret, to=users(index))], indexes=[index])
    async with running(made) as bench:
        await bench.greet(text="one")
        passes.clear()
        elsewhere = obj(Secret, "one")
        elsewhere["metadata"]["namespace"] = "default"
        await bench.user.create(Secret, elsewhere)
        await asyncio.sleep(10)
        assert not passes
