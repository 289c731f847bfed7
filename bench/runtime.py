"""1,000 custom resources with four children each on a real kube-apiserver: a bare client (the limit), ours, and kopf.

`make bench-runtime`, or `python -m bench.runtime --count 1000`. The last line is one JSON object.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import fmean

from bench.greetings import DEFINITION, KIND, controllers, greeting
from bench.limit import QUIET, SAMPLE, SAMPLE_SPACE, clear, install, play, record, together
from bench.measure import cpu_seconds, peak_mb
from bench.ours import OurTurn, Turn, on_real_servers, our_turn
from modelyard.kube.builtin import Deployment
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.kinds import Object
from modelyard.kube.objects import status_of
from tests.real.cluster import RealCluster

SPACE = "bench"


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
    # A fuller server is slower: everybody has a turn on the way there and another one on the way back.
    limits: list[float] = []
    kopfs: list[Turn] = []
    mine: list[OurTurn] = []

    async def limit_turn() -> None:
        limits.append(await play(user, tape, KIND, resources))
        print(f"limit: {limits[-1]:.1f} s with {len(tape)} writes a resource", flush=True)

    async def kopf_turn() -> None:
        kopfs.append(turn := await kopf(user, cluster, resources))
        print(f"kopf: {turn.seconds:.1f} s, {turn.cpu_seconds:.1f} s of CPU, {turn.peak_mb:.0f} MB", flush=True)

    async def turn_of_ours() -> None:
        mine.append(turn := await our_turn(user, cluster, "bench.greetings", KIND, resources, converged))
        print(f"ours: {turn.seconds:.1f} s, {turn.cpu_seconds:.1f} s of CPU, {turn.peak_mb:.0f} MB, {turn.requests}")
        print(f"ours, after a restart: {turn.restart_seconds:.1f} s, {turn.writes_after_restart} writes", flush=True)

    for turn in (limit_turn, kopf_turn, turn_of_ours, turn_of_ours, kopf_turn, limit_turn):
        await turn()
        await clear(user, KIND, Deployment)
    await user.close()
    seconds, busy = fmean(turn.seconds for turn in mine), fmean(turn.cpu_seconds for turn in mine)
    return {
        "resources": count,
        "vs_limit": round(seconds / fmean(limits), 3),
        "kopf_vs_ours": round(fmean(turn.seconds for turn in kopfs) / seconds, 3),
        "kopf_cpu_vs_ours": round(fmean(turn.cpu_seconds for turn in kopfs) / busy, 3),
        "writes_per_resource": round(max(turn.writes for turn in mine) / count, 3),
        "writes_after_restart": max(turn.writes_after_restart for turn in mine),
        "restart_seconds": round(max(turn.restart_seconds for turn in mine), 1),
        "peak_mb": round(max(turn.peak_mb for turn in mine), 1),
        "kopf_peak_mb": round(max(turn.peak_mb for turn in kopfs), 1),
        "rss_mb_10k_pods": cached_pods_mb(),
    }


def cached_pods_mb() -> int:
    """The memory of a process that caches 10,000 pods of 8 KB."""
    return int(subprocess.check_output([sys.executable, "-m", "tests.unit.runtime.cache_memory"]))


if __name__ == "__main__":
    on_real_servers(__doc__, run, count=1000)
