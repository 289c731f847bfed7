"""Sweeps over a story: the same story with one thing going wrong must end as if nothing had.

A story is a row of a table; every sweep takes any story. `CHAOS=full` runs every point, else a sample.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, TypeVar

import looptime

from modelyard.kube.builtin import CustomResourceDefinition, Deployment, Namespace, StatefulSet
from modelyard.kube.client import Client
from modelyard.kube.crd import Definition, definition_of
from modelyard.kube.errors import Conflict, MethodNotAllowed, NotFound
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of, metadata_of
from modelyard.kube.transport import resource_of
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.journal import WRITES
from modelyard.runtime.controller import Controller
from modelyard.runtime.desired import Desired, Live
from modelyard.runtime.lease import LeaseSettings
from modelyard.runtime.manager import Manager
from modelyard.runtime.testing import make_ready
from modelyard.runtime.world import World
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

T = TypeVar("T")
FULL = os.environ.get("CHAOS") == "full"
START = datetime(2026, 1, 1, tzinfo=UTC)
LATE = (0.7, 4.0, 25.0, 300.0)
"""How late watches are made, in seconds."""
Step = Callable[[Client], Awaitable[None]]
Snapshot = dict[tuple[str, Key], Object]

_IGNORED = frozenset({"events", "leases", "namespaces", "apiservices", "customresourcedefinitions", "endpointslices"})
_VOLATILE_METADATA = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
_VOLATILE_FIELDS = (
    "lastTransitionTime", "observedGeneration", "clusterIP", "clusterIPs", "controller-uid", "batch.kubernetes.io/controller-uid",
    "modelregistry.opendatahub.io/config-digest",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Story:
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
    passing: Sequence[Kind] = ()
    """Kinds that only tell what happened on the way (Jobs that are done): they are not compared."""
    lease: bool = False
    ground: Callable[[], Sequence[Controller]] = list
    """Controllers that play more of the rest of the cluster than Deployments; no fault is between them and the API."""


@dataclass
class Stage:
    """A story being played."""

    story: Story
    server: ApiServer
    client: Client
    managers: list[Manager] = field(default_factory=list)
    transports: dict[int, FaultyTransport] = field(default_factory=dict)

    def start(self, fault: Fault | None = None, *, name: str = "plane") -> Manager:
        transport = FaultyTransport(self.server.transport(agent=name), fault or Fault())
        lease = LeaseSettings("plane", "default") if self.story.lease else None
        manager = Manager(Client(transport), self.story.controllers(), clock=clock, lease=lease, identity=name)
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
            idle = all(m.is_idle and not any(e.errors for e in m.engines) for m in self.managers if m.leading)
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
        return found

    def _comparable(self, kind: Kind, obj: Object) -> Object:
        metadata = {k: v for k, v in metadata_of(obj).items() if k not in _VOLATILE_METADATA}
        for reference in metadata.get("ownerReferences") or ():
            reference.pop("uid", None)
        labels = metadata.get("labels") or {}
        metadata["labels"] = {k: v for k, v in labels.items() if not k.endswith("owner-uid")}
        plain: Object = _stripped(obj | {"metadata": metadata})
        if f"{kind.kind} {key_of(obj).name}" in self.story.generated:
            plain["data"] = dict.fromkeys(plain.get("data") or {}, "…")
        return plain


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _stripped(v) for k, v in value.items() if k not in _VOLATILE_FIELDS}
    return [_stripped(item) for item in value] if isinstance(value, list) else value


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


def _workloads() -> Controller:
    """Plays the Deployment controller: whatever is asked for is available."""
    controller = Controller("workloads", Deployment, field_manager="modelyard-test-workloads")

    @controller.reconcile
    def reconcile(obj: Object, world: World) -> Desired:
        def status(resource: Object, live: Live) -> Object:
            ready = make_ready(copy.deepcopy(resource))
            assert ready is not None
            made: Object = ready["status"]
            return made

        return Desired(status=status)

    return controller


def ground(story: Story) -> list[Controller]:
    """What plays the rest of the cluster."""
    return [_workloads(), *story.ground()]


async def play(
    story: Story,
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


# The sweeps


@dataclass(frozen=True)
class Baseline:
    """How a story goes when nothing goes wrong."""

    ending: Snapshot
    writes: list[str]
    events: int
    watched: set[str]


@lru_cache(maxsize=8)
def baseline(story: Story) -> Baseline:
    """Played once a story, for all its sweeps."""
    counter = Counter()
    ending, _ = virtually(play(story, lambda: counter))
    return Baseline(ending, counter.writes, counter.events, counter.watched)


def points(total: int, sample: int) -> list[int]:
    """All points of a sweep, or an even sample of them."""
    if FULL or total <= sample:
        return list(range(1, total + 1))
    return sorted({1 + round(i * (total - 1) / (sample - 1)) for i in range(sample)})


def compare(story: Story, ending: Snapshot, expected: Snapshot, what: str) -> None:
    for place in sorted({*ending, *expected}):
        got, want = ending.get(place), expected.get(place)
        assert got == want, f"{story.name}, {what}: {place[0]} {place[1]} ends as\n{got}\ninstead of\n{want}"


def crash_after_every_write(story: Story, *, sample: int = 6) -> None:
    base = baseline(story)
    assert base.writes, f"{story.name} writes nothing"
    for number in points(len(base.writes), sample):
        ending, _ = virtually(play(story, partial(CrashAfterWrite, number)))
        compare(story, ending, base.ending, f"crash after write {number} ({base.writes[number - 1]})")


def lose_every_event(story: Story, *, sample: int = 6) -> None:
    base = baseline(story)
    for number in points(base.events, sample):
        ending, _ = virtually(play(story, partial(LoseEvent, number)))
        compare(story, ending, base.ending, f"watches cut at event {number}")


def every_watch_late(story: Story) -> None:
    """All watches together, and with `CHAOS=full` each by itself too."""
    base = baseline(story)
    for delay in LATE:
        for resource in ("", *sorted(base.watched)) if FULL else ("",):
            ending, _ = virtually(play(story, partial(LateWatch, resource, delay)))
            compare(story, ending, base.ending, f"watch of {resource or 'everything'} {delay:g} s late")


def random_errors(story: Story, *, seeds: int = 3) -> None:
    base = baseline(story)
    for seed in range(30 if FULL else seeds):
        ending, _ = virtually(play(story, partial(RandomErrors, seed)))
        compare(story, ending, base.ending, f"random errors of seed {seed}")


def partition(story: Story, *, starts: Sequence[float] = (0.0, 2.1, 7.3)) -> None:
    base = baseline(story)
    for start in starts:
        ending, _ = virtually(play(story, partial(Partition, start, 600.0)))
        compare(story, ending, base.ending, f"ten minutes without the API from {start:g} s on")


def permission_revoked(story: Story, *, sample: int = 3) -> None:
    base = baseline(story)
    resources = sorted({_resource(write) for write in base.writes})
    for number in points(len(resources), sample):
        resource = resources[number - 1]
        ending, _ = virtually(play(story, partial(Forbidden, resource, 1.0, 300.0)))
        compare(story, ending, base.ending, f"{resource} forbidden for five minutes")


def children_deleted_or_stomped(story: Story, owned: Callable[[Stage], Awaitable[list[tuple[Kind, Object]]]]) -> None:
    """After every step each child is deleted once, and once changed by someone else."""
    base = baseline(story)

    async def vandalise(stage: Stage, number: int) -> None:
        for kind, obj in await owned(stage):
            await stage.client.delete(kind, *key_of(obj))
            await stage.rest()
        for kind, obj in await owned(stage):
            await _stomp(stage.client, kind, obj)
            await stage.rest()

    ending, _ = virtually(play(story, between=vandalise))
    compare(story, ending, base.ending, "every child deleted and stomped")


async def _stomp(client: Client, kind: Kind, obj: Object) -> None:
    """Changes every plain value in what the object is for."""
    body = {name: _scribbled(value) for name, value in obj.items() if name in ("data", "spec") and name != "status"}
    labels = {name: "stomped" for name in (metadata_of(obj).get("labels") or {}) if "modelyard.dev" not in name}
    changed: Object = {"metadata": {"labels": labels}}
    if kind.kind == "ConfigMap":
        changed |= body
    elif kind in (Deployment, StatefulSet):
        changed |= {"spec": {"replicas": 7}}
    try:
        await client.patch(kind, *key_of(obj), changed)
    except (Conflict, NotFound):
        return


def _scribbled(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _scribbled(v) for k, v in value.items()}
    return "stomped" if isinstance(value, str) else value


def settled_means_no_writes(story: Story) -> None:
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


def two_planes_one_lease(story: Story) -> None:
    """Two processes with one lease: the leader dies after every step, and only one ever acts."""
    leased = Story(**{**story.__dict__, "lease": True})
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
