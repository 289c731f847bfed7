"""A bench for controllers of a made-up kind: a manager on the embedded API server, in virtual time, and a user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from modelyard.kube.builtin import ConfigMap, CustomResourceDefinition, Namespace
from modelyard.kube.client import Client
from modelyard.kube.conditions import find_condition
from modelyard.kube.crd import Definition, Model, Resource, Version, definition_of
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.transport import Transport
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.process.manager import Manager

START = datetime(2026, 1, 1, tzinfo=UTC)


def clock() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


class GreetingSpec(Model):
    text: str = "hello"
    size: int = 1


class GreetingStatus(Model):
    phase: str | None = None
    conditions: list[dict[str, str | int]] | None = None


class Greeting(Resource):
    spec: GreetingSpec = msgspec.field(default_factory=GreetingSpec)
    status: GreetingStatus = msgspec.field(default_factory=GreetingStatus)


GREETING = Definition("demo.dev", "Greeting", "greetings", [Version("v1", Greeting)])


def crd(kind: Kind) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": kind.group, "names": names, "scope": "Namespaced", "versions": [version]}
    metadata = {"name": kind.resource}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def obj(kind: Kind, name: str, **fields: Any) -> Object:
    metadata = {"name": name} | ({"namespace": "shop"} if kind.namespaced else {})
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata} | fields


def config(name: str = "c", **data: str) -> Object:
    return obj(ConfigMap, name, data=data)


class GreetingsPlane:
    """A server, a manager on it, and a user."""

    def __init__(self, server: ApiServer, manager: Manager) -> None:
        self.server = server
        self.manager = manager
        self.user: Client = server.client(agent="user")

    async def greet(self, name: str = "hi", **spec: Any) -> Object:
        made = await self.user.apply(
            GREETING.kind, obj(GREETING.kind, name, spec=spec), field_manager="user", force=True
        )
        await self.manager.idle()
        return made

    async def greeting(self, name: str = "hi") -> Object:
        return await self.user.get(GREETING.kind, "shop", name)

    async def condition(self, type: str, name: str = "hi") -> Object:
        found = find_condition((await self.greeting(name)).get("status", {}).get("conditions"), type)
        assert found is not None, await self.greeting(name)
        return found

    async def annotate(self, **annotations: str | None) -> None:
        named = {f"modelyard.dev/{name}": value for name, value in annotations.items()}
        await self.user.patch(GREETING.kind, "shop", "hi", {"metadata": {"annotations": named}})
        await self.manager.idle()


def controller(reconcile: Any, **settings: Any) -> Controller:
    settings.setdefault("owns", [ConfigMap])
    made = Controller(settings.pop("name", "greetings"), settings.pop("for_", GREETING), **settings)
    made.reconcile(reconcile)
    return made


@asynccontextmanager
async def running(
    *controllers: Controller, around: Callable[[Transport], Transport] = lambda inner: inner, **settings: Any
) -> AsyncIterator[GreetingsPlane]:
    """`around` puts something in the way of what the manager sends."""
    async with ApiServer(clock=clock) as server:
        admin = server.client(agent="user")
        await admin.create(CustomResourceDefinition, definition_of(GREETING))
        await admin.create(Namespace, {"metadata": {"name": "shop"}})
        await server.settle()
        client = Client(around(server.transport(agent="plane")))
        async with Manager(client, controllers, clock=clock, **settings) as manager:
            if "lease" not in settings:
                await manager.idle()
            yield GreetingsPlane(server, manager)
