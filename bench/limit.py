"""The limit that a controller is measured against: a bare client that sends the same writes and does nothing else.

What a controller writes for one sample resource is put on a tape; the tape is then played for many resources.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.crd import Definition, definition_of
from modelyard.kube.errors import AlreadyExists
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import key_of, uid_of
from modelyard.kube.transport import Around, Response, Sent, Transport
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.process.manager import Manager

CONCURRENCY = 32
QUIET = 1.0
"""A controller is settled when it did nothing for so many seconds; they do not count."""
SAMPLE, SAMPLE_SPACE = "sample-on-tape", "space-on-tape"
_APART = frozenset({"events", "leases"})
"""Counted apart: they are the runtime's own."""


class Counted(Around):
    """Counts the requests that go through it, and keeps the writes while a tape runs."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.requests: Counter[str] = Counter()
        self.apart: Counter[str] = Counter()
        self.writes = 0
        self.tape: list[Sent] | None = None

    async def pass_on(self, sent: Sent) -> Response:
        if sent.resource in _APART:
            self.apart[sent.resource] += 1
        else:
            self.requests[_sort_of(sent)] += 1
            self.writes += sent.is_write
            if sent.is_write and self.tape is not None:
                self.tape.append(sent)
        return await super().pass_on(sent)

    def reset(self) -> None:
        self.requests.clear()
        self.apart.clear()
        self.writes = 0


def _sort_of(sent: Sent) -> str:
    """A watch lasts, and what the API serves is asked now and then; all else is work."""
    if sent.path in ("/api", "/apis"):
        return "DISCOVERY"
    return "WATCH" if sent.is_watch else sent.method


async def install(client: Client, definition: Definition, namespaces: Sequence[str]) -> None:
    with suppress(AlreadyExists):
        await client.create(builtin.CustomResourceDefinition, definition_of(definition))
    for name in namespaces:
        await client.create(builtin.Namespace, {"metadata": {"name": name}})
    while definition.kind not in await client.discover():
        await asyncio.sleep(0.1)


async def settled(running: Manager) -> None:
    await running.idle(quiet=QUIET, timeout=600.0)


async def record(
    client: Client,
    controllers: Sequence[Controller],
    resource: Object,
    kind: Kind,
    *,
    until: Callable[[Object], bool] = lambda resource: True,
) -> list[Sent]:
    """What the controllers write for the sample until it is as wanted and they are settled, with marks where its uid was."""
    counted = Counted(client.transport)
    async with Manager(Client(counted), controllers) as running:
        await settled(running)
        tape: list[Sent] = []
        counted.tape = tape
        made = await client.create(kind, resource)
        while not until(await client.get(kind, *key_of(made))):
            await asyncio.sleep(0.1)
        await settled(running)
        counted.tape = None
        await client.delete(kind, *key_of(made))
        while await client.find(kind, *key_of(made)) is not None:
            await asyncio.sleep(0.1)
        await settled(running)
    return [_marked(sent, uid_of(made)) for sent in tape]


def _marked(sent: Sent, uid: str) -> Sent:
    body = msgspec.json.decode(sent.body) if sent.body else {}
    if isinstance(body, dict):
        # A bare client asks for no version.
        (body.get("metadata") or {}).pop("resourceVersion", None)
    text = msgspec.json.encode(body).replace(uid.encode(), b"UID-ON-TAPE")
    return Sent(sent.method, sent.path, sent.query, sent.headers, text, sent.timeout)


async def play(client: Client, tape: Sequence[Sent], kind: Kind, resources: Sequence[Object]) -> float:
    """Creates the resources and writes for each what is on the tape. Gives the seconds that took."""

    async def one(resource: Object) -> None:
        made = await client.create(kind, resource)
        name, namespace, uid = key_of(made).name, key_of(made).namespace, uid_of(made)

        def filled(text: str) -> str:
            return text.replace(SAMPLE_SPACE, namespace).replace(SAMPLE, name).replace("UID-ON-TAPE", uid)

        for sent in tape:
            await client.request(
                sent.method,
                filled(sent.path),
                query=sent.query,
                body=filled(sent.body.decode()).encode(),
                content_type=sent.headers.get("Content-Type", "application/json"),
            )

    started = time.monotonic()
    await together(one, resources)
    return time.monotonic() - started


async def together(work: Callable[[Object], Awaitable[object]], resources: Sequence[Object]) -> None:
    """The work for every resource, so many at a time as serve the server best."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def gated(resource: Object) -> None:
        async with gate:
            await work(resource)

    await asyncio.gather(*(gated(resource) for resource in resources))


async def clear(client: Client, kind: Kind, child: Kind) -> None:
    """Deletes all resources of a kind, whose controller does not run; returns when the last child is gone as well."""

    async def one(resource: Object) -> None:
        await client.patch(kind, *key_of(resource), {"metadata": {"finalizers": None}})
        await client.delete(kind, *key_of(resource))

    await together(one, (await client.list(kind)).items)
    while (await client.list(kind)).items or (await client.list(child, limit=1)).items:
        await asyncio.sleep(0.5)
