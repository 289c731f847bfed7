"""1,000 custom resources with four children each on a real kube-apiserver: a bare client (the limit), ours, and kopf.

`make bench-runtime`, or `python -m bench.runtime --count 1000`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.greetings import DEFINITION, KIND, controllers, greeting
from bench.limit import QUIET, SAMPLE, SAMPLE_SPACE, Counted, clear, install, play, record, settled, together
from bench.measure import cpu_seconds, peak_mb
from modelyard.kube.builtin import Deployment
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.kinds import Object
from modelyard.kube.objects import status_of
from modelyard.runtime.manager import Manager
from tests.real.cluster import RealCluster

SPACE = "bench"


@dataclass
class Turn:
    """How one controller did until every resource had converged."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


@dataclass
class OurTurn(Turn):
    """Ours, and what it asked of the server; then a restart on what is there."""

    requests: dict[str, int]
    writes: int
    restart_seconds: float
    writes_after_restart: int


async def ours(user: Client, cluster: RealCluster, resources: Sequence[Object]) -> OurTurn:
    """In this process, which also creates the resources: that counts against us."""
    counted = Counted(connect(cluster.kubeconfig).transport)
    async with Manager(Client(counted), controllers()) as running:
        await settled(running)
        counted.reset()
        busy, started = cpu_seconds(os.getpid()), time.monotonic()
        await together(lambda resource: user.create(KIND, resource), resources)
        await converged(user, len(resources))
        seconds, busy = time.monotonic() - started, cpu_seconds(os.getpid()) - busy
        await settled(running)
        requests, writes = dict(counted.requests), counted.writes
    counted.reset()
    started = time.monotonic()
    async with Manager(Client(counted), controllers()) as running:
        await settled(running)
        restart = time.monotonic() - started - QUIET
    await counted.close()
    return OurTurn(seconds, busy, peak_mb(os.getpid()), requests, writes, restart, counted.writes)


async def kopf(user: Client, cluster: RealCluster, resources: Sequence[Object]) -> Turn:
    async with _kopf_process(cluster) as process:
        await asyncio.sleep(QUIET)
        busy, started = cpu_seconds(process.pid), time.monotonic()
        await together(lambda resource: user.create(KIND, resource), resources)
        await converged(user, len(resources))
        seconds, busy = time.monotonic() - started, cpu_seconds(process.pid) - busy
        return Turn(seconds, busy, peak_mb(process.pid))


@asynccontextmanager
async def _kopf_process(cluster: RealCluster) -> AsyncIterator[subprocess.Popen[bytes]]:
    log = cluster.directory / "kopf.log"
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--standalone",
        "-n",
        SPACE,
        "--quiet",
        "-m",
        "bench.kopf_greetings",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}, stdout=output, stderr=output
        )
    try:
        yield process
    except TimeoutError:
        raise SystemExit(f"kopf did not converge:\n{log.read_text(errors='replace')[-3000:]}") from None
    finally:
        process.terminate()
        process.wait()


async def converged(user: Client, count: int) -> None:
    """Until every resource has its status: a controller writes it last."""
    async with asyncio.timeout(900.0):
        while True:
            listed = await user.list(KIND, SPACE)
            if sum(bool(status_of(resource).get("conditions")) for resource in listed.items) == count:
                return
            await asyncio.sleep(0.25)


async def run(cluster: RealCluster, count: int) -> Object:
    user = connect(cluster.kubeconfig)
    await install(user, DEFINITION, [SPACE, SAMPLE_SPACE])
    tape = await record(user, controllers(), greeting(SAMPLE, SAMPLE_SPACE), KIND)
    resources = [greeting(f"greeting-{index}", SPACE) for index in range(count)]
    # A fuller server is slower: the others have their turns before and after ours.
    limits, kopfs = [], []
    limits.append(await play(user, tape, KIND, resources))
    print(f"limit: {limits[0]:.1f} s with {len(tape)} writes a resource")
    await clear(user, KIND, Deployment)
    kopfs.append(await kopf(user, cluster, resources))
    print(f"kopf: {kopfs[0].seconds:.1f} s, {kopfs[0].cpu_seconds:.1f} s of CPU, {kopfs[0].peak_mb:.0f} MB")
    await clear(user, KIND, Deployment)
    mine = await ours(user, cluster, resources)
    print(f"ours: {mine.seconds:.1f} s, {mine.cpu_seconds:.1f} s of CPU, {mine.peak_mb:.0f} MB, {mine.requests}")
    print(f"ours after a restart: {mine.restart_seconds:.1f} s, {mine.writes_after_restart} writes")
    await clear(user, KIND, Deployment)
    kopfs.append(await kopf(user, cluster, resources))
    print(f"kopf again: {kopfs[1].seconds:.1f} s")
    await clear(user, KIND, Deployment)
    limits.append(await play(user, tape, KIND, resources))
    print(f"limit again: {limits[1]:.1f} s")
    await user.close()
    return {
        "resources": count,
        "vs_limit": round(mine.seconds / (sum(limits) / 2), 3),
        "kopf_vs_ours": round(sum(turn.seconds for turn in kopfs) / 2 / mine.seconds, 3),
        "kopf_cpu_vs_ours": round(sum(turn.cpu_seconds for turn in kopfs) / 2 / mine.cpu_seconds, 3),
        "writes_per_resource": round(mine.writes / count, 3),
        "writes_after_restart": mine.writes_after_restart,
        "restart_seconds": round(mine.restart_seconds, 1),
        "peak_mb": round(mine.peak_mb, 1),
        "kopf_peak_mb": round(max(turn.peak_mb for turn in kopfs), 1),
        "rss_mb_10k_pods": cached_pods_mb(),
    }


def cached_pods_mb() -> int:
    """The memory of a process that caches 10,000 pods of 8 KB."""
    return int(subprocess.check_output([sys.executable, "-m", "tests.unit.runtime.cache_memory"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    with RealCluster() as cluster:
        result = asyncio.run(run(cluster, arguments.count))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
