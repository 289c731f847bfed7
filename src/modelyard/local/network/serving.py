"""What the gateway serves, kept current from the API: routes, their backends' endpoints, and what the objects are told about it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Iterable
from dataclasses import replace

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Key, Kind
from modelyard.kube.times import format_time, utc_now
from modelyard.local.network import routes
from modelyard.local.network.forwarder import targets
from modelyard.local.network.published import READERS, Published, Settled, settle
from modelyard.local.network.route_reports import event_of, refusal, status_of
from modelyard.local.network.routes import Backend, Table
from modelyard.runtime.caching.caches import CacheSet
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.watching import Selection

_RETRY_SECONDS = 1.0


class Serving:
    def __init__(self, client: Client, caches: CacheSet) -> None:
        self._client = client
        self._caches = caches
        self._kinds: set[Kind] = set()
        self._stale = True
        self._seen: dict[str, int] = {}
        """The order in which objects came: times of creation are in whole seconds."""
        self._settled: list[Settled] = []
        self._table = Table([])
        self._labels: dict[str, tuple[Settled, Table]] = {}
        self._changed = asyncio.Event()
        self._told: dict[str, str] = {}
        self._reporter: asyncio.Task[None] | None = None

    def start(self, port: int) -> None:
        for kind in (builtin.Service, builtin.EndpointSlice):
            self._follow(kind)
        self._reporter = asyncio.create_task(self._report(port), name="route status")

    async def stop(self) -> None:
        if self._reporter is not None:
            self._reporter.cancel()
            await asyncio.gather(self._reporter, return_exceptions=True)

    def serve(self, kinds: Iterable[Kind]) -> None:
        """Follow these kinds (those that the API has)."""
        for kind in set(kinds) & {*READERS, builtin.ReferenceGrant} - self._kinds:
            self._kinds.add(kind)
            self._follow(kind)

    def _follow(self, kind: Kind) -> None:
        def changed(old: Entry | None, new: Entry | None) -> None:
            # Endpoints come and go all the time, and are looked up when they are needed.
            if kind != builtin.EndpointSlice:
                self._stale = self._stale or kind != builtin.Service
                self._changed.set()

        cache = self._caches.cache(Selection(kind))
        cache.subscribe(changed)
        cache.start()

    def _refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        found = [
            Published.read(kind, entry.object)
            for kind in self._kinds & set(READERS)
            for entry in self._caches.list(kind)
        ]
        grants = [entry.object for entry in self._caches.list(builtin.ReferenceGrant)]
        found.sort(key=lambda each: each.source)
        for each in found:
            self._seen.setdefault(each.uid, len(self._seen))
        found.sort(key=lambda each: self._seen[each.uid])
        self._settled = settle(found, grants if builtin.ReferenceGrant in self._kinds else ())
        self._table = Table(route for each in self._settled for route in each.routes)
        self._labels = {}
        for settled in self._settled:
            own = Table(replace(route, host="") for route in settled.routes)
            self._labels.setdefault(settled.published.label, (settled, own))

    @property
    def settled(self) -> list[Settled]:
        self._refresh()
        return self._settled

    @property
    def table(self) -> Table:
        """All routes, for requests that name no service."""
        self._refresh()
        return self._table

    def at_label(self, label: str) -> tuple[Settled, Table] | None:
        """The service of a host label, with its own routes alone."""
        self._refresh()
        return self._labels.get(label)

    def of_source(self, source: str) -> Settled | None:
        return next((each for each in self.settled if each.published.source == source), None)

    def endpoint(self, backend: Backend) -> str | None:
        """The base URL of a ready endpoint."""
        entry = self._caches.get(builtin.Service, Key(backend.namespace, backend.service))
        port = routes.service_port(entry.object, backend.port) if entry is not None else None
        if port is None:
            return None
        labels = f"kubernetes.io/service-name={backend.service}"
        slices = [item.object for item in self._caches.list(builtin.EndpointSlice, backend.namespace, labels)]
        found = targets(slices).get((backend.namespace, backend.service, port.get("name") or ""))
        if not found:
            return None
        address, number = random.choice(found)
        https = routes.speaks_https(port) if backend.https is None else backend.https
        return f"{'https' if https else 'http'}://{address}:{number}"

    def problem(self, settled: Settled) -> str:
        """Why a service does not answer, in one sentence; empty if it is ready."""
        if not settled.routes:
            return "It names no path to serve." if settled.is_complete else f"{refusal(settled)}."
        backends = [each for route in settled.routes for each in route.backends]
        if settled.forbidden:
            return f"{settled.forbidden[0]} is in another namespace, which has no ReferenceGrant for it."
        for backend in backends:
            if not self._exists(backend):
                return f"Service {backend.service} does not exist in namespace {backend.namespace}."
            if self.endpoint(backend) is None:
                return f"No pod of Service {backend.service} is ready yet."
        return ""

    def _exists(self, backend: Backend) -> bool:
        return self._caches.get(builtin.Service, Key(backend.namespace, backend.service)) is not None

    async def _report(self, port: int) -> None:
        """Tells each object what it got, whenever that may have changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                for each in self.settled:
                    await self._tell(each, port)
            except (ApiError, Unreachable):
                await asyncio.sleep(_RETRY_SECONDS)
                self._changed.set()

    async def _tell(self, settled: Settled, port: int) -> None:
        one, now = settled.published, format_time(utc_now())
        status = status_of(settled, port, self._exists, now)
        mark = f"{one.object['metadata'].get('generation')} {status_of(settled, port, self._exists, '')}"
        if status is None or self._told.get(one.uid) == mark:
            return
        with contextlib.suppress(ApiError):
            await self._client.patch(one.kind, one.namespace, one.name, {"status": status}, subresource="status")
            if settled.refusals and one.kind == builtin.Ingress:
                name = f"{one.name[:200]}.{secrets.token_hex(8)}"
                await self._client.create(builtin.Event, event_of(settled, now, name))
        self._told[one.uid] = mark
