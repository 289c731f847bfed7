"""Writes pod statuses to the API: the newest of each pod, one write at a time for each, again until it is taken."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Conflict, NotFound, Unreachable
from modelyard.kube.kinds import Object

log = logging.getLogger(__name__)

_MAY_GO = ("reason", "message", "podIP", "podIPs", "initContainerStatuses")


class StatusWriter:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._pending: dict[str, tuple[Object, Object]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def report(self, pod: Object, status: Object) -> None:
        uid = pod["metadata"]["uid"]
        self._pending[uid] = (pod, status)
        task = self._tasks.get(uid)
        if task is None or task.done():
            self._tasks[uid] = asyncio.create_task(self._write(uid), name=f"status-{pod['metadata']['name']}")

    async def flush(self, uid: str) -> None:
        """Wait until the newest status of a pod is written."""
        task = self._tasks.get(uid)
        if task is not None:
            await asyncio.shield(task)

    async def _write(self, uid: str) -> None:
        delay = 0.2
        while uid in self._pending:
            pod, status = self._pending.pop(uid)
            meta = pod["metadata"]
            # A strategic merge keeps conditions that others own; what we no longer say must be taken away by name.
            conditions = [{"reason": None, "message": None} | item for item in status["conditions"]]
            gone = {name: None for name in _MAY_GO if name not in status}
            body: Object = {"metadata": {"uid": uid}, "status": gone | status | {"conditions": conditions}}
            try:
                await self._client.patch(
                    builtin.Pod, meta["namespace"], meta["name"], body, type="strategic", subresource="status"
                )
                delay = 0.2
            except (NotFound, Conflict):
                self._pending.pop(uid, None)
            except (ApiError, Unreachable) as error:
                log.warning("status of pod %s/%s was not written: %s", meta["namespace"], meta["name"], error)
                if isinstance(error, ApiError) and error.code < 500 and error.code != 429:
                    # Refused for what it says: the same again would be refused again.
                    continue
                self._pending.setdefault(uid, (pod, status))
                await asyncio.sleep(delay)
                delay = min(delay * 2, 10.0)
        self._tasks.pop(uid, None)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        if tasks:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
