"""Every field of a spec, changed one at a time from a settled state. What to change is read from the CRD's schema.

The cluster must end as if the resource had been created that way, and as before when the change is taken back; or the
change is refused by the API, or by the status, with a message that names the field.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any

from modelyard.kube.client import Client
from modelyard.kube.conditions import find_condition
from modelyard.kube.crd import Definition, definition_of
from modelyard.kube.errors import ApiError
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import conditions_of, spec_of
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.testing import FakeWorld
from modelyard.runtime.testing.kit import FakeAccessReviews
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from modelyard.runtime.webhooks.declarations import Operation
from tests.chaos.amount import FULL
from tests.chaos.subject import among_all
from tests.chaos.sweeps import Snapshot, Stage, SweptScenario, clock, ground, prepare, virtually

_TEXTS = ("sample", "5m", "30d", "0 3 * * *", "Sample", "1.5h", "http://sample", "a=b")
_GENERATION = re.compile(r"generation \d+")


@dataclass(frozen=True)
class Change:
    """One field with another value: `value` is that of the whole top-level field around it."""

    path: str
    top: str
    value: Any

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class FieldSweep:
    """What is swept: a settled resource, and what only people know about its fields."""

    story: SweptScenario
    definition: Definition
    key: Key
    spec: Object
    """Of the settled resource."""
    texts: Mapping[str, Any] = field(default_factory=dict)
    """Values for fields whose schema does not say what makes sense, by path."""
    lasting: Mapping[str, str] = field(default_factory=dict)
    """Paths where an existing child stays as it is (a volume cannot be changed), and the condition's reason that says so."""
    refusals: Sequence[str] = ("ApplyFailed",)
    """Reasons with which the status refuses a spec."""
    condition: str = "Available"
    """The condition that carries them."""
    refused_for_good: bool = False
    """What its status refuses stays refused: such a change is not taken back."""
    webhooks: Sequence[Webhook] = ()
    """They are asked about each change; whoever makes it has all rights."""
    reopened: Sequence[tuple[str, Any]] = ()
    """Fields that are set one after the other once all has settled, so that a change takes effect."""
    of_their_time: frozenset[str] = frozenset()
    """Conditions about something that was done for an older generation, and whose generation is not compared."""

    @property
    def _schema(self) -> Object:
        versions = definition_of(self.definition)["spec"]["versions"]
        stored = next(version for version in versions if version["storage"])
        schema: Object = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
        return schema

    def leaves(self) -> list[str]:
        """The paths of all plain values that the schema has."""
        return [path for top, part in self._schema["properties"].items() for path in _leaves(part, top)]

    def changes(self) -> list[Change]:
        return [
            Change(path, top, value)
            for top, part in self._schema["properties"].items()
            for path, value in self._values(part, self.spec.get(top), top)
            if value != self.spec.get(top)
        ]

    def _values(self, schema: Object, base: Any, path: str) -> Iterator[tuple[str, Any]]:
        """The field itself and every field below it, each with another value, the rest as it is or as little as possible."""
        if path in self.texts:
            yield path, self.texts[path]
            return
        if properties := schema.get("properties"):
            least = base if isinstance(base, dict) else self._least(schema, path)
            yield path, least
            for name, part in properties.items():
                for below, value in self._values(part, least.get(name), f"{path}.{name}"):
                    yield below, {**least, name: value}
        elif isinstance(more := schema.get("additionalProperties"), dict):
            for below, value in self._values(more, None, f"{path}.*"):
                yield below, {**(base or {}), "sample": value}
        elif schema.get("type") == "array":
            first, *others = base or [None]
            for below, value in self._values(schema["items"], first, f"{path}[]"):
                yield below, [value, *others]
        else:
            yield path, self._another(schema, base)

    def _least(self, schema: Object, path: str) -> Object:
        """An object with only what it must have."""
        made: Object = {}
        for name in schema.get("required", ()):
            made[name] = next(value for _, value in self._values(schema["properties"][name], None, f"{path}.{name}"))
        return made

    def _another(self, schema: Object, base: Any) -> Any:
        """A plain value that the schema allows and that is not the present one."""
        if "enum" in schema:
            return next(value for value in schema["enum"] if value != base)
        if schema.get("x-kubernetes-int-or-string"):
            return "3Gi" if "pattern" in schema else 8080
        match schema.get("type"):
            case "boolean":
                return not base
            case "integer":
                return max(schema.get("minimum", 1), (base or 0) + 1)
            case _:
                pattern, low = schema.get("pattern", ""), schema.get("minLength", 0)
                fitting = (text for text in _TEXTS if re.search(pattern, text) and len(text) >= low and text != base)
                return next(fitting)

    def run(self, *, sample: int = 40) -> None:
        """All changes where the story is swept in full, else an even sample; a smaller one among all operators."""
        changes = self.changes()
        few = sample // (5 if FULL else 10)
        most = len(changes) if self.story.every_point else few if self.story.sampled else sample
        step = max(1, len(changes) // most)
        virtually(self._run(changes[::step]))

    def among_all(self) -> FieldSweep:
        """The same sweep with all operators loaded."""
        return replace(self, story=among_all(self.story))

    async def _run(self, changes: Sequence[Change]) -> None:
        left, problems = list(reversed(changes)), []
        while left:
            async with _Ground(self.story, self.of_their_time) as place:
                await self._create(place.client, self.spec)
                settled = await self._settled(place)
                try:
                    while left and await self._check(place, settled, left.pop()):
                        pass
                except AssertionError as problem:
                    problems.append(str(problem))  # What this one has left behind is not a ground for the next.
        assert not problems, f"{len(problems)} of {len(changes)} fields:\n" + "\n".join(problems)

    async def _check(self, place: _Ground, settled: Snapshot, change: Change) -> bool:
        """Gives whether the ground is as it was, and good for the next change."""
        before, refusal = await self._put(place.client, change.top, change.value)
        if refusal:
            assert _names(refusal, change), f"{change}: the API's refusal does not name it: {refusal}"
            return True
        changed = await self._settled(place)
        refused = self._refusal(await place.client.get(self.definition.kind, *self.key))
        if refused is not None:
            assert _names(refused, change), f"{change}: the status does not name it: {refused}"
            if self.refused_for_good:
                return False
        elif change.path in self.lasting:
            resource = await place.client.get(self.definition.kind, *self.key)
            said = {condition["reason"] for condition in conditions_of(resource)}
            assert self.lasting[change.path] in said, f"{change}: nothing says that it is not done: {said}"
        else:
            _same(changed, await self._created_with(change), f"{change}: it does not end as if created that way")
        _, refusal = await self._put(place.client, change.top, before)
        assert not refusal, f"{change}: it cannot be taken back: {refusal}"
        _same(await self._settled(place), settled, f"{change}: it does not go back")
        return True

    async def _settled(self, place: _Ground) -> Snapshot:
        """How all is when it has come to rest, and if asked, been set in motion once more."""
        found = await place.rest()
        for top, value in self.reopened:
            _, refusal = await self._put(place.client, top, value)
            assert not refusal, f"{top}: {refusal}"
            found = await place.rest()
        return found

    async def _created_with(self, change: Change) -> Snapshot:
        async with _Ground(self.story, self.of_their_time) as place:
            await self._create(place.client, {**self.spec, change.top: change.value})
            return await self._settled(place)

    async def _create(self, client: Client, spec: Object) -> None:
        kind = self.definition.kind
        metadata = {"name": self.key.name, **({"namespace": self.key.namespace} if kind.namespaced else {})}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": copy.deepcopy(spec)}
        assert not (refusal := await self._denied("CREATE", body)), refusal
        await client.create(kind, body)

    async def _denied(self, operation: Operation, obj: Object, old: Object | None = None) -> str:
        """Why a webhook refuses it."""
        access = FakeAccessReviews(lambda asked: True)
        for webhook in self.webhooks:
            request = AdmissionRequest(
                operation,
                copy.deepcopy(obj),
                copy.deepcopy(old),
                self.definition.kind,
                *self.key,
                reader=FakeWorld(),
                access=access,
            )
            answer = webhook.handler(request)
            if isinstance(found := await answer if isawaitable(answer) else answer, Denied):
                return found.message
        return ""

    async def _put(self, client: Client, top: str, value: Any) -> tuple[Any, str]:
        """Sets a field of the spec, or removes it (None); gives what it was, and why the API refused."""
        kind = self.definition.kind
        old = await client.get(kind, *self.key)
        before = spec_of(old).get(top)
        step: Object = {"op": "remove", "path": f"/spec/{top}"}
        if value is not None:
            step = {"op": "add", "path": f"/spec/{top}", "value": value}
        spec = {name: part for name, part in {**spec_of(old), top: value}.items() if part is not None}
        if refusal := await self._denied("UPDATE", {**old, "spec": spec}, old):
            return before, refusal
        try:
            await client.patch(kind, *self.key, [step], type="json")
        except ApiError as error:
            return before, error.message
        return before, ""

    def _refusal(self, resource: Object) -> str | None:
        found = find_condition(conditions_of(resource), self.condition) or {}
        return str(found.get("message")) if found.get("reason") in self.refusals else None


class _Ground:
    """A server with the operator and the rest of the cluster at work."""

    def __init__(self, story: SweptScenario, of_their_time: frozenset[str]) -> None:
        self._story = story
        self._of_their_time = of_their_time
        self._server = ApiServer(clock=clock)

    async def __aenter__(self) -> _Ground:
        await self._server.__aenter__()
        self._stage = Stage(self._story, self._server, self._server.client(agent="user"))
        await prepare(self._stage)
        self._rest = Manager(self._server.client(agent="ground"), ground(self._story), clock=clock)
        self._rest.start()
        self._stage.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        for manager in (*self._stage.managers, self._rest):
            await manager.stop(grace=0.0)
        await self._server.__aexit__(None, None, None)

    @property
    def client(self) -> Client:
        return self._stage.client

    async def rest(self) -> Snapshot:
        """How the cluster is when it no longer changes, though something may be tried again and again."""
        last: Snapshot | None = None
        for _ in range(50):
            await asyncio.sleep(15.0)
            now = {at: _comparable(obj, self._of_their_time) for at, obj in (await self._stage.snapshot()).items()}
            if now == last:
                return now
            last = now
        raise AssertionError("the cluster does not come to rest")


def _leaves(schema: Object, path: str) -> Iterator[str]:
    if properties := schema.get("properties"):
        for name, part in properties.items():
            yield from _leaves(part, f"{path}.{name}")
    elif isinstance(more := schema.get("additionalProperties"), dict):
        yield from _leaves(more, f"{path}.*")
    elif schema.get("type") == "array":
        yield from _leaves(schema["items"], f"{path}[]")
    else:
        yield path


def _comparable(value: Any, of_their_time: frozenset[str]) -> Any:
    """Without the numbers of generations, and without empty parts: to Kubernetes an empty object is as good as none."""
    if isinstance(value, dict):
        parts = {name: _comparable(part, of_their_time) for name, part in value.items()}
        if value.get("type") in of_their_time:
            parts.pop("observedGeneration", None)
        return {name: part for name, part in parts.items() if part not in ({}, [])}
    if isinstance(value, list):
        return [_comparable(part, of_their_time) for part in value]
    return _GENERATION.sub("generation N", value) if isinstance(value, str) else value


def _names(message: str, change: Change) -> bool:
    """Does it say which field it is about? A word as common as `name`, `key` or `type` is not an answer."""
    words = re.split(r"[.\[\]*]+", change.path)
    return any(word in message for word in words if len(word) > len("value"))


def _same(got: Snapshot, wanted: Snapshot, what: str) -> None:
    for place in sorted({*got, *wanted}):
        found = list(_differences(got.get(place), wanted.get(place)))
        assert not found, f"{what}: {place[0]} {place[1]}: {'; '.join(found[:5])}"


def _differences(got: Any, wanted: Any, path: str = "") -> Iterator[str]:
    if isinstance(got, dict) and isinstance(wanted, dict):
        for name in sorted(got.keys() | wanted.keys()):
            yield from _differences(got.get(name), wanted.get(name), f"{path}.{name}")
    elif isinstance(got, list) and isinstance(wanted, list) and len(got) == len(wanted):
        for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif got != wanted:
        yield f"{path} is {got!r}, not {wanted!r}"
