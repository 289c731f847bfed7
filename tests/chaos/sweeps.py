"""Sweeps over a story: the same story with one thing going wrong must end as if nothing had.

A story is a row of a table; every sweep takes any story. `CHAOS=full` runs every point of an operator's own stories and a
sample of those with all operators loaded, `CHAOS=everything` every point of both; without it a sample of all is run.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

import looptime
import msgspec

from modelyard.kube.builtin import CustomResourceDefinition, Deployment, Job, Namespace
from modelyard.kube.client import Client
from modelyard.kube.crd import Definition, definition_of
from modelyard.kube.errors import MethodNotAllowed, NotFound
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import annotations_of, generation_of, key_of, metadata_of
from modelyard.kube.times import format_time
from modelyard.kube.transport import resource_of
from modelyard.kube.workload_status import status_when_well
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.journal import WRITES
from modelyard.runtime.acting.engine import Engine
from modelyard.runtime.acting.ownership import POLICY, owner_keys
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.services import Services
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.lease import LeaseSettings
from modelyard.runtime.process.manager import Manager
from tests.chaos.amount import EVERYTHING, FULL
from tests.chaos.faults import (
    Counter,
    CrashAfterWrite,
    Fault,
    FaultyTransport,
    Forbidden,
    LateWatch,
    LoseEvent,
    Partition,
    RandomErrors,
)
from tests.chaos.stomping import stomp

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)
SOON = 8.0
"""Within how many seconds work that a pass has put off still belongs to the step."""
LATE = (0.7, 4.0, 25.0, 300.0)
"""How late watches are made, in seconds."""
Step = Callable[[Client], Awaitable[None]]
Snapshot = dict[tuple[str, Key], Object]
_TOKEN_VOLUME = re.compile(rb"kube-api-access-\w+")
_UP_TO_DATE = "0 behind"

_IGNORED = frozenset({"events", "leases", "namespaces", "apiservices", "customresourcedefinitions", "endpointslices"})
_VOLATILE_METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_VOLATILE_FIELDS = (
    "lastTransitionTime", "clusterIP", "clusterIPs", "controller-uid", "batch.kubernetes.io/controller-uid",
)  # fmt: skip


class Fake(Protocol):
    """A service beyond the API, as a story plays it: it outlives the process that talks to it."""

    def state(self) -> Object:
        """What must end as if nothing had happened."""
        ...


@dataclass(frozen=True, eq=False)
class SweptScenario:
    """What happens, in steps; after each one the cluster comes to rest."""

    name: str
    controllers: Callable[[], Sequence[Controller]]
    definitions: Sequence[Definition]
    steps: Sequence[Step]
    served: Sequence[Kind] = ()
    """Foreign kinds that the API serves from the start, without a schema of their own."""
    setup: Sequence[tuple[Kind, Object]] = ()
    """Objects that exist before the controllers start; namespaces among them."""
    foreign: Sequence[tuple[Kind, Object]] = ()
    """Objects that nobody of ours may touch."""
    generated: Sequence[str] = ()
    """Kinds and names (`Secret hi-key`) whose data is random: only its keys are compared."""
    masked: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Fields that differ from run to run, and why: `("Deployment web", "example.com/digest")`. One that hides nothing fails."""
    passing: Sequence[Kind] = ()
    """Kinds that only tell what happened on the way (Jobs that are done): they are not compared."""
    made_once: Collection[Kind] = ()
    """Kinds whose objects (pods) get random names, and are replaced when they are lost but not repaired when they are changed."""
    lease: bool = False
    ground: Callable[[], Sequence[Controller]] = list
    """Controllers that play more of the rest of the cluster than Deployments; no fault is between them and the API."""
    others: Callable[[], Sequence[Controller]] = list
    """Controllers of other operators that run in the same process and have nothing to do."""
    fakes: Callable[[], Mapping[str, Fake]] = dict
    """Services beyond the API, by name: made once for each play."""
    operator: Callable[[Services], Operator] | None = None
    """Builds what `controllers` names, and its background work, for a process that talks to these services."""
    sampled: bool = False
    """Every point is played only with `CHAOS=everything`."""

    @property
    def every_point(self) -> bool:
        return EVERYTHING or (FULL and not self.sampled)


@dataclass
class Stage:
    """A story being played."""

    story: SweptScenario
    server: ApiServer
    client: Client
    managers: list[Manager] = field(default_factory=list)
    transports: dict[int, FaultyTransport] = field(default_factory=dict)
    masks_used: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fakes = self.story.fakes()

    def start(self, fault: Fault | None = None, *, name: str = "plane") -> Manager:
        transport = FaultyTransport(self.server.transport(agent=name), fault or Fault())
        lease = LeaseSettings("plane", "default") if self.story.lease else None
        own = self.story.operator(Services(**self.fakes)) if self.story.operator else None
        manager = Manager(
            Client(transport),
            [*(own.controllers if own else self.story.controllers()), *self.story.others()],
            clock=clock,
            lease=lease,
            identity=name,
            background=own.background if own else (),
        )
        manager.start()
        self.managers.append(manager)
        self.transports[id(manager)] = transport
        return manager

    async def kill(self, manager: Manager) -> None:
        """As `kill -9` would: nothing is finished, nothing given back."""
        self.managers.remove(manager)
        self.transports.pop(id(manager)).dead = True
        await manager.stop(grace=0.0)

    async def rest(self, *, quiet: float = 2.0, patience: float = 7200.0) -> None:
        """Until nothing has been written for a while, however long retries take; virtual time is free."""
        deadline = asyncio.get_running_loop().time() + patience
        while True:
            before = self.server.journal.total
            await asyncio.sleep(quiet)
            engines = [engine for manager in self.managers if manager.leading for engine in manager.engines]
            idle = all(m.is_idle for m in self.managers if m.leading) and not any(map(_has_more_to_do, engines))
            leading = not self.managers or any(m.leading for m in self.managers)
            if idle and leading and not self._wrote_since(before):
                return
            if asyncio.get_running_loop().time() > deadline:
                problems = [(m.problems, [e.errors for e in m.engines]) for m in self.managers]
                raise AssertionError(f"{self.story.name} did not come to rest: {problems}")

    def _wrote_since(self, before: int) -> bool:
        """Has anything been written after so many requests, apart from the heartbeat of leases?"""
        journal = self.server.journal
        recent = list(journal)[-(journal.total - before) :] if journal.total > before else []
        return any(entry.get("verb") in WRITES and entry.get("resource") != "leases" for entry in recent)

    async def snapshot(self) -> Snapshot:
        """Everything that counts, without what differs from run to run."""
        found: Snapshot = {}
        foreign = {(kind, key_of(obj)) for kind, obj in self.story.foreign}
        for kind in sorted(await self.client.discover(), key=str):
            if kind.plural in _IGNORED or kind in self.story.passing:
                continue
            try:
                listed = await self.client.list(kind)
            except (NotFound, MethodNotAllowed):
                continue  # Reviews and the like can only be created.
            for obj in listed.items:
                key = key_of(obj)
                ours = key.name != "kube-root-ca.crt" and not key.namespace.startswith("kube-")
                if ours and (kind, key) not in foreign:
                    found[str(kind), key] = self._comparable(kind, obj)
            if kind in self.story.made_once:
                _number(found, str(kind))
        return found | {("service", Key("", name)): fake.state() for name, fake in self.fakes.items()}

    def _comparable(self, kind: Kind, obj: Object) -> Object:
        metadata = {k: v for k, v in metadata_of(obj).items() if k not in _VOLATILE_METADATA}
        for reference in metadata.get("ownerReferences") or ():
            reference.pop("uid", None)
        labels = metadata.get("labels") or {}
        metadata["labels"] = {k: v for k, v in labels.items() if not k.endswith("owner-uid")}
        generation = generation_of(obj)
        if generation and "status" in obj:
            obj = obj | {"status": _relative(obj["status"], generation)}
        name = f"{kind.kind} {key_of(obj).name}"
        masked = {field for at, field in self.story.masked if at == name}
        plain: Object = _stripped(obj | {"metadata": metadata}, {*_VOLATILE_FIELDS, *masked})
        self.masks_used |= {(name, field) for field in masked if _has(obj, field)}
        if name in self.story.generated:
            plain["data"] = dict.fromkeys(plain.get("data") or {}, "…")
        return plain


def _number(found: Snapshot, kind: str) -> None:
    """Puts those of a kind under numbers instead of the random ends of their names, and of the names of their token volumes."""
    unnamed = []
    for place in [place for place in found if place[0] == kind]:
        obj, prefix = found.pop(place), place[1].name.rpartition("-")[0]
        obj["metadata"]["name"] = prefix
        plain = _TOKEN_VOLUME.sub(b"kube-api-access", msgspec.json.encode(obj))
        unnamed.append((place[1].namespace, prefix, msgspec.json.decode(plain)))
    for number, (namespace, prefix, obj) in enumerate(sorted(unnamed, key=repr)):
        found[kind, Key(namespace, f"{prefix}-{number}")] = obj


def _has_more_to_do(engine: Engine) -> bool:
    """A pass failed, or has put off a part of its work by a few seconds."""
    due = engine.queue.next_due()
    return bool(engine.errors) or (due is not None and due <= asyncio.get_running_loop().time() + SOON)


def _stripped(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {k: _stripped(v, names) for k, v in value.items() if k not in names}
    return [_stripped(item, names) for item in value] if isinstance(value, list) else value


def _relative(status: Any, generation: int) -> Any:
    """A status in which every `observedGeneration` says by how much it lags behind: faults may cost generations, never this."""
    if isinstance(status, dict):
        return {
            name: f"{generation - value} behind" if name == "observedGeneration" else _relative(value, generation)
            for name, value in status.items()
        }
    return [_relative(item, generation) for item in status] if isinstance(status, list) else status


def _lags(status: Any) -> bool:
    if isinstance(status, dict):
        return status.get("observedGeneration", _UP_TO_DATE) != _UP_TO_DATE or any(map(_lags, status.values()))
    return isinstance(status, list) and any(map(_lags, status))


def _has(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return name in value or any(_has(part, name) for part in value.values())
    return isinstance(value, list) and any(_has(part, name) for part in value)


def clock() -> datetime:
    """The wall clock of a virtual world."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


def virtually(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end on an event loop whose time jumps to the next timer."""
    loop = looptime.new_event_loop()
    # Cycles of a whole API server at each sweep point: collected once, afterwards.
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(work)
    finally:
        gc.enable()


def workloads(kind: Kind) -> Controller:
    """Plays the controller of Deployments, StatefulSets or Jobs: whatever is asked for is available, or succeeds."""
    controller = Controller(kind.plural, kind, field_manager=f"modelyard-test-{kind.plural}")

    @controller.reconcile
    def reconcile(workload: Object, world: World) -> Desired:
        return Desired(status=status_when_well(workload, ended=format_time(START)))

    return controller


def succeeding_jobs() -> Controller:
    return workloads(Job)


def ground(story: SweptScenario) -> list[Controller]:
    """What plays the rest of the cluster."""
    return [workloads(Deployment), *story.ground()]


async def play(
    story: SweptScenario,
    fault: Callable[[], Fault] | None = None,
    *,
    between: Callable[[Stage, int], Awaitable[None]] | None = None,
    managers: int = 1,
) -> tuple[Snapshot, Stage]:
    """Plays the story with a fault on the way between the controllers and the API; gives how the cluster ends."""
    async with ApiServer(clock=clock) as server:
        stage = Stage(story, server, server.client(agent="user"))
        await prepare(stage)
        rest = Manager(server.client(agent="ground"), ground(story), clock=clock)
        rest.start()
        before = [await server.client().get(kind, *key_of(obj)) for kind, obj in story.foreign]
        made = fault() if fault is not None else None
        for number in range(managers):
            stage.start(made, name=f"plane-{number}")
        for number, step in enumerate(story.steps):
            await step(stage.client)
            await _rest_or_restart(stage, made)
            if between is not None:
                await between(stage, number)
        await stage.rest(quiet=30.0 + (made.lateness if made else 0.0))
        ending = await stage.snapshot()
        after = [await server.client().find(kind, *key_of(obj)) for kind, obj in story.foreign]
        assert after == before, f"{story.name}: a foreign object was touched"
        for manager in list(stage.managers):
            await stage.kill(manager)
        await rest.stop(grace=0.0)
        return ending, stage


async def _rest_or_restart(stage: Stage, fault: Fault | None) -> None:
    """A crashed process is started again, without the fault."""
    if not isinstance(fault, CrashAfterWrite) or fault.crashed.is_set():
        # A step is over when its last event has come: two steps at once are another story, with another end.
        await stage.rest(quiet=2.0 + (fault.lateness if fault else 0.0))
        return
    rest = asyncio.ensure_future(stage.rest())
    crash = asyncio.ensure_future(fault.crashed.wait())
    await asyncio.wait([rest, crash], return_when=asyncio.FIRST_COMPLETED)
    if crash.done() and not rest.done():
        rest.cancel()
        await asyncio.gather(rest, return_exceptions=True)
        for manager in list(stage.managers):
            await stage.kill(manager)
            stage.start(name="reborn")
        await stage.rest()
    else:
        crash.cancel()
        await rest


async def prepare(stage: Stage) -> None:
    client = stage.client
    for definition in stage.story.definitions:
        crd = definition_of(definition)
        # Nobody serves webhooks here: the versions are stored as they are.
        crd["spec"]["conversion"] = {"strategy": "None"}
        await client.create(CustomResourceDefinition, crd)
    for kind in stage.story.served:
        await client.create(CustomResourceDefinition, schemaless(kind))
    await stage.server.settle()
    for kind, obj in (*stage.story.setup, *stage.story.foreign):
        await client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind} | copy.deepcopy(obj))


def schemaless(kind: Kind) -> Object:
    """A CRD of a foreign kind that takes anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    metadata: Object = {"name": kind.resource}
    if kind.group.endswith(".k8s.io"):
        metadata["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    scope = "Namespaced" if kind.namespaced else "Cluster"
    spec = {"group": kind.group, "names": names, "scope": scope, "versions": [version]}
    api = "apiextensions.k8s.io/v1"
    return {"apiVersion": api, "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def namespace(name: str) -> tuple[Kind, Object]:
    return Namespace, {"metadata": {"name": name}}


@dataclass(frozen=True)
class Baseline:
    """How a story goes when nothing goes wrong."""

    ending: Snapshot
    writes: list[str]
    events: int
    watched: set[str]


@lru_cache(maxsize=8)
def baseline(story: SweptScenario) -> Baseline:
    """Played once a story, for all its sweeps."""
    counter = Counter()
    ending, stage = virtually(play(story, lambda: counter))
    assert stage.masks_used == story.masked.keys(), f"{story.name}: masks that hide nothing at the end"
    stale = [f"{kind} {key}" for (kind, key), obj in ending.items() if _lags(obj.get("status"))]
    assert not stale, f"{story.name}: the status is about an older generation: {stale}"
    return Baseline(ending, counter.writes, counter.events, counter.watched)


def points(story: SweptScenario, total: int, sample: int) -> list[int]:
    """All points of a sweep, or an even sample of them."""
    if story.every_point or total <= sample:
        return list(range(1, total + 1))
    return sorted({1 + round(i * (total - 1) / (sample - 1)) for i in range(sample)})


def compare(story: SweptScenario, ending: Snapshot, expected: Snapshot, what: str) -> None:
    for place in sorted({*ending, *expected}):
        got, want = ending.get(place), expected.get(place)
        assert got == want, f"{story.name}, {what}: {place[0]} {place[1]} ends as\n{got}\ninstead of\n{want}"


def crash_after_every_write(story: SweptScenario, *, sample: int = 6) -> None:
    base = baseline(story)
    assert base.writes, f"{story.name} writes nothing"
    for number in points(story, len(base.writes), sample):
        ending, _ = virtually(play(story, partial(CrashAfterWrite, number)))
        compare(story, ending, base.ending, f"crash after write {number} ({base.writes[number - 1]})")


def lose_every_event(story: SweptScenario, *, sample: int = 6) -> None:
    base = baseline(story)
    for number in points(story, base.events, sample):
        ending, _ = virtually(play(story, partial(LoseEvent, number)))
        compare(story, ending, base.ending, f"watches cut at event {number}")


def every_watch_late(story: SweptScenario) -> None:
    """All watches together, and with `CHAOS=full` each by itself too."""
    base = baseline(story)
    for delay in LATE if story.every_point or not story.sampled else LATE[2:3]:
        for resource in ("", *sorted(base.watched)) if story.every_point else ("",):
            ending, _ = virtually(play(story, partial(LateWatch, resource, delay)))
            compare(story, ending, base.ending, f"watch of {resource or 'everything'} {delay:g} s late")


def random_errors(story: SweptScenario, *, seeds: int = 3) -> None:
    base = baseline(story)
    for seed in range(30 if story.every_point else seeds):
        ending, _ = virtually(play(story, partial(RandomErrors, seed)))
        compare(story, ending, base.ending, f"random errors of seed {seed}")


def partition(story: SweptScenario, *, starts: Sequence[float] = (0.0, 2.1, 7.3)) -> None:
    base = baseline(story)
    for start in starts if story.every_point or not story.sampled else starts[1:2]:
        ending, _ = virtually(play(story, partial(Partition, start, 600.0)))
        compare(story, ending, base.ending, f"ten minutes without the API from {start:g} s on")


def permission_revoked(story: SweptScenario, *, sample: int = 3) -> None:
    base = baseline(story)
    resources = sorted({_resource(write) for write in base.writes})
    for number in points(story, len(resources), sample):
        resource = resources[number - 1]
        ending, _ = virtually(play(story, partial(Forbidden, resource, 1.0, 300.0)))
        compare(story, ending, base.ending, f"{resource} forbidden for five minutes")


def children_deleted_or_stomped(story: SweptScenario, data: Collection[Kind] = ()) -> None:
    """After every step each child is deleted once, and once changed by someone else. What holds data is left alone."""
    base = baseline(story)
    stomped: dict[str, int] = {}

    async def vandalise(stage: Stage, number: int) -> None:
        for kind, obj in await children(stage, data):
            with suppress(NotFound):  # It went with another one.
                await stage.client.delete(kind, *key_of(obj))
            await stage.rest()
        for kind, obj in await children(stage, {*data, *story.made_once}):
            stomped[kind.kind] = stomped.get(kind.kind, 0) + await stomp(
                stage.client, kind, obj, most=200 if story.every_point else 8
            )
            await stage.rest()

    ending, _ = virtually(play(story, between=vandalise))
    compare(story, ending, base.ending, "every child deleted and stomped")
    assert stomped, f"{story.name}: nobody has children"
    assert all(stomped.values()), f"{story.name}: nothing was changed in children of some kinds: {stomped}"


async def children(stage: Stage, data: Collection[Kind]) -> list[tuple[Kind, Object]]:
    """What the controllers of the story have made and own, by their declarations; not what they make once for others to keep."""
    found: dict[tuple[Kind, Key], Object] = {}
    for controller in stage.story.controllers():
        for kind in dict.fromkeys(row.kind for row in controller.owns):
            if kind in data or kind in stage.story.passing:
                continue
            try:
                listed = (await stage.client.list(kind)).items
            except NotFound:
                continue  # An optional kind that this story does not serve.
            for obj in listed:
                if any(owner_keys(obj, controller.name, controller.kind)) and POLICY not in annotations_of(obj):
                    found[kind, key_of(obj)] = obj
    return [(kind, obj) for (kind, _), obj in found.items()]


def settled_means_no_writes(story: SweptScenario) -> None:
    """After the story, neither time nor a restart nor foreign events make the controllers write."""

    async def watch_hands() -> list[str]:
        counter = Counter()

        async def at_the_end(stage: Stage, number: int) -> None:
            if number != len(story.steps) - 1:
                return
            await stage.rest(quiet=60.0)
            await stage.kill(stage.managers[0])
            stage.start(counter, name="restarted")
            await stage.rest(quiet=60.0)
            for obj in (await stage.client.list(Deployment)).items:
                # A label, not an annotation: that makes a new generation of a Deployment, which counts for readiness.
                await stage.client.patch(Deployment, *key_of(obj), {"metadata": {"labels": {"someone": "else"}}})
            await stage.rest(quiet=600.0)

        await play(story, between=at_the_end)
        return counter.writes

    assert virtually(watch_hands()) == []


def two_planes_one_lease(story: SweptScenario) -> None:
    """Two processes with one lease: the leader dies after every step, and only one ever acts."""
    leased = replace(story, lease=True)
    base = baseline(story)

    async def kill_the_leader(stage: Stage, number: int) -> None:
        leaders = [manager for manager in stage.managers if manager.leading]
        assert len(leaders) == 1, f"{len(leaders)} processes lead"
        await stage.kill(leaders[0])
        stage.start(name=f"next-{number}")
        await asyncio.sleep(60.0)

    ending, _ = virtually(play(leased, between=kill_the_leader, managers=2))
    compare(story, ending, base.ending, "leader killed after every step")


def _resource(write: str) -> str:
    _, path = write.split(" ", 1)
    return resource_of(path)
