"""SIGKILL of the API server under write load: nothing acknowledged is lost, nothing half-written is seen."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from modelyard.kube.builtin import ConfigMap, Namespace
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, NotFound, Unreachable
from tests.chaos.amount import EVERYTHING, FULL

ROUNDS = 500 if EVERYTHING else 50 if FULL else 5
WRITERS = 8


@dataclass
class Ledger:
    """What the server acknowledged: the value each object must have at least."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    attempted: dict[str, int] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    highest_version: int = 0

    def note(self, obj: dict[str, object]) -> None:
        metadata = obj["metadata"]
        assert isinstance(metadata, dict)
        self.highest_version = max(self.highest_version, int(metadata["resourceVersion"]))


class Server:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self) -> None:
        (self.directory / "kubeconfig").unlink(missing_ok=True)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "modelyard.local.apiserver", "--dir", str(self.directory)],
                stdout=log,
                stderr=log,
            )

    async def client(self) -> Client:
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None, (self.directory / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, "the server did not come back"
            if (self.directory / "kubeconfig").exists():
                client = connect(self.directory / "kubeconfig")
                try:
                    await client.request("GET", "/readyz")
                    return client
                except (ApiError, Unreachable):
                    await client.close()
            await asyncio.sleep(0.02)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


async def write(client: Client, writer: int, ledger: Ledger, chance: random.Random) -> None:
    """Creates, changes and deletes its own objects until the server is gone."""
    for number in range(1, 10_000):
        name = f"w{writer}-{chance.randrange(40)}"
        value = ledger.attempted.get(name, 0) + 1
        ledger.attempted[name] = value
        obj = {"metadata": {"name": name, "namespace": "kill"}, "data": {"value": str(value), "same": str(value)}}
        try:
            if name in ledger.acknowledged and number % 11 == 0:
                ledger.deleted.add(name)
                await client.delete(ConfigMap, "kill", name)
                ledger.acknowledged.pop(name, None)
            elif name in ledger.acknowledged and name not in ledger.deleted:
                ledger.note(await client.patch(ConfigMap, "kill", name, {"data": obj["data"]}))
                ledger.acknowledged[name] = value
            else:
                ledger.note(await client.apply(ConfigMap, obj, field_manager="kill", force=True))
                ledger.deleted.discard(name)
                ledger.acknowledged[name] = value
        except NotFound:
            ledger.acknowledged.pop(name, None)
        except (Unreachable, ApiError):
            return


async def check(client: Client, ledger: Ledger) -> None:
    listed = await client.list(ConfigMap, "kill")
    found = {obj["metadata"]["name"]: obj for obj in listed.items}
    for name, value in ledger.acknowledged.items():
        if name in ledger.deleted:
            continue  # Its deletion was sent and may have happened without an answer.
        assert name in found, f"{name} was acknowledged with value {value} and is gone"
        assert int(found[name]["data"]["value"]) >= value, f"{name} went back"
    for name, obj in found.items():
        if name.startswith("w"):
            assert obj["data"]["value"] == obj["data"]["same"], f"{name} is half-written"
            assert int(obj["data"]["value"]) <= ledger.attempted[name]
            ledger.acknowledged[name] = int(obj["data"]["value"])
    for name in set(ledger.acknowledged) - set(found):
        ledger.acknowledged.pop(name)
    ledger.deleted.clear()
    assert int(listed.resource_version) >= ledger.highest_version, "versions went back"


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    server, ledger, chance = Server(tmp_path), Ledger(), random.Random(7)
    server.start()
    client = await server.client()
    await client.create(Namespace, {"metadata": {"name": "kill"}})
    try:
        for _ in range(ROUNDS):
            load = [asyncio.create_task(write(client, n, ledger, chance)) for n in range(WRITERS)]
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            server.kill()
            await asyncio.gather(*load)
            await client.close()
            server.start()
            client = await server.client()
            await check(client, ledger)
    finally:
        await client.close()
        server.kill()
