"""Faults on demand: latency, refusals, lost watches, forgotten history and stale reads, per verb and resource."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from modelyard.local.apiserver.requests import problems
from modelyard.local.apiserver.requests.paths import Target
from modelyard.local.apiserver.requests.problems import Problem

if TYPE_CHECKING:
    from modelyard.local.apiserver.server import ApiServer


@dataclass
class Fault:
    """What goes wrong, for which requests, and how often. Remove it with `faults.remove`."""

    verbs: frozenset[str]
    resource: str
    namespace: str
    name: str
    status: int
    message: str
    delay: float
    times: int | None
    skip: int
    subresource: str | None = None
    """Empty: only the object itself; None: the object and all its subresources."""
    hits: int = field(default=0)

    def concerns(self, target: Target) -> bool:
        full = f"{target.resource}.{target.group}" if target.group else target.resource
        return (
            (not self.verbs or target.verb in self.verbs)
            and self.resource in ("", target.resource, full)
            and self.namespace in ("", target.namespace)
            and self.name in ("", target.name)
            and self.subresource in (None, target.subresource)
        )


class Faults:
    """The faults of a server. Without any they cost nothing."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._stale: dict[str, int] = {}

    @property
    def active(self) -> bool:
        return bool(self._faults)

    def add(
        self,
        *verbs: str,
        resource: str = "",
        namespace: str = "",
        name: str = "",
        status: int = 0,
        message: str = "",
        delay: float = 0.0,
        times: int | None = None,
        skip: int = 0,
        subresource: str | None = None,
    ) -> Fault:
        """From now on, requests that fit are delayed, or refused with a status (409, 429, 500, 503, ...), or both.

        No verbs: all of them. `times` ends the fault after so many hits; `skip` lets the first ones pass."""
        fault = Fault(frozenset(verbs), resource, namespace, name, status, message, delay, times, skip, subresource)
        self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        if fault in self._faults:
            self._faults.remove(fault)

    def clear(self) -> None:
        """Ends all faults, stale reads included."""
        self._faults.clear()
        self._stale.clear()

    def serve_stale(self, resource: str, version: int) -> None:
        """Gets and lists of a resource (`pods`, `deployments.apps`) show the state at a version until `clear` or `serve_fresh`,
        as a replica that lags behind does. Writes and watches go on."""
        self._stale[resource] = version

    def serve_fresh(self, resource: str) -> None:
        self._stale.pop(resource, None)

    def stale_version(self, resource: str) -> int | None:
        return self._stale.get(resource) if self._stale else None

    async def before(self, target: Target, server: ApiServer) -> None:
        for fault in list(self._faults):
            if not fault.concerns(target):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.hits += 1
            if fault.times is not None and fault.hits >= fault.times:
                self.remove(fault)
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.status:
                raise _refusal(fault, target, server)


def _refusal(fault: Fault, target: Target, server: ApiServer) -> Problem:
    message = fault.message or "a fault of the test bench"
    resource = server.registry.lookup(target.group, target.version, target.resource)
    match fault.status:
        case 409 if resource is not None:
            return problems.conflict(resource.kind, target.name, fault.message or problems.OPTIMISTIC_LOCK)
        case 429:
            return problems.too_many_requests(message)
        case 500:
            return problems.internal_error(message)
        case 503:
            return problems.service_unavailable(message)
        case 504:
            return problems.timeout(message)
        case 410:
            return problems.expired(message)
    return problems.custom(fault.status, "", message)
