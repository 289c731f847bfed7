"""Leader election on a Lease: at most one process acts. Losing it means standby in process, never an exit."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from modelyard.kube.builtin import Lease
from modelyard.kube.client import Client
from modelyard.kube.errors import AlreadyExists, ApiError, Conflict, Unreachable
from modelyard.kube.kinds import Object
from modelyard.kube.times import format_micro_time

log = logging.getLogger(__name__)

SHORTEST_PAUSE = 0.05
"""Between two attempts, however little time is left."""


@dataclass(frozen=True)
class LeaseSettings:
    """Where the lease is and how long it lasts, in seconds. The durations are those that Go controllers use."""

    name: str
    namespace: str
    duration: float = 15.0
    """Others wait so long after the last renewal before they take over."""
    renew_deadline: float = 10.0
    """We stop acting so long after our last renewal: earlier than others may begin."""
    retry: float = 2.0


class Elector:
    """Tries to hold the lease, for ever. While it is held, `lead` runs; when it is lost, `lead` is cancelled."""

    def __init__(
        self,
        client: Client,
        settings: LeaseSettings,
        identity: str,
        clock: Callable[[], datetime],
        *,
        chance: Callable[[], float] = random.random,
        on_change: Callable[[bool], None] = lambda leading: None,
    ) -> None:
        self.settings = settings
        self.identity = identity
        self.holder = ""
        """Who holds the lease, as far as we know."""
        self._client = client
        self._clock = clock
        self._chance = chance
        self._on_change = on_change
        self._held_until = float("-inf")
        self._record: Object | None = None
        self._observed: tuple[object, ...] = ()
        self._observed_at = 0.0

    @property
    def held(self) -> bool:
        """May we act right now?"""
        return asyncio.get_running_loop().time() < self._held_until

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled; then the lease is given back, so that another need not wait for it to run out."""
        try:
            while True:
                await self._acquire()
                await self._lead(lead)
        finally:
            if self.held:
                await asyncio.shield(self._release())

    async def _acquire(self) -> None:
        while True:
            if await self._try():
                break
            await asyncio.sleep(self.settings.retry * (0.8 + 0.4 * self._chance()))
        log.info("this process leads now (%s)", self.identity)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        self._on_change(True)
        work = asyncio.ensure_future(lead())
        try:
            await self._renew_while(work)
        finally:
            if not work.done():
                work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self._on_change(False)
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("leading failed and is begun again", exc_info=error)

    async def _renew_while(self, work: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        while not work.done():
            left = min(self.settings.retry, self._held_until - loop.time())
            await asyncio.wait([work], timeout=max(left, SHORTEST_PAUSE))
            if work.done():
                return
            if not await self._try() and not self.held:
                log.warning("the lease is lost (held by %s); on standby", self.holder or "nobody we know of")
                return

    async def _try(self) -> bool:
        """One attempt to get or to renew the lease."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        limit = max(self._held_until - started, 0.0) or self.settings.renew_deadline
        try:
            async with asyncio.timeout(min(limit, self.settings.renew_deadline)):
                held = await self._write_record()
        except (Conflict, AlreadyExists):
            self._record = None
            return False
        except (ApiError, Unreachable, TimeoutError) as error:
            self._record = None
            log.info("the lease could not be read or written: %s", error or type(error).__name__)
            return False
        if held:
            # Counted from before the request: the server may have stored it at once and answered late.
            self._held_until = started + self.settings.renew_deadline
        elif self.holder != self.identity:
            self._held_until = float("-inf")
        return held

    async def _write_record(self) -> bool:
        settings = self.settings
        record = self._record or await self._client.find(Lease, settings.namespace, settings.name)
        now = format_micro_time(self._clock())
        if record is None:
            spec = self._spec(now, acquired=now, transitions=0)
            metadata = {"name": settings.name, "namespace": settings.namespace}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            self._record = await self._client.create(Lease, body)
            self.holder = self.identity
            return True
        spec = record.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        if self.holder != self.identity and not self._has_run_out(spec):
            self._record = None
            return False
        mine = self.holder == self.identity
        transitions = int(spec.get("leaseTransitions") or 0) + (not mine)
        new = self._spec(now, acquired=spec.get("acquireTime") or now if mine else now, transitions=transitions)
        self._record = await self._client.update(Lease, record | {"spec": new})
        self.holder = self.identity
        return True

    def _has_run_out(self, spec: Object) -> bool:
        """Nobody holds it, or its record has not changed for its whole duration on our own clock (clocks differ between machines)."""
        if not self.holder:
            return True
        now = asyncio.get_running_loop().time()
        seen = (self.holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        if seen != self._observed:
            self._observed, self._observed_at = seen, now
        duration = float(spec.get("leaseDurationSeconds") or self.settings.duration)
        return now - self._observed_at >= duration

    def _spec(self, now: str, *, acquired: str, transitions: int) -> Object:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self.settings.duration),
            "acquireTime": acquired,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _release(self) -> None:
        self._held_until = float("-inf")
        if self._record is None:
            return
        now = format_micro_time(self._clock())
        spec = self._record.get("spec") or {}
        freed = spec | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        try:
            async with asyncio.timeout(self.settings.retry):
                await self._client.update(Lease, self._record | {"spec": freed})
        except (ApiError, Unreachable, TimeoutError) as error:
            log.info("the lease could not be given back: %s", error or type(error).__name__)
