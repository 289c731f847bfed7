"""Runs controllers in one process: shared caches, kinds that come and go, one leader, and a way to stop in good order."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from types import TracebackType

from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind
from modelyard.kube.times import utc_now
from modelyard.runtime.acting.apicluster import Shared, Tracking
from modelyard.runtime.acting.cluster import kinds_that_matter
from modelyard.runtime.acting.engine import Engine
from modelyard.runtime.acting.sources import CachedObjects, selection_of
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.caches import CacheSet
from modelyard.runtime.caching.served import Served
from modelyard.runtime.caching.watching import Timing
from modelyard.runtime.declaring.background import Background, Backstage
from modelyard.runtime.declaring.controller import Controller, Reader
from modelyard.runtime.declaring.operator_metrics import CacheGauge, OwnMetric, OwnMetrics
from modelyard.runtime.process.lease import Elector, LeaseSettings
from modelyard.runtime.process.metrics import MeteredTransport, Metrics
from modelyard.runtime.webhooks.declarations import Webhook

log = logging.getLogger(__name__)

CATCH_UP_TIMEOUT = 30.0
WRAPPED_CATCH_UP_TIMEOUT = 5.0
FIELD_MANAGERS = "modelyard"
"""How our field managers begin; of managedFields the caches keep theirs only."""


class Manager:
    """`async with Manager(client, controllers): ...`, or `await manager.run()` until cancelled.

    `namespace` limits everything namespaced to one; without a `lease` this process always leads.
    """

    def __init__(
        self,
        client: Client,
        controllers: Sequence[Controller],
        *,
        clock: Callable[[], datetime] = utc_now,
        namespace: str | None = None,
        lease: LeaseSettings | None = None,
        identity: str = "",
        metrics: Metrics | None = None,
        timing: Timing | None = None,
        discovery_poll: float = 60.0,
        background: Sequence[Background] = (),
        own_metrics: Sequence[OwnMetric] = (),
    ) -> None:
        names = [c.name for c in controllers]
        if len(set(names)) != len(names):
            raise ValueError(f"two controllers have the same name: {', '.join(sorted(names))}")
        for controller in controllers:
            if not controller.field_manager.startswith(FIELD_MANAGERS):
                raise ValueError(
                    f"the field manager of controller {controller.name} must begin with {FIELD_MANAGERS!r}, "
                    f"not {controller.field_manager!r}: only such fields are kept in the caches"
                )
        self.metrics = metrics if metrics is not None else Metrics()
        self.client = client = client.through(lambda transport: MeteredTransport(transport, self.metrics))
        for controller in controllers:
            self.metrics.declare(controller.name, controller.concurrency)
        self.elector: Elector | None = None
        if lease is not None:
            who = identity or f"{socket.gethostname()}_{os.getpid()}"
            self.elector = Elector(client, lease, who, clock, on_change=self._leadership_changed)
        self.caches = CacheSet(client, keep_managers=FIELD_MANAGERS, timing=timing)
        self.served = Served(client, poll=discovery_poll, timing=timing)
        self.shared = Shared(client, self.caches, self.served, Tracking(), clock, self._may_write)
        self.engines = [Engine(c, self.shared, namespace, self.metrics) for c in controllers]
        for cache in self.caches:
            self.shared.tracking.follow(cache)
        self._namespace = namespace
        for metric in own_metrics:
            if isinstance(metric, CacheGauge) and metric.controller not in names:
                raise ValueError(
                    f"metric {metric.name} reads the caches of controller {metric.controller!r}, which does not run"
                )
        OwnMetrics(own_metrics, self._reader_of).register(self.metrics.registry)
        self._background = tuple(background)
        self._backstage = Backstage(client, clock)
        self.leading = False
        self._followers: dict[Kind, asyncio.Task[None]] = {}
        self.started_at: dict[Cache, float] = {}
        self._run: asyncio.Task[None] | None = None
        self.served.subscribe(self._kinds_changed)

    def reader(self, webhook: Webhook) -> CachedObjects:
        """What a webhook reads: caches of the kinds that it declares, which start and stop with their kind."""
        view = self.caches.view()
        for read in webhook.read_rows:
            cache = self.caches.cache(
                selection_of(
                    read.kind,
                    read.namespace,
                    read.labels,
                    self._namespace,
                    name=read.name,
                    metadata_only=read.metadata_only,
                )
            )
            view.include(cache)
            if self._run is not None and read.kind in self.served:
                cache.start()
        return CachedObjects(webhook.name, view, self.served, frozenset(read.kind for read in webhook.read_rows))

    def _reader_of(self, controller: str) -> Reader | None:
        """What a controller's metrics are computed from; None while that would not be the truth."""
        engine = self.engine(controller)
        known = self.leading and self.served.known and not engine.missing() and not engine.unsynced()
        return engine.sources.reader if known else None

    async def __aenter__(self) -> Manager:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(grace=0.0 if error is not None else 10.0)

    def start(self) -> None:
        """Begins to run in the background; `stop` ends it."""
        if self._run is None:
            self._run = asyncio.create_task(self.run(), name="manager")

    async def stop(self, grace: float = 10.0) -> None:
        """Takes no new work, lets passes that are under way finish for `grace` seconds, gives the lease back."""
        if grace:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await asyncio.gather(*(engine.drain() for engine in self.engines))
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)
            self._run = None

    async def run(self) -> None:
        """Until cancelled. Nothing that the API does or does not do ends it."""
        loop_tasks = [asyncio.create_task(self._forever("discovery", self.served.run), name="discovery")]
        try:
            if self.elector is None:
                await self._forever("work", self._lead)
            else:
                await self.elector.run(self._lead)
        finally:
            tasks = [*loop_tasks, *self._followers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._followers.clear()
            await self.caches.stop(clear=False)

    async def _forever(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Only a queue that is closed ends the work on it; a failure does not."""
        while True:
            try:
                return await work()
            except Exception:
                log.exception("%s failed and is begun again", what)
                await asyncio.sleep(1.0)

    def _may_write(self) -> bool:
        return self.elector is None or self.elector.held

    def _leadership_changed(self, leading: bool) -> None:
        self.leading = leading
        if self.elector is not None:
            self.metrics.leading(self.elector.settings.name, leading)

    async def _lead(self) -> None:
        since = asyncio.get_running_loop().time()
        self.leading = True
        try:
            async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                for work in self._background:
                    stack.push_async_callback(_ended, self._start_background(work))
                for engine in self.engines:
                    name = engine.controller.name
                    tasks.create_task(
                        self._forever(f"controller {name}", _Term(self, engine, since).run), name=f"controller {name}"
                    )
            # All queues are closed. The lease stays ours until the process is stopped.
            await asyncio.get_running_loop().create_future()
        finally:
            self.leading = False

    def _start_background(self, work: Background) -> asyncio.Task[None]:
        return asyncio.create_task(self._forever(work.name, lambda: work.run(self._backstage)), name=work.name)

    def _kinds_changed(self, came: frozenset[Kind], went: frozenset[Kind]) -> None:
        for engine in self.engines:
            engine.served_changed(came, went)
        wanted = {cache.selection.kind for cache in self.caches}
        wanted |= {kind for engine in self.engines for kind in engine.controller.asks}
        for kind in (came | went) & wanted:
            before = self._followers.get(kind)
            task = asyncio.create_task(self._follow(kind, kind in came, before), name=f"follow {kind.resource}")
            self._followers[kind] = task

    async def _follow(self, kind: Kind, served: bool, before: asyncio.Task[None] | None) -> None:
        """Starts or stops the caches of a kind, then wakes whom that concerns."""
        if before is not None:
            before.cancel()
            await asyncio.gather(before, return_exceptions=True)
        caches = [cache for cache in self.caches if cache.selection.kind == kind]
        if served:
            caches = [cache for cache in caches if self.caches.is_wanted(cache)]
            for cache in caches:
                cache.start()
                self.started_at[cache] = asyncio.get_running_loop().time()
            for cache in caches:
                await cache.wait_synced()
        else:
            log.info("%s is no longer served", kind.resource)
            for cache in caches:
                await cache.stop()
        for engine in self.engines:
            if kind in kinds_that_matter(engine.controller):
                engine.wake_all(f"{kind.resource} is {'served now' if served else 'no longer served'}")

    @property
    def problems(self) -> list[str]:
        """Why this process is not ready; empty when it is."""
        if not self.served.known:
            return [f"discovery has not succeeded yet: {self.served.error or 'no answer'}"]
        found = [
            f"controller {engine.controller.name} waits for {kind.resource} to be served"
            for engine in self.engines
            for kind in engine.missing()
        ]
        found += [
            f"controller {engine.controller.name} waits: {doubt}"
            for engine in self.engines
            if (doubt := self.served.doubt(sorted(kinds_that_matter(engine.controller), key=str)))
        ]
        # What users name may be forbidden to us: that is no reason to take the process out of service.
        needed = [cache for cache in self.caches if not self.caches.is_on_demand(cache)]
        found += [
            f"{cache.selection} is not listed yet: {cache.error or 'in progress'}"
            for cache in needed
            if not cache.synced and (cache.started or cache.selection.kind in self.served)
        ]
        found += [f"{cache.selection} is stale: {cache.error}" for cache in needed if cache.stale and cache.synced]
        return found

    @property
    def is_idle(self) -> bool:
        """Nothing is queued, in work or unseen right now."""
        return self.served.known and not self.problems and all(engine.is_idle for engine in self.engines)

    async def idle(self, *, quiet: float = 0.5, timeout: float = 300.0) -> None:
        """Waits until nothing is to be done, and for `quiet` seconds nothing comes. For tests; time is the loop's."""
        async with asyncio.timeout(timeout):
            while True:
                passes = self._passes
                await asyncio.sleep(quiet)
                if self.is_idle and self._passes == passes:
                    return

    @property
    def _passes(self) -> int:
        return sum(engine.passes for engine in self.engines)

    def engine(self, name: str) -> Engine:
        return next(engine for engine in self.engines if engine.controller.name == name)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class _Term:
    """One engine during one term of leadership."""

    def __init__(self, manager: Manager, engine: Engine, since: float) -> None:
        self._manager = manager
        self._engine = engine
        self._since = since

    async def run(self) -> None:
        await self._prepare()
        await self._engine.run()

    async def _prepare(self) -> None:
        """No pass before every cache shows the cluster as it was when the term began, or later."""
        manager, engine = self._manager, self._engine
        await manager.served.wait_known()
        said = ""
        while problem := self._obstacle():
            if problem != said:
                log.info("controller %s waits: %s", engine.controller.name, problem)
                said = problem
            await asyncio.sleep(0.1)
        for cache in engine.wrapped.caches if engine.wrapped is not None else ():
            # One that cannot be read is no obstacle: what it does not show is asked of the API.
            if not await cache.catch_up(WRAPPED_CATCH_UP_TIMEOUT):
                log.info("%s is not current: %s", cache.selection, cache.error)
        for cache in engine.caches:
            if cache.started and manager.started_at.get(cache, -1.0) < self._since:
                while cache.started and not await cache.catch_up(CATCH_UP_TIMEOUT):
                    log.warning("%s cannot be caught up: %s", cache.selection, cache.error)

    def _obstacle(self) -> str:
        # An optional kind that nobody can vouch for is not an absent one: what is made would be for another platform.
        if doubt := self._manager.served.doubt(sorted(kinds_that_matter(self._engine.controller), key=str)):
            return doubt
        if missing := self._engine.missing():
            return f"{missing[0].resource} is not served"
        if unsynced := self._engine.unsynced():
            return f"{unsynced[0].selection} is not listed yet ({unsynced[0].error or 'in progress'})"
        return ""
