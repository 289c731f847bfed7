"""A whole operator in a plane: what it reaches beyond the API is given when it is built, lives with the plane, and wakes keys."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

import pytest

from modelyard.cli.plane import Plane, PlaneOptions
from modelyard.kube.builtin import ConfigMap
from modelyard.kube.kinds import Key
from modelyard.local.apiserver import ApiServer
from modelyard.operators.registry import BadOperator, load
from modelyard.runtime.declaring.background import Background, Backstage
from modelyard.runtime.declaring.controller import Controller, Fixed, Trigger
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.services import Services
from modelyard.runtime.declaring.world import World

HERE = "tests.unit.cli.test_plane"
KEY = Key("default", "models")


class Mesh(Protocol):
    """Something beyond the API that holds models."""

    def models(self) -> list[str]: ...

    async def next_change(self) -> None: ...


class RemoteMesh:
    def models(self) -> list[str]:
        raise ConnectionError("a test has no mesh")

    async def next_change(self) -> None:
        raise ConnectionError("a test has no mesh")


class FakeMesh:
    def __init__(self) -> None:
        self.held = ["a"]
        self._changed = asyncio.Event()
        self.followed = False

    def models(self) -> list[str]:
        return list(self.held)

    async def next_change(self) -> None:
        self.followed = True
        try:
            await self._changed.wait()
        finally:
            self.followed = False
        self._changed.clear()

    def load(self, model: str) -> None:
        self.held.append(model)
        self._changed.set()


def operator(environ: Mapping[str, str], services: Services) -> Operator:
    """Writes the models of the mesh into a ConfigMap."""
    mesh: Mesh = services.use("mesh", RemoteMesh)
    changed = Trigger()
    models = Controller("models", Fixed((KEY,)), owns=[ConfigMap], triggers=[changed])

    @models.reconcile
    def reconcile(key: Key, world: World) -> Desired:
        data = {"models": " ".join(mesh.models())}
        return Desired([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": key._asdict(), "data": data}])

    async def follow(plane: Backstage) -> None:
        while True:
            await mesh.next_change()
            changed.fire(KEY)

    return Operator("mesh", "Mesh", controllers=[models], background=[Background("mesh", follow)])


async def test_a_test_gives_a_fake_of_what_is_outside_and_its_events_reach_the_cluster() -> None:
    mesh = FakeMesh()
    built = load([f"{HERE}:operator"], {}, Services(mesh=mesh))
    async with ApiServer() as server:
        client = server.client()
        async with Plane(server.client(), built, PlaneOptions(health=None)) as plane:
            await plane.wait_ready()
            await plane.manager.idle()
            assert (await client.get(ConfigMap, *KEY))["data"] == {"models": "a"}
            assert mesh.followed
            mesh.load("b")
            async with asyncio.timeout(10):
                while (await client.get(ConfigMap, *KEY))["data"] != {"models": "a b"}:
                    await plane.manager.idle()
        assert not mesh.followed


def test_without_a_fake_an_operator_gets_the_real_thing() -> None:
    services = Services()
    assert isinstance(services.use("mesh", RemoteMesh), RemoteMesh)


def test_a_fake_that_nobody_asks_for_is_told() -> None:
    with pytest.raises(BadOperator, match="no operator uses the service mehs; they use: mesh"):
        load([f"{HERE}:operator"], {}, Services(mesh=FakeMesh(), mehs=FakeMesh()))


def test_an_operator_that_reaches_nothing_outside_takes_the_environment_only() -> None:
    (built,) = load(["mlflow"], {})
    assert built.name == "mlflow"
