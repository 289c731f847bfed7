"""500 model registries in 50 namespaces on a real kube-apiserver: time, requests, memory, and what a restart costs.

`make bench-registry`, or `python -m bench.registry --count 500 --namespaces 50`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field

from bench.measure import peak_mb, rss_mb
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.crd import definition_of
from modelyard.kube.errors import AlreadyExists, NotFound
from modelyard.kube.kinds import Object
from modelyard.kube.objects import key_of, resource_version_of
from modelyard.kube.transport import Response, Transport
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.runtime.manager import Manager
from tests.real.cluster import RealCluster

KIND = MODEL_REGISTRY.kind
LIMIT_SECONDS = 120.0
LIMIT_REQUESTS = 16.0
LIMIT_RSS = 300.0
"""What we promise on two cores; `vs_limit` is the worst of the three, 1 and less is kept."""
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass
class Counted:
    """A transport that counts what goes through it."""

    inner: Transport
    requests: Counter[str] = field(default_factory=Counter)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Response:
        self.requests[method] += 1
        return await self.inner.send(method, path, query=query, headers=headers, body=body, timeout=timeout)

    async def close(self) -> None:
        await self.inner.close()

    @property
    def writes(self) -> int:
        return sum(count for method, count in self.requests.items() if method in WRITES)

    def reset(self) -> None:
        self.requests.clear()


def registry(index: int, namespaces: int) -> Object:
    """Half of them behind a proxy."""
    database = {"host": "db", "username": "u", "database": "d", "passwordSecret": {"name": "db", "key": "pw"}}
    spec: Object = {"rest": {}, "mysql": database} | ({"kubeRBACProxy": {}} if index % 2 else {})
    metadata = {"name": f"registry-{index}", "namespace": f"bench-{index % namespaces}"}
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": spec}


async def install(client: Client, namespaces: int) -> None:
    with suppress(AlreadyExists):
        await client.create(builtin.CustomResourceDefinition, definition_of(MODEL_REGISTRY))
    for index in range(namespaces):
        await client.create(builtin.Namespace, {"metadata": {"name": f"bench-{index}"}})
    while True:
        try:
            await client.list(KIND)
            return
        except NotFound:
            await asyncio.sleep(0.1)


def manager(transport: Transport) -> AbstractAsyncContextManager[Manager]:
    return Manager(Client(transport), [registry_controller(Settings(default_domain="example.com"))])


async def settled(running: Manager) -> None:
    await running.idle(quiet=1.0, timeout=600.0)


async def versions(client: Client) -> dict[str, str]:
    """The resource version of every object that registries consist of."""
    found = {}
    kinds = (KIND, builtin.Deployment, builtin.Service, builtin.ServiceAccount, builtin.Role, builtin.NetworkPolicy)
    for kind in kinds:
        for obj in (await client.list(kind)).items:
            found[f"{kind.kind} {key_of(obj)}"] = resource_version_of(obj)
    return found


async def run(cluster: RealCluster, count: int, namespaces: int) -> Object:
    user = connect(cluster.kubeconfig)
    counted = Counted(connect(cluster.kubeconfig).transport)
    await install(user, namespaces)
    async with manager(counted) as running:
        await settled(running)
        counted.reset()
        started = time.monotonic()
        gate = asyncio.Semaphore(16)

        async def create(index: int) -> None:
            async with gate:
                await user.create(KIND, registry(index, namespaces))

        await asyncio.gather(*(create(index) for index in range(count)))
        created = time.monotonic() - started
        await settled(running)
        seconds = time.monotonic() - started - 1.0
        requests, writes = sum(counted.requests.values()), counted.writes
        print(f"{count} registries were created in {created:.1f} s and settled after {seconds:.1f} s")
        print(f"requests: {dict(counted.requests)}")
        touched = await change_one(user, running, counted)
    counted.reset()
    started = time.monotonic()
    async with manager(counted) as running:
        await settled(running)
        restart = time.monotonic() - started - 1.0
        print(f"after a restart: settled in {restart:.1f} s with {dict(counted.requests)}")
    rss, peak = rss_mb(os.getpid()), peak_mb(os.getpid())
    await counted.close()
    await user.close()
    per_resource = requests / count
    ratios = {
        "seconds": round(seconds / LIMIT_SECONDS, 2),
        "requests_per_resource": round(per_resource / LIMIT_REQUESTS, 2),
        "rss_mb": round(rss / LIMIT_RSS, 2),
    }
    return {
        "registries": count,
        "namespaces": namespaces,
        "seconds": round(seconds, 1),
        "requests_per_resource": round(per_resource, 2),
        "writes_per_resource": round(writes / count, 2),
        "touched_by_one_change": touched,
        "restart_seconds": round(restart, 1),
        "writes_after_restart": counted.writes,
        "rss_mb": round(rss, 1),
        "peak_rss_mb": round(peak, 1),
        "vs_limit": max(ratios.values()),
        "vs_limits": ratios,
    }


async def change_one(user: Client, running: Manager, counted: Counted) -> list[str]:
    """Changes one registry; gives the objects that have changed then."""
    before = await versions(user)
    counted.reset()
    await user.patch(KIND, "bench-0", "registry-0", {"spec": {"rest": {"port": 8081}}})
    await settled(running)
    after = await versions(user)
    changed = sorted(name for name, version in after.items() if before.get(name) != version)
    print(f"a change of one: {dict(counted.requests)}; changed: {changed}")
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--namespaces", type=int, default=50)
    arguments = parser.parse_args()
    with RealCluster() as cluster:
        result = asyncio.run(run(cluster, arguments.count, arguments.namespaces))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
