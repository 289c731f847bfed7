"""What the scenarios of AppWrappers have in common: a ground with the operator at work, components, and the part of those who run pods."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.conditions import find_condition
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import conditions_of, is_deleting, status_of, uid_of
from modelyard.operators.codeflare.appwrapper.api import ANNOTATIONS, APPWRAPPER, LABEL, UID_LABEL
from modelyard.operators.codeflare.appwrapper.operator_parts import appwrapper_parts
from modelyard.operators.codeflare.config import CONFIG_MAP, Settings
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.operator import Operator
from tests.cluster import stories
from tests.cluster.stories import refused
from tests.ground import ApiGround

AW = APPWRAPPER.kind
NAME = "demo"
HOLD = "example.com/hold"
IMAGE = "quay.io/project-codeflare/busybox:1.36"


def pod_spec(**changes: Any) -> Object:
    container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", "sleep 1"]}
    return {"restartPolicy": "Never", "containers": [container], **changes}


def gpu_spec(amount: int = 1) -> Object:
    spec = pod_spec()
    spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": amount}}
    return spec


def template_of(kind: Kind, name: str, **body: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **body}


def pod(name: str = "pod", **spec: Any) -> Object:
    return {"template": template_of(builtin.Pod, name, spec=pod_spec(**spec))}


def deployment(name: str = "web", replicas: int = 2, **metadata: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels, **metadata}, "spec": pod_spec(restartPolicy="Always")}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"template": template_of(builtin.Deployment, name, spec=spec)}


def job(name: str = "job", parallelism: int = 1, completions: int | None = 1) -> Object:
    counts = {"parallelism": parallelism} | ({"completions": completions} if completions is not None else {})
    return {"template": template_of(builtin.Job, name, spec={**counts, "template": {"spec": pod_spec()}})}


def service(name: str = "svc") -> Object:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    return {"template": template_of(builtin.Service, name, spec=spec)}


def faults(**annotations: Any) -> dict[str, str]:
    return {f"{ANNOTATIONS}{name}": str(value) for name, value in annotations.items()}


@dataclass
class AppWrapperScene(stories.Scene):
    """A ground in which AppWrappers are worked on."""

    kind = AW
    usual_name = NAME
    definitions = (APPWRAPPER,)
    settings: Settings = field(default_factory=Settings)
    beside: Sequence[Controller] = ()
    """What else is at work there."""
    _names: Any = field(default_factory=lambda: itertools.count(1))

    async def start(self, *, hooks: bool = False, **section: Any) -> None:
        """Starts the operator with this section of its ConfigMap."""
        self.settings = Settings(namespace=self.namespace)
        text = yaml.safe_dump({"appwrapper": {"enabled": True, **section}})
        await self.ground.create(builtin.ConfigMap, CONFIG_MAP, data={"config.yaml": text})
        if hooks:
            assert isinstance(self.ground, ApiGround)
            self.ground.webhooks = self.operator.webhooks
        await self.resume()
        if hooks:
            assert isinstance(self.ground, ApiGround)
            await self.ground.serve_webhooks(self.operator)

    @property
    def operator(self) -> Operator:
        made = appwrapper_parts(self.settings)
        return Operator(
            "codeflare", "CodeFlare", controllers=made.controllers, webhooks=made.webhooks, metrics=made.metrics
        )

    async def resume(self) -> None:
        await self.ground.start([*self.operator.controllers, *self.beside])

    async def create(
        self,
        *components: Object,
        name: str = NAME,
        suspend: bool | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        body: dict[str, Any] = {"spec": {"components": list(components), **spec}}
        if suspend is not None:
            body["spec"]["suspend"] = suspend
        if annotations:
            body["annotations"] = dict(annotations)
        if labels:
            body["labels"] = dict(labels)
        return await self.ground.create(AW, name, **body)

    async def phase(self, phase: str, name: str = NAME) -> Object:
        """The AppWrapper, once it is in this phase."""
        return await self.ground.until(AW, name, lambda aw: status_of(aw).get("phase") == phase)

    async def running(self, *components: Object, **more: Any) -> Object:
        await self.create(*components, **more)
        return await self.phase("Running")

    async def states(self) -> dict[str, str]:
        """The conditions and their states, after all is quiet."""
        found = conditions_of(await self.ground.get(AW, NAME))
        return {one["type"]: one["status"] for one in found}

    async def hold(self, kind: Kind, name: str) -> None:
        """Someone else's finalizer keeps an object."""
        await self.ground.edit(kind, name, lambda obj: obj["metadata"].update(finalizers=[HOLD]))

    async def let_go(self, kind: Kind, name: str) -> None:
        """Nothing keeps it any more."""
        await self.ground.edit(kind, name, lambda obj: obj["metadata"].update(finalizers=[]))
        # In memory nobody takes an object away whose last finalizer went.
        found = await self.ground.find(kind, name)
        if found is not None and is_deleting(found) and not self.ground.fills_in:
            await self.ground.delete(kind, name)

    # The part of those who run pods

    async def pods_of(self, kind: Kind, owner: str, number: int, phase: str, **status: Any) -> list[str]:
        """Pods that a workload controller makes from its object's template."""
        object = await self.ground.find(kind, owner)
        assert object is not None, f"there is no {kind.kind} {owner}"
        template = object["spec"]["template"]
        reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": owner, "uid": uid_of(object)}
        names = []
        for _ in range(number):
            name = f"{owner}-{next(self._names)}"
            await self.ground.create(
                builtin.Pod,
                name,
                labels=template["metadata"]["labels"],
                ownerReferences=[{**reference, "controller": True}],
                spec=template["spec"],
            )
            await self.report(name, phase, **status)
            names.append(name)
        return names

    async def report(self, name: str, phase: str, **status: Any) -> None:
        """The kubelet says how a pod is."""
        await self.ground.set_status(builtin.Pod, name, {"phase": phase, **status})

    async def stranger(self, name: str, **labels: str) -> None:
        await self.ground.create(builtin.Pod, name, labels=labels, spec=pod_spec())


def component_state(appwrapper: Object, index: int = 0) -> Object:
    entry = status_of(appwrapper)["componentStatus"][index]
    return find_condition(entry.get("conditions"), "ResourcesDeployed") or {}


Scenario = Callable[[AppWrapperScene], Awaitable[None]]
Book = stories.Book[AppWrapperScene]
__all__ = [
    "AW",
    "HOLD",
    "IMAGE",
    "LABEL",
    "NAME",
    "UID_LABEL",
    "AppWrapperScene",
    "Book",
    "Scenario",
    "component_state",
    "deployment",
    "faults",
    "gpu_spec",
    "job",
    "pod",
    "pod_spec",
    "refused",
    "service",
    "template_of",
]
