"""What scenarios of all operators have in common: a book of them by number, and short names for what they look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pytest

from modelyard.kube.builtin import SubjectAccessReview
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Forbidden, Invalid
from modelyard.kube.kinds import Object

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
