"""500 model registries in 50 namespaces on a real kube-apiserver, beside a bare client that writes the same: time, requests, memory, restart.

`make bench-registry`, or `python -m bench.registry --count 500 --namespaces 50`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time

from bench.limit import QUIET, SAMPLE, SAMPLE_SPACE, Counted, clear, install, play, record, settled, together
from bench.measure import peak_mb, rss_mb
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.kinds import Object
from modelyard.kube.objects import key_of, resource_version_of
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.process.manager import Manager
from tests.real.cluster import RealCluster

KIND = MODEL_REGISTRY.kind


def registry(name: str, namespace: str) -> Object:
    database = {"host": "db", "username": "u", "database": "d", "passwordSecret": {"name": "db", "key": "pw"}}
    metadata = {"name": name, "namespace": namespace}
    spec = {"rest": {}, "kubeRBACProxy": {}, "mysql": database}
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": spec}


def controllers() -> list[Controller]:
    return [registry_controller(Settings(default_domain="example.com"))]


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
    spaces = [f"bench-{index}" for index in range(namespaces)]
    await install(user, MODEL_REGISTRY, [*spaces, SAMPLE_SPACE])
    tape = await record(user, controllers(), registry(SAMPLE, SAMPLE_SPACE), KIND)
    registries = [registry(f"registry-{index}", spaces[index % namespaces]) for index in range(count)]
    print(f"the limit writes {len(tape)} times a registry: {', '.join(f'{s.method} {s.resource}' for s in tape)}")

    # A fuller server is slower: the limit has its turn before and after.
    limits = [await play(user, tape, KIND, registries)]
    print(f"the limit: {limits[0]:.1f} s")
    await clear(user, KIND, builtin.Deployment)
    async with Manager(Client(counted), controllers()) as running:
        await settled(running)
        counted.reset()
        started = time.monotonic()
        await together(lambda resource: user.create(KIND, resource), registries)
        await settled(running)
        seconds = time.monotonic() - started - QUIET
        requests, writes = sum(counted.requests.values()), counted.writes
        print(f"ours: {seconds:.1f} s; requests {dict(counted.requests)}, apart {dict(counted.apart)}")
        touched = await change_one(user, running, counted)
    counted.reset()
    started = time.monotonic()
    async with Manager(Client(counted), controllers()) as running:
        await settled(running)
        restart = time.monotonic() - started - QUIET
        print(f"after a restart: settled in {restart:.1f} s with {dict(counted.requests)}")
    rss, peak = rss_mb(os.getpid()), peak_mb(os.getpid())
    await clear(user, KIND, builtin.Deployment)
    limits.append(await play(user, tape, KIND, registries))
    print(f"the limit again: {limits[1]:.1f} s")
    await counted.close()
    await user.close()
    return {
        "registries": count,
        "namespaces": namespaces,
        "seconds": round(seconds, 1),
        "limit_seconds": [round(limit, 1) for limit in limits],
        "vs_limit": round(seconds / (sum(limits) / len(limits)), 3),
        "requests_per_resource": round(requests / count, 2),
        "writes_per_resource": round(writes / count, 2),
        "limit_writes_per_resource": len(tape),
        "touched_by_one_change": touched,
        "restart_seconds": round(restart, 1),
        "writes_after_restart": counted.writes,
        "rss_mb": round(rss, 1),
        "peak_rss_mb": round(peak, 1),
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
