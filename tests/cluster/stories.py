"""What scenarios of all operators have in common: a book of them by number, the scene where they play, and short names for
what they look at. An operator's own scene says how it is started and what a valid resource is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

import pytest

from modelyard.kube.builtin import SubjectAccessReview
from modelyard.kube.client import Client
from modelyard.kube.crd import Definition
from modelyard.kube.errors import ApiError, Forbidden, Invalid
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import metadata_of, spec_of, status_of
from tests.cluster.conftest import Api
from tests.ground import ApiGround, Ground, MemoryGround

S = TypeVar("S")


@dataclass
class Book(Generic[S]):
    """The scenarios of one chapter, by number."""

    scenarios: dict[int, Callable[[S], Awaitable[None]]] = field(default_factory=dict)
    needs_api: set[int] = field(default_factory=set)
    """Those that a cluster in memory cannot play: they are about admission or garbage collection."""

    def scenario(
        self, number: int, *, needs_api: bool = False
    ) -> Callable[[Callable[[S], Awaitable[None]]], Callable[[S], Awaitable[None]]]:
        def register(function: Callable[[S], Awaitable[None]]) -> Callable[[S], Awaitable[None]]:
            assert number not in self.scenarios, f"scenario {number} is there twice"
            self.scenarios[number] = function
            if needs_api:
                self.needs_api.add(number)
            return function

        return register


@dataclass
class Scene:
    """A ground in which an operator is at work. Where no name is given, it is the resource with the usual name."""

    kind: ClassVar[Kind]
    usual_name: ClassVar[str]
    definitions: ClassVar[Sequence[Definition]] = ()

    ground: Ground

    @classmethod
    def in_memory(cls) -> Self:
        return cls(MemoryGround(cls.definitions))

    @classmethod
    @asynccontextmanager
    async def on(cls, api: Api, namespace: str) -> AsyncIterator[Self]:
        """On an API server, in a new namespace whose name begins like this."""
        ground = ApiGround(api.client, await api.namespace(namespace), api.as_user)
        await ground.install(cls.definitions)
        scene = cls(ground)
        yield scene
        await scene.close()
        await ground.stop()

    async def close(self) -> None:
        """Takes away what would stand in the way of the next test, while someone is there to finish it."""

    @property
    def namespace(self) -> str:
        return self.ground.namespace

    async def edit(self, name: str = "", /, **spec: Any) -> None:
        """Changes fields of the spec; None removes one."""

        def change(resource: Object) -> None:
            fields = spec_of(resource)
            fields.update({field_name: value for field_name, value in spec.items() if value is not None})
            for field_name in [field_name for field_name, value in spec.items() if value is None]:
                fields.pop(field_name, None)

        await self.ground.edit(self.kind, name or self.usual_name, change)

    async def annotate(self, annotation: str, value: str = "true", *, name: str = "") -> None:
        def change(resource: Object) -> None:
            metadata_of(resource).setdefault("annotations", {})[annotation] = value

        await self.ground.edit(self.kind, name or self.usual_name, change)

    async def condition(self, type: str, name: str = "", **expected: Any) -> Object:
        """The condition, once its fields are as expected."""
        return await self.ground.condition(self.kind, name or self.usual_name, type, **expected)

    async def resource(self, name: str = "") -> Object:
        return await self.ground.get(self.kind, name or self.usual_name)

    async def status(self, name: str = "") -> Object:
        return status_of(await self.resource(name))


@dataclass(frozen=True)
class Server:
    """A Deployment, or the pod template of a CronJob or Job, with its parts by name."""

    object: Object
    container_name: str = ""

    @property
    def spec(self) -> Object:
        spec: Object = self.object["spec"]
        return spec

    @property
    def template(self) -> Object:
        spec = self.spec
        if "jobTemplate" in spec:
            spec = spec["jobTemplate"]["spec"]
        template: Object = spec["template"]
        return template

    @property
    def pod(self) -> Object:
        pod: Object = self.template["spec"]
        return pod

    @property
    def containers(self) -> list[str]:
        return [container["name"] for container in self.pod["containers"]]

    @property
    def container(self) -> Object:
        return named(self.pod["containers"], self.container_name)

    @property
    def args(self) -> list[str]:
        args: list[str] = self.container.get("args", [])
        return args

    @property
    def env(self) -> dict[str, Any]:
        """Variables by name: a text, or where it comes from. Each name is there once."""
        variables = self.container.get("env") or []
        names = [variable["name"] for variable in variables]
        assert len(names) == len(set(names)), f"a variable is there twice: {names}"
        return {v["name"]: v.get("valueFrom") or v.get("value", "") for v in variables}

    @property
    def volumes(self) -> dict[str, Object]:
        return {volume["name"]: volume for volume in self.pod.get("volumes") or ()}

    @property
    def mounts(self) -> dict[str, Object]:
        return {mount["mountPath"]: mount for mount in self.container.get("volumeMounts") or ()}


def named(items: list[Object], name: str) -> Object:
    return next(item for item in items if item["name"] == name)


async def refused(attempt: Awaitable[Any], *messages: str) -> None:
    """The API or a webhook refuses this with these messages."""
    with pytest.raises(ApiError) as refusal:
        await attempt
    assert isinstance(refusal.value, Invalid | Forbidden), refusal.value
    for message in messages:
        assert message in refusal.value.message


async def may_get(
    client: Client, namespace: str, user: str, service: str, groups: tuple[str, ...] = ("system:authenticated",)
) -> bool:
    """What a kube-rbac-proxy asks before it lets someone in."""
    asked = {"verb": "get", "version": "v1", "resource": "services", "namespace": namespace, "name": service}
    spec: Object = {"user": user, "groups": list(groups), "resourceAttributes": asked}
    review = await client.create(SubjectAccessReview, {"spec": spec})
    return bool(review["status"]["allowed"])
