"""Services: a TCP listener for each port of each Service, forwarding to ready endpoints.

A listener opens as soon as its Service exists. A connection that finds no ready endpoint is held for a few seconds, since
an endpoint is usually about to come; only then is it refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from modelyard.kube.kinds import Object

HOLD = 5.0
_RETRY = 0.05

Complain = Callable[[Object, str, str], None]
"""Tells an Event about a Service: the object, a reason, a message."""


@dataclass(frozen=True, slots=True)
class Front:
    """One port of one Service."""

    namespace: str
    service: str
    port_name: str
    address: str
    port: int


@dataclass(slots=True)
class _Open:
    front: Front
    server: asyncio.Server
    connections: set[Relay] = field(default_factory=set)


class Forwarder:
    """Keeps listeners equal to the Services it was last shown, and their targets equal to the EndpointSlices."""

    def __init__(self, *, hold: float = HOLD, complain: Complain = lambda service, reason, message: None) -> None:
        self._hold = hold
        self._complain = complain
        self._open: dict[Front, _Open] = {}
        self._failed: set[Front] = set()
        self._targets: dict[tuple[str, str, str], list[tuple[str, int]]] = {}
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = random.randrange(1 << 16)

    async def update(self, services: Iterable[Object], slices: Iterable[Object]) -> None:
        self.set_targets(slices)
        wanted: dict[Front, Object] = {}
        for service in services:
            for front in fronts(service):
                wanted[front] = service
        for front in [front for front in self._open if front not in wanted]:
            opened = self._open.pop(front)
            opened.server.close()
            for relay in list(opened.connections):
                relay.abort()
        self._failed &= set(wanted)
        for front, service in wanted.items():
            if front not in self._open and front not in self._failed:
                await self._listen(front, service)

    def set_targets(self, slices: Iterable[Object]) -> None:
        """Take over the endpoints at once, so that a connection accepted from now on uses them."""
        self._targets = targets(slices)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _listen(self, front: Front, service: Object) -> None:
        loop = asyncio.get_running_loop()
        opened: _Open | None = None

        def accepted() -> asyncio.Protocol:
            relay = Relay(lambda r: opened.connections.discard(r) if opened else None)
            task = asyncio.create_task(self._connect(front, relay))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if opened is not None:
                opened.connections.add(relay)
            return relay

        try:
            server = await loop.create_server(accepted, front.address, front.port, reuse_address=True, backlog=512)
        except PermissionError:
            self._failed.add(front)
            self._complain(
                service, "PortNotAvailable",
                f"port {front.port} of Service {front.namespace}/{front.service} cannot be opened: ports below 1024 need "
                "root on this machine; use a higher port, or connect to the pods",
            )  # fmt: skip
            return
        except OSError as error:
            self._failed.add(front)
            message = f"{front.address}:{front.port} of Service {front.namespace}/{front.service}: {error.strerror}"
            self._complain(service, "PortNotAvailable", message)
            return
        opened = _Open(front, server)
        self._open[front] = opened

    async def _connect(self, front: Front, relay: Relay) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._hold
        key = (front.namespace, front.service, front.port_name)
        while not relay.closed:
            changed = self._changed
            found = self._targets.get(key) or []
            self._turn += 1
            for step in range(len(found)):
                address, port = found[(self._turn + step) % len(found)]
                try:
                    await loop.create_connection(relay.other_side, address, port)
                    return
                except OSError:
                    continue
            left = deadline - loop.time()
            if left <= 0:
                relay.abort()
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), min(left, _RETRY) if found else left)

    def listening(self) -> set[Front]:
        return set(self._open)

    async def close(self) -> None:
        for opened in self._open.values():
            opened.server.close()
            for relay in list(opened.connections):
                relay.abort()
        self._open.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def fronts(service: Object) -> list[Front]:
    """The addresses a Service should listen on: its cluster IP with each TCP port."""
    spec, meta = service["spec"], service["metadata"]
    address = spec.get("clusterIP") or ""
    if not address.startswith("127.") or meta.get("deletionTimestamp"):
        return []
    return [
        Front(meta["namespace"], meta["name"], port.get("name") or "", address, int(port["port"]))
        for port in spec.get("ports") or []
        if port.get("protocol", "TCP") == "TCP"
    ]


def targets(slices: Iterable[Object]) -> dict[tuple[str, str, str], list[tuple[str, int]]]:
    """Where each Service port leads: its ready endpoints, or those still serving while they end if no other is ready."""
    ready: dict[tuple[str, str, str], set[tuple[str, int]]] = {}
    ending: dict[tuple[str, str, str], set[tuple[str, int]]] = {}
    for item in slices:
        meta = item["metadata"]
        service = (meta.get("labels") or {}).get("kubernetes.io/service-name")
        if not service:
            continue
        for port in item.get("ports") or []:
            if port.get("port") is None:
                continue
            key = (meta["namespace"], service, port.get("name") or "")
            for endpoint in item.get("endpoints") or []:
                conditions = endpoint.get("conditions") or {}
                pairs = {(address, int(port["port"])) for address in endpoint.get("addresses") or []}
                if conditions.get("ready") is not False:
                    ready.setdefault(key, set()).update(pairs)
                elif conditions.get("serving") and conditions.get("terminating"):
                    ending.setdefault(key, set()).update(pairs)
    return {key: sorted(ready.get(key) or ending.get(key) or ()) for key in {*ready, *ending}}


class Relay(asyncio.Protocol):
    """One connection passed through: bytes both ways with back-pressure, half-closes kept."""

    def __init__(self, on_closed: Callable[[Relay], None]) -> None:
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._peer: _OtherSide | None = None
        self._early: list[bytes] = []
        self._early_eof = False
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._peer is None:
            # Nothing is read until there is somewhere to write it to.
            transport.pause_reading()

    def other_side(self) -> _OtherSide:
        return _OtherSide(self)

    def joined(self, peer: _OtherSide) -> None:
        if self.closed:
            peer.abort()
            return
        self._peer = peer
        for data in self._early:
            peer.write(data)
        self._early.clear()
        if self._early_eof:
            peer.write_eof()
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._peer is not None:
            self._peer.write(data)
        else:
            # Reading is paused, but what was on its way when that happened may still come.
            self._early.append(data)

    def eof_received(self) -> bool:
        if self._peer is not None:
            self._peer.write_eof()
        else:
            self._early_eof = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._peer is not None:
            self._peer.close()
        self._on_closed(self)

    def pause_writing(self) -> None:
        if self._peer is not None:
            self._peer.pause()

    def resume_writing(self) -> None:
        if self._peer is not None:
            self._peer.resume()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def write_eof(self) -> None:
        if self._transport is not None and self._transport.can_write_eof() and not self.closed:
            with contextlib.suppress(OSError, RuntimeError):
                self._transport.write_eof()

    def pause(self) -> None:
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()
        if self._peer is not None:
            self._peer.abort()


class _OtherSide(asyncio.Protocol):
    """The connection to the endpoint."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._relay.joined(self)

    def data_received(self, data: bytes) -> None:
        self._relay.write(data)

    def eof_received(self) -> bool:
        self._relay.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._relay.close()

    def pause_writing(self) -> None:
        self._relay.pause()

    def resume_writing(self) -> None:
        self._relay.resume()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def write_eof(self) -> None:
        if self._transport is not None and not self._lost:
            with contextlib.suppress(OSError, RuntimeError):
                self._transport.write_eof()

    def pause(self) -> None:
        if self._transport is not None and not self._lost:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._lost:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
