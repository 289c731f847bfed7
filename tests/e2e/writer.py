"""Load on a laptop cluster: objects are written without pause, and it is known what the API server acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Self

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.client import Client
from modelyard.kube.config import ConfigError, connect
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Object

LABEL = "written-by=load"
WORKERS = 4
PAUSE = 0.02


class Writer:
    """`with Writer(kubeconfig) as load:` creates, changes and deletes ConfigMaps until the block ends.

    `possible` holds, for every name, the values that the object may have now: one, if the last write was acknowledged; two, if
    the answer to it never came. `None` stands for an object that is not there.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._write()), name="load")
        self.possible: dict[str, set[str | None]] = {}
        self.acknowledged = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def lost(self) -> dict[str, str]:
        """Once the load has ended: every object that is not what the API server said it would be."""

        async def read() -> list[Object]:
            client = connect(self._kubeconfig)
            try:
                return (await client.list(ConfigMap, "default", labels=LABEL)).items
            finally:
                await client.close()

        there = {obj["metadata"]["name"]: obj["data"]["value"] for obj in asyncio.run(read())}
        return {
            name: f"may be {sorted(map(str, values))}, is {there.get(name)}"
            for name, values in self.possible.items()
            if there.get(name) not in values
        } | dict.fromkeys(there.keys() - self.possible.keys(), "was never asked for")

    async def _write(self) -> None:
        await asyncio.gather(*(self._work(f"load-{number}") for number in range(WORKERS)))

    async def _work(self, prefix: str) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                client = connect(self._kubeconfig)
            except ConfigError:  # `up` is just writing a new one
                await asyncio.sleep(PAUSE)
                continue
            # After an answer that never came, the next try has a fresh connection and objects of its own.
            with contextlib.suppress(ApiError, Unreachable):
                while not self._stop.is_set():
                    number += 1
                    await self._live(client, f"{prefix}-{number}", keep=number % 3 != 0)
            await client.close()
            await asyncio.sleep(PAUSE)

    async def _live(self, client: Client, name: str, *, keep: bool) -> None:
        """One object's life: created, changed, and either kept or deleted."""
        self.possible[name] = {None}
        labels = dict([LABEL.split("=")])
        body: Object = {"metadata": {"name": name, "namespace": "default", "labels": labels}, "data": {"value": "1"}}
        self._ask(name, "1")
        await client.create(ConfigMap, body)
        self._told(name, "1")
        self._ask(name, "2")
        await client.patch(ConfigMap, "default", name, {"data": {"value": "2"}})
        self._told(name, "2")
        if not keep:
            self._ask(name, None)
            await client.delete(ConfigMap, "default", name)
            self._told(name, None)
        await asyncio.sleep(PAUSE)

    def _ask(self, name: str, value: str | None) -> None:
        self.possible[name].add(value)

    def _told(self, name: str, value: str | None) -> None:
        self.possible[name] = {value}
        self.acknowledged += 1
