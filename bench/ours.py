"""Our controllers as a process of their own: `python -m bench.ours MODULE KUBECONFIG` runs what `controllers()` of the module gives.

Prints one line of JSON when it has settled after its start, and another one for each line that it reads: what it has asked of
the server since the line before.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bench.limit import QUIET, Counted, settled, together
from bench.measure import cpu_seconds, peak_mb, rss_mb
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.process.manager import Manager
from tests.real.cluster import RealCluster


@dataclass
class Turn:
    """How one controller did until every resource had converged."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


@dataclass
class OurTurn(Turn):
    """Ours, and what it asked of the server; then, where it was left alone for a while; then a restart on what is there."""

    requests: dict[str, int]
    writes: int
    rss_mb: float
    idle_requests: dict[str, int]
    restart_seconds: float
    writes_after_restart: int


class OurProcess:
    """`bench.ours`, in a process of its own as other controllers are."""

    def __init__(self, cluster: RealCluster, module: str) -> None:
        command = [sys.executable, "-m", "bench.ours", module, str(cluster.kubeconfig)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid

    async def settled(self) -> Object:
        """What it asked of the server until it had nothing left to do."""
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        if not line:
            raise SystemExit("our controller ended before it had settled")
        found: Object = json.loads(line)
        return found

    async def asked(self) -> Object:
        """What it has asked of the server since it was asked this the last time, once it is settled."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return await self.settled()

    async def stop(self) -> None:
        await asyncio.to_thread(self._process.communicate)


async def our_turn(
    user: Client,
    cluster: RealCluster,
    module: str,
    kind: Kind,
    resources: Sequence[Object],
    converged: Callable[[Client, int], Awaitable[None]],
    *,
    idle: float = 0.0,
) -> OurTurn:
    """The resources are made, and the controllers of the module bring them to where they should be.

    `converged` returns when that is so. `idle`: seconds for which the controllers are then left alone.
    """
    process = OurProcess(cluster, module)
    await process.settled()
    busy, started = cpu_seconds(process.pid), time.monotonic()
    await together(lambda resource: user.create(kind, resource), resources)
    await converged(user, len(resources))
    seconds, busy = time.monotonic() - started, cpu_seconds(process.pid) - busy
    work = await process.asked()
    await asyncio.sleep(idle)
    left_alone = await process.asked()
    peak, rss = peak_mb(process.pid), rss_mb(process.pid)
    await process.stop()
    started = time.monotonic()
    process = OurProcess(cluster, module)
    again = await process.settled()
    restart = time.monotonic() - started - QUIET
    await process.stop()
    return OurTurn(
        seconds, busy, peak, work["requests"], work["writes"], rss, left_alone["requests"], restart, again["writes"]
    )


def on_real_servers(about: str | None, run: Callable[[RealCluster, int], Awaitable[Object]], *, count: int) -> None:
    """The benchmark as a command: `--count` says how many resources; the last line is what it found."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=count)
    arguments = parser.parse_args()

    async def measured(cluster: RealCluster) -> Object:
        return await run(cluster, arguments.count)

    with RealCluster() as cluster:
        result = asyncio.run(measured(cluster))
    print(json.dumps(result))


async def run(module: str, kubeconfig: str) -> None:
    counted = Counted(connect(kubeconfig).transport)
    loop = asyncio.get_running_loop()
    async with Manager(Client(counted), importlib.import_module(module).controllers()) as running:
        while True:
            await settled(running)
            print(json.dumps({"requests": dict(counted.requests), "writes": counted.writes}), flush=True)
            counted.reset()
            if not await loop.run_in_executor(None, sys.stdin.readline):
                break
    await counted.close()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
