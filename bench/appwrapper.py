"""500 AppWrappers of one Job each on a real kube-apiserver, and a bare client that writes the same: time, writes, restart, memory.

Jobs are ended by a player in a process of its own, in every turn alike: a turn is over when all Jobs have ended, and with ours
all AppWrappers, too. `make bench-appwrapper`, or `python -m bench.appwrapper --count 500`. The last line is one JSON object.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import fmean

from bench.limit import SAMPLE, SAMPLE_SPACE, clear, install, play, record
from bench.ours import OurProcess, OurTurn, on_real_servers, our_turn
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import status_of
from modelyard.operators.codeflare.appwrapper.api import ANNOTATIONS, APPWRAPPER, Phase
from modelyard.operators.codeflare.appwrapper.operator_parts import appwrapper_parts
from modelyard.operators.codeflare.config import Settings
from modelyard.runtime.declaring.controller import Controller
from tests.real.cluster import RealCluster

KIND = APPWRAPPER.kind
SPACE = "bench"
IDLE = 60.0
"""For so many seconds the controller is left alone."""


def controllers() -> list[Controller]:
    return list(appwrapper_parts(Settings(namespace=SPACE, appwrappers=True)).controllers)


def appwrapper(name: str, namespace: str) -> Object:
    container = {"name": "main", "image": "example.com/main:1"}
    pod = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}},
    }
    # A busy machine is not a reason to try a Job again.
    patience = {f"{ANNOTATIONS}{phase}GracePeriodDuration": "1h" for phase in ("admission", "warmup")}
    metadata = {"name": name, "namespace": namespace, "annotations": patience}
    spec = {"components": [{"template": job}]}
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": spec}


def succeeded(resource: Object) -> bool:
    return status_of(resource).get("phase") == Phase.SUCCEEDED


def ended(job: Object) -> bool:
    return "completionTime" in status_of(job)


async def until_all(client: Client, kind: Kind, count: int, done: Callable[[Object], bool]) -> None:
    async with asyncio.timeout(900.0):
        while sum(map(done, (await client.list(kind, SPACE)).items)) < count:
            await asyncio.sleep(0.25)


async def converged(client: Client, count: int) -> None:
    await until_all(client, KIND, count, succeeded)
    await until_all(client, builtin.Job, count, ended)


async def run(cluster: RealCluster, count: int) -> Object:
    user = connect(cluster.kubeconfig)
    await install(user, APPWRAPPER, [SPACE, SAMPLE_SPACE])
    player = OurProcess(cluster, "bench.job_player")
    await player.settled()
    tape = await record(user, controllers(), appwrapper(SAMPLE, SAMPLE_SPACE), KIND, until=succeeded)
    print(f"the limit writes {len(tape)} times an AppWrapper: {', '.join(f'{s.method} {s.resource}' for s in tape)}")
    resources = [appwrapper(f"appwrapper-{index}", SPACE) for index in range(count)]
    # A fuller server is slower: both have a turn on the way there and another one on the way back.
    limits: list[float] = []
    mine: list[OurTurn] = []

    async def limit_turn() -> None:
        started = time.monotonic()
        await play(user, tape, KIND, resources)
        await until_all(user, builtin.Job, count, ended)
        limits.append(time.monotonic() - started)
        print(f"limit: {limits[-1]:.1f} s", flush=True)

    async def turn_of_ours() -> None:
        mine.append(turn := await our_turn(user, cluster, "bench.appwrapper", KIND, resources, converged, idle=IDLE))
        print(f"ours: {turn.seconds:.1f} s, {turn.cpu_seconds:.1f} s of CPU, {turn.rss_mb:.0f} MB, {turn.requests}")
        print(f"ours, in a minute on its own: {turn.idle_requests}")
        print(f"ours, after a restart: {turn.restart_seconds:.1f} s, {turn.writes_after_restart} writes", flush=True)

    for turn in (limit_turn, turn_of_ours, turn_of_ours, limit_turn):
        await turn()
        # A Job's pod is the last to go.
        await clear(user, KIND, builtin.Pod)
    await player.stop()
    await user.close()
    seconds = fmean(turn.seconds for turn in mine)
    return {
        "appwrappers": count,
        "seconds": round(seconds, 1),
        "limit_seconds": [round(limit, 1) for limit in limits],
        "vs_limit": round(seconds / fmean(limits), 3),
        "writes_per_appwrapper": round(max(turn.writes for turn in mine) / count, 2),
        "limit_writes_per_appwrapper": len(tape),
        "restart_seconds": round(max(turn.restart_seconds for turn in mine), 1),
        "writes_after_restart": max(turn.writes_after_restart for turn in mine),
        "requests_idle_minute": max(_work(turn.idle_requests) for turn in mine),
        "discoveries_idle_minute": max(turn.idle_requests.get("DISCOVERY", 0) for turn in mine),
        "rss_mb": round(max(turn.rss_mb for turn in mine), 1),
    }


def _work(requests: dict[str, int]) -> int:
    """Without watches, and without the question what the API serves, which a process asks in any case."""
    return sum(number for sort, number in requests.items() if sort not in ("WATCH", "DISCOVERY"))


if __name__ == "__main__":
    on_real_servers(__doc__, run, count=500)
