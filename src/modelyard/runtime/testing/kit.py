"""One pass, or passes until nothing changes, over a cluster in memory; and fakes for what a reconcile is given."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from modelyard.kube.conditions import find_condition
from modelyard.kube.crd import Definition, Model
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, metadata_of, status_of
from modelyard.kube.workload_status import replicas_status
from modelyard.runtime.acting.cluster import declared_kinds
from modelyard.runtime.acting.memory import Memory, merged
from modelyard.runtime.acting.ownership import Owner
from modelyard.runtime.acting.passes import Pass, PassResult
from modelyard.runtime.acting.plan import face_for
from modelyard.runtime.declaring.controller import Controller, Index
from modelyard.runtime.declaring.desired import Desired, EventNote, Failure, Hold, Live
from modelyard.runtime.declaring.world import T
from modelyard.runtime.testing.inmemory import NOW, MemoryCluster
from modelyard.runtime.webhooks.access_review import NotAsked, User

_SYSTEM_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


class Children(Mapping[tuple[Kind, Key], Object]):
    """Objects by kind and name: `children[Deployment, "demo"]`, or with a namespace `children[Deployment, "shop", "demo"]`."""

    def __init__(self, objects: Mapping[tuple[Kind, Key], Object]) -> None:
        self._objects = {place: without_system_fields(obj) for place, obj in objects.items()}

    def __getitem__(self, place: tuple[Kind, Key] | tuple[Kind, str] | tuple[Kind, str, str]) -> Object:
        found = self._find(place)
        if found is None:
            there = ", ".join(f"{kind.kind} {key}" for kind, key in self._objects) or "nothing"
            raise KeyError(f"no {place[0].kind} {'/'.join(map(str, place[1:]))}; there is {there}")
        return found

    def _find(self, place: Any) -> Object | None:
        kind, *names = place
        if len(names) == 2:
            return self._objects.get((kind, Key(*names)))
        if isinstance(names[0], Key):
            return self._objects.get((kind, names[0]))
        found = [obj for (k, key), obj in self._objects.items() if k == kind and key.name == names[0]]
        if len(found) > 1:
            raise KeyError(f"{kind.kind} {names[0]} is in several namespaces; say which")
        return found[0] if found else None

    def __contains__(self, place: object) -> bool:
        return isinstance(place, tuple) and self._find(place) is not None

    def __iter__(self) -> Iterator[tuple[Kind, Key]]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def of(self, kind: Kind) -> list[Object]:
        return [obj for (k, _), obj in self._objects.items() if k == kind]

    def names(self, kind: Kind | None = None) -> list[str]:
        """The names of one kind, sorted; or of all, as `Kind name`."""
        if kind is not None:
            return sorted(key.name for k, key in self._objects if k == kind)
        return sorted(f"{k.kind} {key.name}" for k, key in self._objects)


@dataclass(frozen=True)
class RunOutcome:
    """What one pass would have done."""

    result: PassResult
    children: Children
    """The desired children that were applied, as they are after the apply."""
    resource: Object | None
    """The custom resource after the pass; None if it is gone."""
    events: Sequence[EventNote]
    deleted: Sequence[tuple[Kind, Key]]
    """What was asked to be deleted (pruned, replaced or cleaned up)."""
    writes: Sequence[str]
    """Every write, in order, as `apply Deployment shop/demo`."""
    objects: Sequence[Object]
    """Everything in the cluster after the pass."""

    @property
    def status(self) -> Object:
        return status_of(self.resource or {})

    @property
    def conditions(self) -> dict[str, Object]:
        return {c["type"]: c for c in self.status.get("conditions") or ()}

    def condition(self, type: str) -> Object:
        found = find_condition(self.status.get("conditions"), type)
        if found is None:
            raise KeyError(f"no condition {type}; there is {', '.join(self.conditions) or 'none'}")
        return found

    @property
    def hold(self) -> Hold | None:
        return self.result.outcome if isinstance(self.result.outcome, Hold) else None

    @property
    def desired(self) -> Desired | None:
        return self.result.outcome if isinstance(self.result.outcome, Desired) else None

    @property
    def live(self) -> Live:
        return self.result.live

    @property
    def failures(self) -> Sequence[Failure]:
        return self.result.failures

    @property
    def requeue_after(self) -> float | None:
        return self.result.requeue_after

    @property
    def finalized(self) -> bool:
        """The finalizer was removed in this pass."""
        return self.result.finalized


class FakeWorld:
    """A `World` over the given objects, for calling a reconcile or a helper by itself. `owner` is whose children `owned` gives."""

    def __init__(
        self,
        objects: Iterable[Object | Model] = (),
        *,
        now: datetime = NOW,
        served: Iterable[Kind] = (),
        kinds: Iterable[Kind] = (),
        owner: Object | Model | None = None,
        indexes: Iterable[Index] = (),
        seed: int = 0,
    ) -> None:
        self._indexes = {index.name: index for index in indexes}
        self.cluster = MemoryCluster(objects, kinds=kinds, served=served, now=now, seed=seed)
        self._owner = owner.to_dict() if isinstance(owner, Model) else owner

    @property
    def now(self) -> datetime:
        return self.cluster.now

    def serves(self, kind: Kind) -> bool:
        return self.cluster.serves(kind)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.cluster.get(kind, Key(namespace if kind.namespaced else "", name))

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> list[Object]:
        return self.cluster.list(kind, namespace, labels)

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        return self.cluster.by_index(self._indexes[name], value)

    async def fetch(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.get(kind, namespace, name)

    async def wait_readable(self) -> None:
        """A webhook reads it too: everything is there from the start."""

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        found = self.cluster.kind_of({"apiVersion": api_version, "kind": kind})
        return found if found is not None and self.cluster.serves(found) else None

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.get(kind, namespace, name)

    def owned(self, kind: Kind) -> builtins.list[Object]:
        if self._owner is None:
            return []
        group, _, version = str(self._owner.get("apiVersion", "")).rpartition("/")
        owner_kind = Kind(group, version, str(self._owner.get("kind", "")), "")
        owner = Owner("", key_of(self._owner), owner_kind, str(metadata_of(self._owner).get("uid") or ""))
        return self.cluster.children(kind, owner)

    def token(self, size: int = 32) -> str:
        return self.cluster.token(size)

    async def call(self, outside: Callable[[], Awaitable[T]], *, timeout: float) -> T:
        return await self.cluster.call(outside, timeout)

    async def logs(self, namespace: str, pod: str, container: str, *, lines: int) -> str:
        return await self.cluster.logs(namespace, pod, container, lines=lines)


@dataclass(frozen=True)
class Question:
    """One thing that was asked of access reviews."""

    user: User
    verb: str
    kind: Kind
    namespace: str
    name: str = ""
    subresource: str = ""


class FakeAccessReviews:
    """Access reviews for tests of webhooks: `allow` decides, `asked` keeps every question.

    `AdmissionRequest(..., access=FakeAccessReviews(lambda asked: asked.verb == "get"))`; with `reachable=False` nobody answers.
    """

    def __init__(self, allow: Callable[[Question], bool] = lambda asked: False, *, reachable: bool = True) -> None:
        self.allow = allow
        self.reachable = reachable
        self.asked: builtins.list[Question] = []

    async def may(
        self, user: User, verb: str, kind: Kind, namespace: str, name: str = "", subresource: str = ""
    ) -> bool:
        question = Question(user, verb, kind, namespace, name, subresource)
        self.asked.append(question)
        if not self.reachable:
            raise NotAsked(f"whether {user.name} may {verb} {kind.plural} was not asked: the test has no API server")
        return self.allow(question)


@dataclass
class Bench:
    """A controller and a cluster in memory, for stories of several steps."""

    controller: Controller
    cluster: MemoryCluster
    key: Key
    memory: Memory = field(default_factory=Memory)

    @property
    def resource(self) -> Object | None:
        return self.cluster.get(self.controller.kind, self.key) if self.controller.kind else None

    def run(self) -> RunOutcome:
        """One pass; what the reconcile raises is raised here."""
        return drive(self.run_async())

    async def run_async(self) -> RunOutcome:
        """One pass of a reconcile that awaits something real."""
        cluster = self.cluster
        events, writes = len(cluster.events), len(cluster.writes)
        result = await Pass(self.controller, cluster, self.memory.of(self.key), self.key).run()
        return RunOutcome(
            result=result,
            children=Children(result.live.objects),
            resource=self.resource,
            events=tuple(cluster.events[events:]),
            deleted=tuple(result.deleted),
            writes=tuple(cluster.writes[writes:]),
            objects=tuple(copy.deepcopy(obj) for obj in cluster.objects.values()),
        )

    def settle(self, react: Callable[[Object], Object | None] | None = None, *, rounds: int = 50) -> RunOutcome:
        """Passes until one changes nothing. `react` plays the rest of the cluster: it may return a changed object (see `make_ready`)."""
        return drive(self.settle_async(react, rounds=rounds))

    async def settle_async(
        self, react: Callable[[Object], Object | None] | None = None, *, rounds: int = 50
    ) -> RunOutcome:
        for _ in range(rounds):
            outcome = await self.run_async()
            changed = bool(outcome.writes)
            for obj in list(self.cluster.objects.values()) if react else ():
                assert react is not None
                answer = react(copy.deepcopy(obj))
                if answer is not None and answer != obj:
                    self.cluster.put(answer)
                    changed = True
            if not changed:
                return outcome
        raise AssertionError(
            f"{self.controller.name} does not settle: after {rounds} passes it still writes {outcome.writes}"
        )

    def edit(self, kind: Kind, namespace: str, name: str, change: Callable[[Object], None]) -> None:
        """Changes an object the way someone else would."""
        obj = self.cluster.get(kind, Key(namespace if kind.namespaced else "", name))
        assert obj is not None, f"no {kind.kind} {namespace}/{name}"
        change(obj)
        self.cluster.put(obj)

    def edit_resource(self, change: Callable[[Object], None]) -> None:
        assert self.controller.kind is not None
        self.edit(self.controller.kind, *self.key, change)

    def delete_resource(self) -> None:
        """What `kubectl delete` does: gone at once, or being deleted while a finalizer holds it."""
        assert self.controller.kind is not None
        drive(self.cluster.delete(self.controller.kind, self.key, uid=""))


def bench(
    controller: Controller,
    resource: Object | Model | Key | None = None,
    objects: Iterable[Object | Model] = (),
    *,
    now: datetime = NOW,
    served: Iterable[Kind] = (),
    seed: int = 0,
) -> Bench:
    """`served` names the optional kinds that the API serves; those of the given objects are served anyway."""
    optional = {o.kind for o in controller.owns if o.optional} | {w.kind for w in controller.watches if w.optional}
    cluster = MemoryCluster(kinds=declared_kinds(controller), served=served, optional=optional, now=now, seed=seed)
    for obj in objects:
        cluster.put(obj)
    if isinstance(resource, Key) or resource is None:
        return Bench(controller, cluster, resource or Key("", ""))
    data = resource.to_dict() if isinstance(resource, Model) else dict(resource)
    controller = face_for(controller, data)
    if controller.kind is not None:
        data = {"apiVersion": controller.kind.api_version, "kind": controller.kind.kind} | drop_empty_identity(data)
    return Bench(controller, cluster, key_of(cluster.put(_with_defaults(controller, data))))


def run(
    controller: Controller,
    resource: Object | Model | Key | None = None,
    objects: Iterable[Object | Model] = (),
    *,
    now: datetime = NOW,
    served: Iterable[Kind] = (),
    seed: int = 0,
) -> RunOutcome:
    """One pass of the controller over this resource and these objects, without any server."""
    return bench(controller, resource, objects, now=now, served=served, seed=seed).run()


def settle(
    controller: Controller,
    resource: Object | Model | Key | None = None,
    objects: Iterable[Object | Model] = (),
    *,
    react: Callable[[Object], Object | None] | None = None,
    now: datetime = NOW,
    served: Iterable[Kind] = (),
    seed: int = 0,
) -> RunOutcome:
    """Passes until one changes nothing; gives that last one."""
    return bench(controller, resource, objects, now=now, served=served, seed=seed).settle(react)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never really waits, with no event loop (and inside one too)."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("the reconcile awaits something real: use `await bench(...).run_async()` in an async test")


def make_ready(obj: Object) -> Object | None:
    """Plays the workload controllers: Deployments and StatefulSets become available; for `settle(react=make_ready)`."""
    if obj.get("kind") not in ("Deployment", "StatefulSet"):
        return None
    return obj | {"status": replicas_status(obj)}


def without_system_fields(obj: Object) -> Object:
    """The object without what only an API server fills in (uid, versions, times)."""
    metadata = {k: v for k, v in metadata_of(obj).items() if k not in _SYSTEM_FIELDS}
    return copy.deepcopy(obj | {"metadata": metadata})


def drop_empty_identity(data: Object) -> Object:
    """Typed resources that a test builds by hand leave their own type and parts of the metadata empty."""
    data = {k: v for k, v in data.items() if k not in ("apiVersion", "kind") or v}
    return data | {"metadata": {k: v for k, v in metadata_of(data).items() if v not in ("", 0, {}, [])}}


def _with_defaults(controller: Controller, data: Object) -> Object:
    """The resource with its type's defaults, as the API would have filled them in."""
    if not isinstance(controller.for_, Definition):
        return data
    try:
        parsed = controller.for_.type.parse(data).to_dict()
    except msgspec.ValidationError:
        return data  # The pass itself says what is wrong.
    spec = parsed.get("spec")
    return data | {"spec": merged(spec, data["spec"])} if isinstance(spec, dict) and data.get("spec") else data


__all__ = [
    "NOW", "Bench", "Children", "FakeWorld", "MemoryCluster", "RunOutcome", "bench", "drive", "make_ready", "run", "settle",
    "without_system_fields",
]  # fmt: skip
