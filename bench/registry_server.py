"""The registry's server with 100,000 versions of five properties each, against the figures that were measured of upstream's server.

Upstream's server cannot be built here: the public module proxy has none of its versions. Its figures come from other runs on a loaded machine (Go server,
PostgreSQL with fsync, four clients), so read the ratios as an order of magnitude. Both sides wait for the disk before they acknowledge a write. `--versions N` and `--seconds S` make it shorter.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from bench.measure import rss_mb
from modelyard.programs.database import Session, Source, open_database
from modelyard.programs.database.source import DatabaseType
from modelyard.programs.registry.kinds import MODEL, VERSION
from modelyard.programs.registry.schema import prepare
from modelyard.programs.registry.store import Store
from tests.unit.programs.databases import free_port, postgres, running

CLIENTS = 4
# Requests a second of upstream's server: the better of the figures in the spec, so that ratios flatter nobody.
UPSTREAM = {
    "create": 172, "get": 760, "list_20": 190, "list_100": 48, "filter_text": 17, "filter_number": 89, "filter_both": 65,
    "name_like": 70,
}  # fmt: skip
# How many times upstream's rate ours is to reach, and what a server may need.
GOALS: dict[str, dict[str, float]] = {
    "sqlite": {
        "create": 1.5, "get": 1, "list_20": 4, "list_100": 8, "filter_text": 20, "filter_number": 3, "filter_both": 3,
        "name_like": 1,
    },
    "postgres": {
        "create": 1, "get": 0.7, "list_20": 2, "list_100": 4, "filter_text": 2, "filter_number": 2, "filter_both": 2,
        "name_like": 1,
    },
}  # fmt: skip
RSS_MB, READY_S = 60.0, 0.7
PREFIX = "/api/model_registry/v1alpha3"
_BATCH = 2000


def properties(number: int) -> dict[str, Any]:
    return {
        "team": {"metadataType": "MetadataStringValue", "string_value": f"team-{number % 1000}"},
        "accuracy": {"metadataType": "MetadataDoubleValue", "double_value": (number * 7919 % 10007) / 10007},
        "epochs": {"metadataType": "MetadataIntValue", "int_value": str(number % 100)},
        "stable": {"metadataType": "MetadataBoolValue", "bool_value": number % 2 == 0},
        "commit": {"metadataType": "MetadataStringValue", "string_value": f"{number:040x}"},
    }


async def fill(source: Source, versions: int) -> int:
    """Writes the versions straight into the tables; gives the model's id."""
    database = open_database(source)
    await database.write(prepare)

    def model(session: Session) -> int:
        return Store(session).insert(MODEL, {"name": "m", "customProperties": {}}, scope=0, parent_id=None).id

    model_id = await database.write(model)

    def batch(start: int) -> Callable[[Session], None]:
        def work(session: Session) -> None:
            store = Store(session)
            for number in range(start, min(start + _BATCH, versions)):
                doc = {
                    "name": f"version-{number}",
                    "registeredModelId": str(model_id),
                    "state": "LIVE",
                    "author": f"author-{number % 50}",
                    "customProperties": properties(number),
                }
                store.insert(VERSION, doc, scope=model_id, parent_id=model_id)

        return work

    for start in range(0, versions, _BATCH):
        await database.write(batch(start))
    if source.type == "postgres":
        await database.read(lambda session: session.run("ANALYZE"))
    database.close()
    return model_id


@contextlib.contextmanager
def serving(source: Source) -> Iterator[tuple[str, int, float]]:
    """The server as a process: its address, its pid, and the seconds until it was ready."""
    port = free_port()
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "modelyard.programs", "proxy", "--hostname=127.0.0.1", f"--port={port}",
         f"--embedmd-database-type={source.type}", f"--embedmd-database-dsn={source.address}"],
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        ready = asyncio.run(_ready(address, start))
        yield address, process.pid, ready
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


async def _ready(address: str, start: float) -> float:
    async with aiohttp.ClientSession() as client:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(f"{address}/readyz/health") as answer:
                    if answer.status == 200:
                        return time.monotonic() - start
            await asyncio.sleep(0.01)


def requests(model_id: int, versions: int) -> dict[str, Callable[[int], tuple[str, str, Any]]]:
    def listed(size: int, query: str = "") -> Callable[[int], tuple[str, str, Any]]:
        text = f"&filterQuery={quote(query)}" if query else ""
        return lambda number: (
            "GET",
            f"/model_versions?pageSize={size}{text.replace('NUMBER', str(number % 1000))}",
            None,
        )

    stamp = os.getpid()
    return {
        "create": lambda number: (
            "POST",
            "/model_versions",
            {
                "name": f"new-{stamp}-{number}",
                "registeredModelId": str(model_id),
                "customProperties": properties(versions + number),
            },
        ),
        "get": lambda number: ("GET", f"/model_versions/{model_id + 1 + number * 7919 % versions}", None),
        "list_20": listed(20),
        "list_100": listed(100),
        "filter_text": listed(20, "team = 'team-NUMBER'"),
        "filter_number": listed(20, "accuracy > 0.9"),
        "filter_both": listed(20, "accuracy > 0.9 AND team = 'team-NUMBER'"),
        "name_like": listed(20, "name LIKE '%99NUMBER%'"),
    }


async def measure(address: str, make: Callable[[int], tuple[str, str, Any]], seconds: float) -> dict[str, float]:
    times: list[float] = []
    counter = iter(range(1, 10**9))
    end = time.monotonic() + seconds

    async def one(client: aiohttp.ClientSession) -> None:
        while time.monotonic() < end:
            method, path, body = make(next(counter))
            start = time.monotonic()
            async with client.request(method, URL(address + PREFIX + path, encoded=True), json=body) as answer:
                await answer.read()
                assert answer.status in (200, 201), await answer.text()
            times.append(time.monotonic() - start)

    async with aiohttp.ClientSession() as client:
        start = time.monotonic()
        await asyncio.gather(*(one(client) for _ in range(CLIENTS)))
        spent = time.monotonic() - start
    return {"per_second": round(len(times) / spent, 1), "p50_ms": round(statistics.median(times) * 1000, 2)}


def run(source: Source, versions: int, seconds: float) -> dict[str, Any]:
    model_id = asyncio.run(fill(source, versions))
    shown: dict[str, Any] = {}
    with serving(source) as (address, pid, ready):
        for name, make in requests(model_id, versions).items():
            found = asyncio.run(measure(address, make, seconds))
            found["ratio"] = round(found["per_second"] / UPSTREAM[name], 2)
            found["goal"] = GOALS[source.type][name]
            shown[name] = found
            print(
                f"{source.type:9} {name:14} {found['per_second']:9} /s  p50 {found['p50_ms']:8} ms  "
                f"{found['ratio']}x upstream, goal {found['goal']}x",
                flush=True,
            )
        shown["rss_mb"] = round(rss_mb(pid), 1)
        shown["ready_s"] = round(ready, 2)
        print(
            f"{source.type:9} rss {shown['rss_mb']} MB (goal {RSS_MB}), ready in {shown['ready_s']} s (goal {READY_S})"
        )
    shown["missed"] = _missed(shown)
    return shown


def _missed(shown: dict[str, Any]) -> list[str]:
    """The goals that this run did not reach."""
    slow = [name for name, found in shown.items() if isinstance(found, dict) and found["ratio"] < found["goal"]]
    over = [name for name, most in (("rss_mb", RSS_MB), ("ready_s", READY_S)) if shown[name] > most]
    return slow + over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--databases", default="sqlite,postgres")
    options = parser.parse_args()
    result: dict[str, Any] = {
        "versions": options.versions,
        "clients": CLIENTS,
        "upstream_per_second": UPSTREAM,
        "upstream_from": "the figures of other runs, not this machine",
    }
    for name in options.databases.split(","):
        with contextlib.ExitStack() as stack:
            if name == "postgres":
                kind: DatabaseType = "postgres"
                address = stack.enter_context(running(lambda directory: postgres(directory, durable=True))).dsn
            else:
                kind = "sqlite"
                address = f"{stack.enter_context(tempfile.TemporaryDirectory())}/registry.db"
            result[name] = run(Source(kind, address), options.versions, options.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
