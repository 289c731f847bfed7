"""The API server: its parts put together, started and stopped, and the doors into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind
from modelyard.kube.times import utc_now
from modelyard.local.apiserver.assembly import Parts, assemble
from modelyard.local.apiserver.controllers.collector import Collector
from modelyard.local.apiserver.controllers.master import publish
from modelyard.local.apiserver.controllers.namespaces import Namespaces
from modelyard.local.apiserver.requests.hooks import Hooks
from modelyard.local.apiserver.requests.journal import Journal
from modelyard.local.apiserver.requests.messages import LOOPBACK, Reply, Request, UserInfo
from modelyard.local.apiserver.requests.options import DeleteOptions
from modelyard.local.apiserver.requests.pipeline import Pipeline
from modelyard.local.apiserver.requests.turns import LongWork, Turns
from modelyard.local.apiserver.served.resources import Registry
from modelyard.local.apiserver.sockets.inprocess import InProcessTransport
from modelyard.local.apiserver.storage.sqlite import Durability, SQLiteJournal
from modelyard.local.apiserver.storage.store import Store
from modelyard.local.apiserver.testing.faults import Faults
from modelyard.local.apiserver.verbs.deletion import Deletion, Deletions
from modelyard.local.apiserver.verbs.listing import Lists
from modelyard.local.apiserver.verbs.ownership import Ownership
from modelyard.local.apiserver.verbs.patching import Patches
from modelyard.local.apiserver.verbs.watches import Watches
from modelyard.local.apiserver.verbs.writes import Writes

if TYPE_CHECKING:
    from modelyard.local.apiserver.sockets.http import Door
    from modelyard.local.apiserver.sockets.tls import Identity

ADMIN = UserInfo("admin", groups=("system:masters", "system:authenticated"))
_QUIET_ROUNDS = 20
"""So many turns of the event loop must pass without anything happening before the server counts as settled."""


class ApiServer:
    """A Kubernetes API server in this process. `async with ApiServer() as server:` gives one in memory, without sockets;
    with a directory its objects are kept there."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        durable: Durability = "full",
        access_control: bool = True,
        clock: Callable[[], datetime] = utc_now,
        services: str = "10.96.0.0/16",
        kubelet: Path | None = None,
    ) -> None:
        self.directory = directory
        self.services = services
        """Where Services get their addresses from."""
        self.kubelet = kubelet
        """The folder in which a kubelet says where it answers (logs, exec)."""
        self.clock = clock
        self._durable = durable
        self._access_control = access_control
        # A bench is asked for every request; a server that runs for days need only remember the last ones.
        self.journal = Journal() if directory is None else Journal(most=500)
        self.faults = Faults()
        self.registry = Registry()
        self.hooks = Hooks()
        self.ownership = Ownership()
        self._identity: Identity | None = None
        self._door: Door | None = None
        self._running = False
        self.store: Store
        self.lists: Lists
        self.watches: Watches
        self.writes: Writes
        self.patches: Patches
        self.deletions: Deletions
        self.turns = Turns()
        self.long_work = LongWork()
        self._pipeline = Pipeline(self)
        self._parts: Parts
        self._collector: Collector
        self._namespaces: Namespaces

    # Life.

    async def start(self) -> None:
        """Raises `StateUnusable` when the directory cannot be used."""
        journal = SQLiteJournal(self.directory, self._durable) if self.directory is not None else None
        self.store = Store(journal)
        self.lists = Lists(self.store, self.hooks, self.faults)
        self.watches = Watches(self.store, self.lists, self.registry, self.hooks)
        self.writes = Writes(self.store, self.hooks, self.ownership, self.clock, self.long_work)
        self.patches = Patches(self.writes, self.ownership, self.clock)
        self.deletions = Deletions(self.store, self.hooks, self.clock)
        self._parts = assemble(self, access_control=self._access_control)
        self._collector = Collector(self.store, self.registry, self.writes, self.deletions)
        self._namespaces = Namespaces(
            self.store, self.registry, self.writes, self.deletions, self.clock, self.root_certificate
        )
        await self._parts.start()
        await self._namespaces.start()
        self._collector.start()
        self._running = True

    async def stop(self) -> None:
        if not self._running:
            return
        self._running = False
        self.watches.end()
        if self._door is not None:
            await self._door.close()
        await self._collector.stop()
        await self._namespaces.stop()
        await self._parts.stop()
        self.long_work.close()
        await self.store.close()

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # Doors.

    async def handle(self, request: Request) -> Reply:
        """Answers one request; knows no sockets."""
        return await self._pipeline.handle(request)

    def transport(
        self, user: str | None = None, groups: Sequence[str] = (), *, token: str = "", agent: str = "modelyard"
    ) -> InProcessTransport:
        """A way in for one user (default: an administrator), or for whom a bearer token stands for."""
        if token:
            return InProcessTransport(self.handle, None, token, agent)
        who = ADMIN if user is None else UserInfo(user, groups=(*groups, "system:authenticated"))
        return InProcessTransport(self.handle, who, agent=agent)

    def client(
        self, user: str | None = None, groups: Sequence[str] = (), *, token: str = "", agent: str = "modelyard"
    ) -> Client:
        return Client(self.transport(user, groups, token=token, agent=agent))

    def admit_token(self, token: str, user: UserInfo = ADMIN) -> None:
        """From now on this bearer token stands for a user."""
        self._parts.authenticator.add_token(token, user)

    async def listen(self, host: str = "127.0.0.1", port: int = 0, names: Sequence[str] = ()) -> str:
        """Opens TLS sockets and returns the URL. `names` are further host names that clients may use."""
        from modelyard.local.apiserver.sockets.http import Door

        self._door = Door(self.handle, self.identity(), host, port, names)
        url = await self._door.open()
        await publish(self.store, self.registry, self.writes, *self._door.address)
        return url

    # What tests and other parts ask.

    def identity(self) -> Identity:
        """The server's certificate authority, made when first needed; kept in the directory, if there is one."""
        if self._identity is None:
            from modelyard.local.apiserver.sockets.tls import Identity

            self._identity = Identity(self.directory / "pki" if self.directory is not None else None, self.clock)
        return self._identity

    def root_certificate(self) -> str:
        """The PEM text that clients verify the server with."""
        return self.identity().certificate

    async def delete_all(self, kind: Kind) -> None:
        """Deletes all objects of a kind, as its definition goes."""
        resource = self.registry.lookup(kind.group, kind.version, kind.plural)
        if resource is not None:
            deletion = Deletion(resource, "", "", LOOPBACK, DeleteOptions(propagation="Background"))
            await self.deletions.delete_all(deletion, self.store.items(resource.storage))

    def drop_watches(self, resource: str = "") -> int:
        """Ends the open watches (of one resource, as `pods` or `deployments.apps`), as a lost connection does."""
        return self.watches.end(
            lambda watch: resource in ("", watch.resource.kind.plural, watch.resource.kind.resource)
        )

    def compact(self) -> None:
        """Forgets the history: watches and continue tokens from before answer 410."""
        self.store.compact()

    @property
    def idle(self) -> bool:
        """Nothing is under way: no request, no write, no work of the server's own controllers, no unread watch event."""
        return (
            not self.journal.under_way
            and not self.store.busy
            and not self._collector.busy
            and not self._namespaces.busy
            and not self._parts.busy
            and self.watches.drained
        )

    async def settle(self, timeout: float = 30.0) -> None:
        """Returns when the server, and who talks to it from this process, has come to rest. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            quiet = busy = 0
            version = -1
            while quiet < _QUIET_ROUNDS:
                if busy > 100 or self.store.busy:
                    # Someone waits for the clock or for the disk, which no number of turns brings about.
                    await asyncio.sleep(0.002)
                else:
                    await asyncio.sleep(0)
                if self.idle and version == self.store.version:
                    quiet += 1
                    busy = 0
                else:
                    quiet = 0
                    busy += 1
                version = self.store.version
