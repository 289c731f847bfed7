"""Run as a program: caches 10,000 pods of 8 KB and prints the process's largest size in MB."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType

import msgspec

from bench.measure import peak_mb
from modelyard.kube.builtin import Pod
from modelyard.kube.client import Client
from modelyard.kube.kinds import Object
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.watching import Selection
from tests.unit.runtime.scripted_api import bookmark, pod

PODS = 10_000


def fat_pod(number: int) -> Object:
    """8 KB, mostly managedFields."""
    made = pod(f"pod-{number:05}", number + 1, app="web", number=str(number % 7))
    fields: Object = {f"f:field-{i}": {"f:nested": {}, ".": {}} for i in range(100)}
    made["metadata"]["managedFields"] = [
        {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": fields}},
        {"manager": "modelyard-test", "operation": "Apply", "fieldsV1": {"f:spec": {"f:a": {}}}},
        {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {"f:metadata": fields}},
    ]
    made["spec"]["containers"] = [{"name": "main", "image": "x" * 500, "env": [{"name": "A", "value": "b" * 500}]}]
    return made


class Answer:
    """A streaming list of all pods, then a watch that says nothing."""

    status = 200
    headers: Mapping[str, str] = MappingProxyType({})

    async def read(self) -> bytes:
        return b""

    async def chunks(self) -> AsyncIterator[bytes]:
        for number in range(PODS):
            yield msgspec.json.encode({"type": "ADDED", "object": fat_pod(number)}) + b"\n"
        yield msgspec.json.encode({"type": "BOOKMARK", "object": bookmark(PODS + 1, initial_end=True)}) + b"\n"
        await asyncio.Event().wait()

    async def close(self) -> None: ...


class Server:
    """A transport without sockets."""

    async def send(self, *_: object, **__: object) -> Answer:
        return Answer()

    async def close(self) -> None: ...


async def main() -> None:
    cache = Cache(Client(Server()), Selection(Pod), keep_managers="modelyard-")
    cache.start()
    assert await cache.wait_synced(60)
    assert len(cache) == len(cache.by_manager("modelyard-test")) == PODS
    await cache.stop(clear=False)


if __name__ == "__main__":
    assert len(msgspec.json.encode(fat_pod(1))) > 8000
    asyncio.run(main())
    # Not getrusage: that remembers the size of the process that started this one.
    print(int(peak_mb(os.getpid())))
