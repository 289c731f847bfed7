"""Runs one controller: workers take keys from its queue, make a pass over each, and say what went wrong where it did."""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import dataclass, field
from typing import Protocol

from modelyard.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unauthorized, Unreachable
from modelyard.kube.kinds import Key, Kind
from modelyard.runtime.apicluster import ApiCluster, NotLeading, Shared
from modelyard.runtime.apply import OwnerGone
from modelyard.runtime.cache import Cache
from modelyard.runtime.cluster import declared_kinds
from modelyard.runtime.controller import Controller, Fixed
from modelyard.runtime.logs import context
from modelyard.runtime.memory import Memory
from modelyard.runtime.passes import InvalidResource, Pass, PassResult, ReconcileTimeout
from modelyard.runtime.queue import Queue, QueueClosed, QueueMetrics
from modelyard.runtime.sources import Sources

log = logging.getLogger(__name__)

SEEN_TIMEOUT = 10.0
"""A key waits at most so long for the caches to show what was written for it."""


class EngineMetrics(Protocol):
    """Is told what an engine does."""

    def reconciled(self, controller: str, result: str, seconds: float) -> None: ...

    def active(self, controller: str, workers: int) -> None: ...

    def queue(self, name: str) -> QueueMetrics | None: ...


class _Silence:
    def reconciled(self, controller: str, result: str, seconds: float) -> None: ...

    def active(self, controller: str, workers: int) -> None: ...

    def queue(self, name: str) -> QueueMetrics | None:
        return None


@dataclass(frozen=True)
class LastError:
    """For the debug page."""

    message: str
    at: str


@dataclass
class Engine:
    """One controller at work. `run` acts; before and after it, events are only noted."""

    controller: Controller
    shared: Shared
    namespace: str | None = None
    metrics: EngineMetrics = field(default_factory=_Silence)
    errors: dict[Key, LastError] = field(default_factory=dict)
    passes: int = 0
    """How many passes were made: lets a test see that nothing happened."""

    def __post_init__(self) -> None:
        self.queue: Queue[Key] = Queue(metrics=self.metrics.queue(self.controller.name))
        self.memory = Memory()
        self.sources = Sources(self.controller, self.shared.caches, self.wake)
        self.caches: list[Cache] = []
        self._known = {(k.api_version, k.kind): k for k in declared_kinds(self.controller)}
        self._ids = itertools.count(1)
        self._finishing: set[asyncio.Task[None]] = set()
        self._active = 0
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        for selection, handler in self.sources.all(self.namespace):
            cache = self.shared.caches.cache(selection)
            cache.subscribe(handler)
            self.caches.append(cache)

    def wake(self, key: Key) -> None:
        self.queue.add(key)

    def wake_all(self) -> None:
        """Every key that there is: something changed that concerns them all."""
        kind = self.controller.kind
        for entry in self.shared.caches.list(kind) if kind else ():
            # Another controller may follow the kind in more places than this one.
            if self.controller.minds(entry.key.namespace):
                self.wake(entry.key)
        if isinstance(self.controller.for_, Fixed):
            for key in self.controller.for_.keys:
                self.wake(key)

    @property
    def is_idle(self) -> bool:
        return self.queue.idle and not self._finishing

    def missing(self) -> list[Kind]:
        """The kinds that must be served before anything can be done, and are not."""
        controller, served = self.controller, self.shared.served
        needed = [controller.kind] if controller.kind and not controller.optional else []
        needed += [o.kind for o in controller.owns if not o.optional]
        needed += [w.kind for w in controller.watches if not w.optional]
        return [kind for kind in dict.fromkeys(needed) if kind not in served]

    def unsynced(self) -> list[Cache]:
        """The caches of served kinds that are not complete yet: a pass would take their emptiness for absence."""
        return [cache for cache in self.caches if cache.selection.kind in self.shared.served and not cache.synced]

    async def run(self) -> None:
        """Works until cancelled, or until the queue is closed. One failing pass never ends it."""
        self._at_rest.clear()
        self.wake_all()
        tasks = [
            asyncio.create_task(self._work(), name=f"{self.controller.name} worker {number}")
            for number in range(self.controller.concurrency)
        ]
        if self.controller.resync:
            tasks.append(
                asyncio.create_task(self._resync(self.controller.resync), name=f"{self.controller.name} resync")
            )
        try:
            await asyncio.gather(*tasks[: self.controller.concurrency])
        finally:
            for task in (*tasks, *self._finishing):
                task.cancel()
            await asyncio.gather(*tasks, *self._finishing, return_exceptions=True)
            self._at_rest.set()

    async def drain(self) -> None:
        """Takes no more keys, and returns when the passes that are under way have ended."""
        self.queue.close()
        await self._at_rest.wait()

    async def _resync(self, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            self.wake_all()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                cluster = await self._process(key)
            except BaseException:
                self.queue.add(key)
                self.queue.done(key)
                raise
            if not cluster.written:
                self.queue.done(key)
                continue
            # The worker goes on with other keys; this one is not handed out again before the caches caught up.
            task = asyncio.create_task(self._finish(key, cluster), name=f"{self.controller.name} waits for {key}")
            self._finishing.add(task)
            task.add_done_callback(self._finishing.discard)

    async def _finish(self, key: Key, cluster: ApiCluster) -> None:
        try:
            if not await cluster.wait_until_seen(SEEN_TIMEOUT):
                log.info("%s %s: the caches did not show our own writes in time", self.controller.name, key)
        finally:
            self.queue.done(key)

    async def _process(self, key: Key) -> ApiCluster:
        self.passes += 1
        cluster = ApiCluster(self.shared, self.controller, self._known)
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._count(+1)
        with context(
            controller=self.controller.name, namespace=key.namespace, name=key.name, reconcile=next(self._ids)
        ):
            try:
                result = await self._pass(key, cluster)
            finally:
                self._count(-1)
            self.metrics.reconciled(self.controller.name, result, loop.time() - started)
        return cluster

    def _count(self, change: int) -> None:
        self._active += change
        self.metrics.active(self.controller.name, self._active)

    async def _pass(self, key: Key, cluster: ApiCluster) -> str:
        """One pass and what follows from it; gives the name of its result for the metrics."""
        made = Pass(self.controller, cluster, self.memory.of(key), key, timeout=self.controller.timeout)
        try:
            result = await made.run()
        except NotLeading:
            return "error"
        except (Conflict, NotFound, OwnerGone) as error:
            # Our view was a moment too old; nothing is wrong with the resource.
            log.debug("stale view: %s", error)
            self.queue.add_rate_limited(key)
            return "requeue"
        except (Unreachable, TooManyRequests, Unauthorized) as error:
            self._note(key, str(error))
            log.warning("the API cannot be used now: %s", error)
            self._retry(key, error)
            return "error"
        except InvalidResource as error:
            self._note(key, str(error))
            log.warning("%s", error)
            await self._say(made, "InvalidResource", str(error))
            self.queue.forget(key)
            return "error"
        except ReconcileTimeout as error:
            return await self._failed(key, made, "ReconcileTimeout", str(error))
        except ApiError as error:
            return await self._failed(key, made, "ApplyFailed", error.message)
        except Exception as error:
            log.exception("reconcile failed")
            return await self._failed(key, made, "ReconcileFailed", f"{type(error).__name__}: {error}")
        return self._after(key, made, result)

    async def _failed(self, key: Key, made: Pass, reason: str, message: str) -> str:
        self._note(key, message)
        log.warning("%s: %s", reason, message)
        await self._say(made, reason, message)
        self.queue.add_rate_limited(key)
        return "error"

    async def _say(self, made: Pass, reason: str, message: str) -> None:
        try:
            await made.fail(reason, message)
        except (ApiError, Unreachable, NotLeading) as error:
            log.info("the failure could not be written into the status: %s", error)

    def _retry(self, key: Key, error: Exception) -> None:
        asked = error.retry_after if isinstance(error, ApiError) else None
        delay = self.queue.add_rate_limited(key)
        if asked and asked > delay:
            self.queue.add_after(key, asked)

    def _after(self, key: Key, made: Pass, result: PassResult) -> str:
        if made.resource is None and self.controller.kind is not None:
            self.memory.forget(key)
            self.errors.pop(key, None)
            self.queue.forget(key)
            return "success"
        if result.superseded:
            if key not in self.errors or self.errors[key].message != result.superseded:
                log.warning("%s", result.superseded)
            self._note(key, result.superseded)
            self.queue.forget(key)
            self.queue.add_after(key, result.requeue_after or 0.0)
            return "requeue_after"
        if result.must_retry:
            first = next(f for f in result.failures if f.retryable)
            self._note(key, f"{first.reason}: {first.kind.kind} {first.key}: {first.message}")
            log.warning("%s: %s %s: %s", first.reason, first.kind.kind, first.key, first.message)
            self.queue.add_rate_limited(key)
            return "error"
        self.errors.pop(key, None)
        self.queue.forget(key)
        if result.finalized:
            self.memory.forget(key)
        if result.requeue_after is not None:
            self.queue.add_after(key, result.requeue_after)
            return "requeue_after"
        return "success"

    def _note(self, key: Key, message: str) -> None:
        self.errors[key] = LastError(message, self.shared.clock().isoformat(timespec="seconds"))
