"""A transport between a manager and its API server on which things go wrong, as a test asks for it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from modelyard.kube.errors import Unreachable
from modelyard.kube.transport import Around, Response, Sent, Transport


def is_business(sent: Sent) -> bool:
    """A write of the controllers' own; leases and Events are the runtime's."""
    return sent.is_write and sent.resource not in ("leases", "events")


@dataclass(frozen=True)
class Answer:
    """An answer made up on the way."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body

    async def close(self) -> None:
        return


def refusal(code: int, reason: str, message: str = "a fault of the test") -> Answer:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return Answer(code, json.dumps(status | {"message": message}).encode())


class Fault:
    """Nothing goes wrong. Subclasses change that."""

    lateness = 0.0
    """How long after it happened something may still come."""

    async def before(self, sent: Sent) -> Response | None:
        """May answer in place of the server, wait, or raise."""
        return None

    async def after(self, sent: Sent) -> None:
        """The server has done it; the answer may still be lost."""

    async def event(self, sent: Sent, chunk: bytes) -> bytes:
        """One chunk of a watch; may wait, or raise to cut the stream."""
        return chunk


MakeFault: TypeAlias = Callable[[], Fault]


class FaultyTransport(Around):
    """Passes requests on, unless the fault says otherwise. Once it is dead, nothing gets out any more."""

    def __init__(self, inner: Transport, fault: Fault) -> None:
        super().__init__(inner)
        self._fault = fault
        self.dead = False

    async def pass_on(self, sent: Sent) -> Response:
        if self.dead:
            raise Unreachable("the process is dead")
        answer = await self._fault.before(sent)
        if answer is not None:
            return answer
        response = await super().pass_on(sent)
        await self._fault.after(sent)
        return _Watched(response, sent, self._fault) if sent.is_watch else response


class _Watched:
    """A watch whose events pass the fault."""

    def __init__(self, response: Response, sent: Sent, fault: Fault) -> None:
        self._response = response
        self._sent = sent
        self._fault = fault

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        return await self._response.read()

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.chunks():
            yield await self._fault.event(self._sent, chunk)

    async def close(self) -> None:
        await self._response.close()


class Counter(Fault):
    """Counts what the controllers write and what watches bring them."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.events = 0
        self.watched: set[str] = set()

    async def after(self, sent: Sent) -> None:
        if is_business(sent):
            self.writes.append(f"{sent.method} {sent.path}")

    async def event(self, sent: Sent, chunk: bytes) -> bytes:
        self.events += 1
        self.watched.add(sent.resource)
        return chunk


class CrashAfterWrite(Fault):
    """The process dies right after its n-th write reached the server: nobody sees the answer."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.crashed = asyncio.Event()

    async def before(self, sent: Sent) -> Response | None:
        if self.crashed.is_set():
            await asyncio.get_running_loop().create_future()
        return None

    async def after(self, sent: Sent) -> None:
        if is_business(sent):
            self._left -= 1
            if self._left == 0:
                self.crashed.set()
                await asyncio.get_running_loop().create_future()


class LoseEvent(Fault):
    """At its n-th event all watches break, and their history is gone: what happened meanwhile is seen only as a list."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._gone: set[str] = set()

    async def before(self, sent: Sent) -> Response | None:
        if sent.is_watch and sent.query.get("resourceVersion") and sent.resource in self._gone:
            self._gone.discard(sent.resource)
            return refusal(410, "Expired", "too old resource version")
        return None

    async def event(self, sent: Sent, chunk: bytes) -> bytes:
        self._left -= 1
        if self._left == 0:
            self._gone.add(sent.resource)
            raise Unreachable("the watch was cut by the test")
        return chunk


class LateWatch(Fault):
    """What watches of a resource bring comes so many seconds late (empty: of all)."""

    def __init__(self, resource: str, seconds: float) -> None:
        self._resource = resource
        self._seconds = seconds
        # Each event of a burst waits behind the one before; a watch that says nothing for minutes is given up for a list.
        self.lateness = min(20 * seconds, 600.0)

    async def event(self, sent: Sent, chunk: bytes) -> bytes:
        if self._resource in ("", sent.resource):
            await asyncio.sleep(self._seconds)
        return chunk


class RandomErrors(Fault):
    """Requests fail at random for a while: refused, unanswered, or done and then unanswered."""

    def __init__(self, seed: int, share: float = 0.25, until: float = 120.0) -> None:
        self._random = random.Random(seed)
        self._share = share
        self._until = until

    @property
    def _over(self) -> bool:
        return asyncio.get_running_loop().time() > self._until

    async def before(self, sent: Sent) -> Response | None:
        if self._over or self._random.random() > self._share / 2:
            return None
        choice = self._random.randrange(5)
        if choice == 0 and sent.is_write:
            return refusal(409, "Conflict")
        if choice == 1:
            return refusal(429, "TooManyRequests")
        if choice == 2:
            return refusal(500, "InternalError")
        if choice == 3:
            await asyncio.sleep(self._random.random() * 20)
            return None
        raise Unreachable("the connection was refused by the test")

    async def after(self, sent: Sent) -> None:
        if not self._over and self._random.random() < self._share / 2:
            raise Unreachable("the answer was lost by the test")

    async def event(self, sent: Sent, chunk: bytes) -> bytes:
        if not self._over and self._random.random() < 0.05:
            raise Unreachable("the watch was cut by the test")
        return chunk


class Partition(Fault):
    """Nothing gets through from one moment on the loop's clock to another."""

    def __init__(self, start: float, seconds: float) -> None:
        self._start = start
        self._end = start + seconds

    @property
    def _cut(self) -> bool:
        return self._start <= asyncio.get_running_loop().time() < self._end

    async def before(self, sent: Sent) -> Response | None:
        if self._cut:
            raise Unreachable("the network is partitioned by the test")
        return None

    async def event(self, sent: Sent, chunk: bytes) -> bytes:
        if self._cut:
            raise Unreachable("the network is partitioned by the test")
        return chunk


class Forbidden(Fault):
    """Everything on a resource is forbidden for a while, as when someone takes a permission away."""

    def __init__(self, resource: str, start: float, seconds: float) -> None:
        self._resource = resource
        self._start = start
        self._end = start + seconds

    @property
    def _revoked(self) -> bool:
        return self._start <= asyncio.get_running_loop().time() < self._end

    async def before(self, sent: Sent) -> Response | None:
        if self._revoked and sent.resource == self._resource:
            return refusal(403, "Forbidden", f"{sent.resource} is forbidden")
        return None

    async def event(self, sent: Sent, chunk: bytes) -> bytes:
        if self._revoked and sent.resource == self._resource:
            raise Unreachable("the watch was ended by the server")
        return chunk
