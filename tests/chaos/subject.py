"""An operator under test, by declaration: from it come its stories, alone and among all operators, and every sweep over them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from greetings_operator.operator import operator as demo_operator
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import is_deleting
from modelyard.operators.registry import BUILT, build, load
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.operator import BuildOperator, Operator
from modelyard.runtime.declaring.services import Services
from tests.chaos.sweeps import Fake, Step, SweptScenario

DATA = (builtin.Secret, builtin.PersistentVolumeClaim)
"""Kinds whose children hold data: nobody gets them back when they are deleted."""


@dataclass(frozen=True)
class Subject:
    """What the sweeps have to know of an operator; all else is read from its declarations."""

    operator: BuildOperator
    """The function of its entry point."""
    kind: Kind | None = None
    """The custom resource; an operator that runs without one needs stories with steps of their own."""
    key: Key = field(default_factory=lambda: Key("", ""))
    spec: Object = field(default_factory=dict)
    """A valid spec, as small as it can be; each `made` starts with it."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Its settings."""
    served: Sequence[Kind] = ()
    """Kinds of others that the API serves."""
    setup: Sequence[tuple[Kind, Object]] = ()
    """What is there before it: namespaces, and what the outside world would have made."""
    foreign: Sequence[tuple[Kind, Object]] = ()
    """What it must not touch; best with names and labels like those of its children."""
    generated: Sequence[str] = ()
    masked: Mapping[tuple[str, str], str] = field(default_factory=dict)
    passing: Sequence[Kind] = ()
    outside: Callable[[], Sequence[Controller]] = list
    """Controllers that play the rest of the cluster."""
    services: Callable[[], Mapping[str, Fake]] = dict
    """Fakes of the services beyond the API that the operator asks for."""

    def made(self, **spec: Any) -> Step:
        """The resource is as given here on top of the valid spec, and nothing else. None leaves a field out."""
        kind, full = self.kind, {**self.spec, **spec}
        assert kind is not None, "this operator has no resource"
        place = {"name": self.key.name} | ({"namespace": self.key.namespace} if kind.namespaced else {})
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": place}
        body["spec"] = {name: value for name, value in full.items() if value is not None}

        async def step(client: Client) -> None:
            # As after `kubectl delete`, which waits: what is written to a resource that is on its way out goes with it.
            while (there := await client.find(kind, *self.key)) is not None and is_deleting(there):
                await asyncio.sleep(1.0)
            await client.apply(kind, copy.deepcopy(body), field_manager="user", force=True)

        return step

    async def deleted(self, client: Client) -> None:
        assert self.kind is not None
        await client.delete(self.kind, *self.key)

    def story(self, name: str, *steps: Step, **changes: Any) -> SweptScenario:
        """With the operator alone. Without steps: the resource is made, deleted, and made again."""
        operator = self._built(Services(**self.services()))
        told = SweptScenario(
            name=name,
            controllers=lambda: list(self._built(Services(**self.services())).controllers),
            fakes=self.services,
            operator=self._built if self.services().keys() else None,
            definitions=operator.definitions,
            steps=steps or (self.made(), self.deleted, self.made()),
            served=self.served,
            setup=self.setup,
            foreign=self.foreign,
            generated=self.generated,
            masked=self.masked,
            passing=self.passing,
            ground=self.outside,
        )
        return replace(told, **changes)

    def _built(self, services: Services) -> Operator:
        made = build(self.operator, self.environ, services)
        assert isinstance(made, Operator)
        return made


def among_all(story: SweptScenario) -> SweptScenario:
    """The same story with all operators loaded: it must end as it does alone. The others have their default settings."""
    own = {controller.name for controller in story.controllers()}
    kinds = {kind for controller in story.controllers() for kind in controller.kinds}

    def others() -> list[Controller]:
        """But for those with work on the very same resources: that would be another story."""
        loaded = [one for operator in _operators() for one in operator.controllers]
        return [one for one in loaded if one.name not in own and not kinds & set(one.kinds)]

    known = {definition.kind for definition in story.definitions}
    more = [one for operator in _operators() for one in operator.definitions if one.kind not in known]
    name = f"{story.name}, among all operators"
    return replace(story, name=name, others=others, definitions=[*story.definitions, *more], sampled=True)


def _operators() -> list[Operator]:
    return [*load(BUILT, {}), demo_operator({})]
