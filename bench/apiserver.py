"""Our API server beside kube-apiserver + etcd, in one run: creates, applies, lists, watch fan-out, start, memory.

`make bench-apiserver`, or `python -m bench.apiserver --count 2000 --watchers 50`. Both sync writes to disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from bench.measure import compile_modules, rss_mb
from bench.widgets import WIDGET, define
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Kind, Object
from tests.real.cluster import RealCluster

KINDS = (builtin.ConfigMap, builtin.Deployment, WIDGET)
CONCURRENCY = (16, 64)


def an_object(kind: Kind, name: str, value: int) -> Object:
    meta = {"name": name, "labels": {"app": "bench", "index": str(value)}}
    base: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
    if kind is builtin.ConfigMap:
        return base | {"data": {f"key-{i}": f"value {value} {i}" for i in range(8)}}
    if kind is WIDGET:
        parts = [{"name": f"p{i}", "count": value % 50 + i} for i in range(6)]
        return base | {"spec": {"size": value % 40, "tags": ["a", "b", "c"], "parts": parts, "labels": {"x": "y"}}}
    container = {
        "name": "main",
        "image": f"web:{value}",
        "env": [{"name": f"V{i}", "value": str(i)} for i in range(5)],
        "ports": [{"containerPort": 8080}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
    }
    template = {"metadata": {"labels": {"app": "bench"}}, "spec": {"containers": [container]}}
    return base | {"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "bench"}}, "template": template}}


async def at_once(work: list[Callable[[], Awaitable[object]]], concurrency: int) -> float:
    """Seconds for all of it, so many at a time."""
    queue = iter(work)

    async def worker() -> None:
        for task in queue:
            await task()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return time.perf_counter() - started


class Subject:
    """A server under test."""

    name = ""
    client: Client
    ready_s = 0.0

    def pids(self) -> list[int]:
        raise NotImplementedError


class Ours(Subject):
    name = "modelyard"

    async def start(self, stack: AsyncExitStack) -> None:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="modelyard-bench-")))
        compile_modules()
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "modelyard.local.apiserver", "--dir", str(directory)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # As the real servers are: on a busy machine Linux shares the processors out by session.
            start_new_session=True,
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        self._process = process
        kubeconfig = directory / "kubeconfig"
        while not kubeconfig.exists():
            await asyncio.sleep(0.005)
        self.client = connect(kubeconfig)
        stack.push_async_callback(self.client.close)
        await answers(self.client)
        self.ready_s = time.perf_counter() - started

    def pids(self) -> list[int]:
        return [self._process.pid]


class Real(Subject):
    name = "kube-apiserver"

    async def start(self, stack: AsyncExitStack) -> None:
        started = time.perf_counter()
        self._cluster = stack.enter_context(RealCluster(sync=True))
        self.client = connect(self._cluster.kubeconfig)
        stack.push_async_callback(self.client.close)
        await answers(self.client)
        self.ready_s = time.perf_counter() - started

    def pids(self) -> list[int]:
        return [pid for name, pid in self._cluster.processes().items() if name in ("etcd", "kube-apiserver")]


async def answers(client: Client) -> None:
    while True:
        try:
            await client.request("GET", "/readyz")
            return
        except (ApiError, Unreachable):
            await asyncio.sleep(0.005)


async def measure(subject: Subject, count: int, watchers: int) -> dict[str, float]:
    client = subject.client
    await define(client)
    figures: dict[str, float] = {}
    for kind in KINDS:
        for concurrency in CONCURRENCY:
            namespace = f"bench-{kind.plural}-{concurrency}"
            await client.create(builtin.Namespace, {"metadata": {"name": namespace}})
            names = [f"o-{i}" for i in range(count)]
            creates = [_create(client, kind, namespace, name, i) for i, name in enumerate(names)]
            figures[f"create {kind.kind} {concurrency}"] = count / await at_once(creates, concurrency)
            applies = [_apply(client, kind, namespace, name, i + 1) for i, name in enumerate(names)]
            figures[f"apply {kind.kind} {concurrency}"] = count / await at_once(applies, concurrency)
        took = []
        for _ in range(3):
            started = time.perf_counter()
            await client.list(kind, f"bench-{kind.plural}-{CONCURRENCY[0]}")
            took.append(time.perf_counter() - started)
        figures[f"list {kind.kind}"] = count / statistics.median(took)
    figures["watch"] = await fan_out(client, watchers, min(count, 500))
    return figures


def _create(client: Client, kind: Kind, namespace: str, name: str, value: int) -> Callable[[], Awaitable[object]]:
    obj = an_object(kind, name, value)
    obj["metadata"]["namespace"] = namespace
    return lambda: client.create(kind, obj)


def _apply(client: Client, kind: Kind, namespace: str, name: str, value: int) -> Callable[[], Awaitable[object]]:
    obj = an_object(kind, name, value)
    obj["metadata"]["namespace"] = namespace
    return lambda: client.apply(kind, obj, field_manager="bench", force=True)


async def fan_out(client: Client, watchers: int, events: int) -> float:
    """Events a second that reach all watchers."""
    namespace = "bench-watch"
    await client.create(builtin.Namespace, {"metadata": {"name": namespace}})
    begin = (await client.list(builtin.ConfigMap, namespace)).resource_version

    async def watch() -> None:
        seen = 0
        async for event in client.watch(
            builtin.ConfigMap, namespace, resource_version=begin, fields="metadata.name!=kube-root-ca.crt"
        ):
            seen += event.type == "ADDED"
            if seen == events:
                return

    tasks = [asyncio.create_task(watch()) for _ in range(watchers)]
    creates = [_create(client, builtin.ConfigMap, namespace, f"w-{i}", i) for i in range(events)]
    started = time.perf_counter()
    await at_once(creates, 16)
    await asyncio.gather(*tasks)
    return events * watchers / (time.perf_counter() - started)


async def run(count: int, watchers: int) -> dict[str, object]:
    results: dict[str, dict[str, float]] = {}
    memory: dict[str, float] = {}
    ready: dict[str, float] = {}
    for subject in (Real(), Ours()):
        async with AsyncExitStack() as stack:
            await subject.start(stack)
            results[subject.name] = await measure(subject, count, watchers)
            memory[subject.name] = sum(rss_mb(pid) for pid in subject.pids())
            ready[subject.name] = subject.ready_s
    ours, real = results["modelyard"], results["kube-apiserver"]
    print(f"{'per second':28}{'modelyard':>12}{'kube-apiserver':>16}{'ratio':>8}")
    for figure in ours:
        print(f"{figure:28}{ours[figure]:12.0f}{real[figure]:16.0f}{ours[figure] / real[figure]:8.2f}")
    print(f"{'ready after, s':28}{ready['modelyard']:12.2f}{ready['kube-apiserver']:16.2f}")
    print(f"{'memory, MB':28}{memory['modelyard']:12.1f}{memory['kube-apiserver']:16.1f}")

    def worst(verb: str, kinds: tuple[Kind, ...] = KINDS) -> float:
        rows = [f"{verb} {kind.kind} {c}" for kind in kinds for c in CONCURRENCY]
        return round(min(ours[row] / real[row] for row in rows), 3)

    return {
        "create_ratio": worst("create"),
        "apply_ratio": worst("apply"),
        "apply_ratio_deployment": worst("apply", (builtin.Deployment,)),
        "apply_ratio_others": worst("apply", (builtin.ConfigMap, WIDGET)),
        "list_ratio": round(min(ours[f"list {k.kind}"] / real[f"list {k.kind}"] for k in KINDS), 3),
        "watch_ratio": round(ours["watch"] / real["watch"], 3),
        "ready_s": round(ready["modelyard"], 3),
        "rss_mb": round(memory["modelyard"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="objects of each kind")
    parser.add_argument("--watchers", type=int, default=50)
    args = parser.parse_args()
    print(json.dumps(asyncio.run(run(args.count, args.watchers))))


if __name__ == "__main__":
    main()
