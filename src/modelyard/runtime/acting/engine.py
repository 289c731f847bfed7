"""Runs one controller: workers take keys from its queue, make a pass over each, and say what went wrong where it did."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from modelyard.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unauthorized, Unreachable
from modelyard.kube.kinds import Key, Kind
from modelyard.runtime.acting.apicluster import ApiCluster, Change, NotLeading, Shared
from modelyard.runtime.acting.apply import OwnerGone
from modelyard.runtime.acting.cluster import declared_kinds
from modelyard.runtime.acting.memory import Memory
from modelyard.runtime.acting.passes import FinalizerNotRemoved, InvalidResource, Pass, PassResult, ReconcileTimeout
from modelyard.runtime.acting.queue import Queue, QueueClosed, QueueMetrics
from modelyard.runtime.acting.slots import Slot, Slots
from modelyard.runtime.acting.sources import Sources
from modelyard.runtime.acting.wrapped import WrappedKinds
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.declaring.controller import Controller, Wraps
from modelyard.runtime.process.logs import context

log = logging.getLogger(__name__)

SEEN_TIMEOUT = 10.0
"""A key waits at most so long for the caches to show what was written for it."""


RECENT_PASSES = 200
"""So many passes of a controller are kept for the debug page."""
_FAILED = frozenset(("error", "requeue"))
"""The results after which a key comes again after a pause that grows."""


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


@dataclass(frozen=True)
class PassNote:
    """One pass that was made, for the debug page."""

    key: Key
    why: str
    result: str
    seconds: float
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
        self.view = self.shared.caches.view()
        self.sources = Sources(self.controller, self.view, self.wake)
        self.caches: list[Cache] = []
        self._known = {(k.api_version, k.kind): k for k in declared_kinds(self.controller)}
        self._ids = itertools.count(1)
        self._finishing: set[asyncio.Task[None]] = set()
        self.recent: deque[PassNote] = deque(maxlen=RECENT_PASSES)
        self._why: dict[Key, Change | str] = {}
        """What woke a key first since its last pass; none: its own timer."""
        self._heard: dict[Key, list[Change]] = {}
        """The events for each key in work: when its work is over, they are compared with what it wrote."""
        self._active = 0
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        for selection, handler in self.sources.all(self.namespace):
            cache = self.shared.caches.cache(selection)
            self.view.include(cache)
            cache.subscribe(handler)
            self.caches.append(cache)
        self.wrapped: WrappedKinds | None = None
        if self.controller.wraps is not None:
            self._follow_wrapped(self.controller.wraps)
        for trigger in self.controller.triggers:
            trigger.subscribe(partial(self.wake, why="something outside of the API"))

    def _follow_wrapped(self, wraps: Wraps) -> None:
        self.wrapped = WrappedKinds(
            self.controller.name, wraps, self.shared, self.view, self.namespace, self.sources.wrapped_handler
        )
        for cache in self.caches:
            if cache.selection.kind == self.controller.kind:
                cache.subscribe(self.wrapped.resource_changed)

    def served_changed(self, came: frozenset[Kind], went: frozenset[Kind]) -> None:
        """Kinds came or went: whoever wraps one of them looks again."""
        for key in self.wrapped.served_changed(came, went) if self.wrapped is not None else ():
            self.wake(key, why="a kind that it wraps came or went")

    def wake(self, key: Key, change: Change | None = None, *, why: str = "") -> None:
        self.controller.face(key)
        if change is not None and self.queue.is_in_work(key):
            self._heard.setdefault(key, []).append(change)
            return
        self._why.setdefault(key, change or why)
        self.queue.add(key)

    def wake_all(self, why: str) -> None:
        """Every key that there is: something changed that concerns them all."""
        for face in self.controller.faces:
            for entry in self.view.list(face.kind) if face.kind else ():
                if face.handles_namespace(entry.key.namespace):
                    self.wake(face.key_for(entry.key), why=why)
        for key in self.controller.keys_without_resource(self.sources.reader):
            self.wake(key, why=why)

    @property
    def is_idle(self) -> bool:
        return self.queue.idle and not self._finishing

    def missing(self) -> list[Kind]:
        """The kinds that must be served before anything can be done, and are not."""
        controller, served = self.controller, self.shared.served
        needed = [face.kind for face in controller.faces if face.kind and not face.optional]
        needed += [o.kind for o in controller.owns if not o.optional]
        needed += [w.kind for w in controller.watches if not w.optional]
        return [kind for kind in dict.fromkeys(needed) if kind not in served]

    def unsynced(self) -> list[Cache]:
        """The caches of served kinds that are not complete yet: a pass would take their emptiness for absence."""
        return [cache for cache in self.caches if cache.selection.kind in self.shared.served and not cache.synced]

    async def run(self) -> None:
        """Works until cancelled, or until the queue is closed. One failing pass never ends it."""
        self._at_rest.clear()
        self.wake_all("the controller starts to act")
        name, resync = self.controller.name, None
        if self.controller.resync:
            resync = asyncio.create_task(self._resync(self.controller.resync), name=f"{name} resync")
        try:
            async with asyncio.TaskGroup() as passes:
                await self._hand_out(passes)
        finally:
            others = [*self._finishing, *([resync] if resync is not None else [])]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            self._at_rest.set()

    async def _hand_out(self, passes: asyncio.TaskGroup) -> None:
        """Starts a pass for each key that is ready, as many at once as there are slots, until the queue is closed."""
        slots = Slots(self.controller.concurrency)
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            slot = Slot(slots)
            try:
                await slot.take()
            except BaseException:
                self.queue.add(key)
                self._done(key)
                raise
            passes.create_task(self._work(key, slot), name=f"{self.controller.name} {key}")

    async def drain(self) -> None:
        """Takes no more keys, and returns when the passes that are under way have ended."""
        self.queue.close()
        await self._at_rest.wait()

    async def _resync(self, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            self.wake_all(f"a look at everything every {interval:g} s")

    async def _work(self, key: Key, slot: Slot) -> None:
        cluster = ApiCluster(self.shared, self.controller, self._known, self.view, slot=slot)
        try:
            result = await self._process(key, cluster)
        except BaseException:
            self.queue.add(key)
            self._done(key)
            raise
        finally:
            slot.give_back()
        failed = result in _FAILED
        if not cluster.written:
            self._done(key, failed=failed)
            return
        # The key is not handed out again before the caches caught up. That wait does not outlive the controller's term.
        finish = self._finish(key, cluster, failed=failed)
        task = asyncio.create_task(finish, name=f"{self.controller.name} waits for {key}")
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _finish(self, key: Key, cluster: ApiCluster, *, failed: bool) -> None:
        try:
            if not await cluster.wait_until_seen(SEEN_TIMEOUT):
                log.info("%s %s: the caches did not show our own writes in time", self.controller.name, key)
        finally:
            self._done(key, [write.change for write in cluster.written], failed=failed)

    def _done(self, key: Key, written: Sequence[Change] = (), *, failed: bool = False) -> None:
        """Ends the work on a key. After a failure the events of its own writes do not count: the status that tells of the
        failure would wake the key at once, again and again, and the pauses between its tries would never come."""
        heard = self._heard.pop(key, [])
        news = next((change for change in heard if not failed or change not in written), None)
        if news is not None:
            self._why.setdefault(key, news)
            self.queue.add(key)
        self.queue.done(key)

    async def _process(self, key: Key, cluster: ApiCluster) -> str:
        """One pass; gives the name of its result."""
        self.passes += 1
        loop = asyncio.get_running_loop()
        started = loop.time()
        why = self._why_now(key)
        self._count(+1)
        with context(
            controller=self.controller.name, namespace=key.namespace, name=key.name, reconcile=next(self._ids)
        ):
            log.debug("woken by %s", why)
            try:
                result = await self._pass(key, cluster)
            finally:
                self._count(-1)
            seconds = loop.time() - started
            self.metrics.reconciled(self.controller.name, result, seconds)
            self.recent.append(PassNote(key, why, result, seconds, self._now()))
        return result

    def _why_now(self, key: Key) -> str:
        found = self._why.pop(key, None)
        if found is not None:
            return str(found)
        failures = self.queue.failures(key)
        return f"another try after {failures} failures" if failures else "its own timer"

    def _now(self) -> str:
        return self.shared.clock().isoformat(timespec="seconds")

    def _count(self, change: int) -> None:
        self._active += change
        self.metrics.active(self.controller.name, self._active)

    async def _pass(self, key: Key, cluster: ApiCluster) -> str:
        """One pass and what follows from it; gives the name of its result for the metrics."""
        made = Pass(self.controller, cluster, self.memory.of(key), key, timeout=self.controller.timeout)
        try:
            result = await made.run()
        except NotLeading:
            # The queue outlives the term: whoever leads next in this process takes the key up again.
            self.queue.add_rate_limited(key)
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
        except FinalizerNotRemoved as error:
            return await self._failed(key, made, "FinalizerNotRemoved", str(error))
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
        if made.resource is None and made.controller.kind is not None and result.outcome is None:
            self._forget(key)
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
            if result.requeue_after is not None:
                self.queue.add_after(key, result.requeue_after)
            return "error"
        self.errors.pop(key, None)
        self.queue.forget(key)
        if result.finalized or (made.resource is None and result.leaves_nothing):
            self.memory.forget(key)
        if result.requeue_after is not None:
            self.queue.add_after(key, result.requeue_after)
            return "requeue_after"
        return "success"

    def _forget(self, key: Key) -> None:
        self.memory.forget(key)
        self.errors.pop(key, None)
        self.queue.forget(key)

    def _note(self, key: Key, message: str) -> None:
        self.errors[key] = LastError(message, self._now())
