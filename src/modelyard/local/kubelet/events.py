"""Events about objects, as a kubelet tells them: repeated ones are counted, floods are cut, the API is never waited for."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, NotFound, Unreachable
from modelyard.kube.kinds import Object
from modelyard.local.kubelet.status import timestamp

log = logging.getLogger(__name__)

_REMEMBERED = 4096
_BURST = 25.0
_REFILL = 1 / 300
"""Like client-go: 25 Events at once about one object, then one every five minutes."""


class Tell(Protocol):
    """Says something about an object."""

    def __call__(self, obj: Object, kind: str, reason: str, message: str, *, container: str = "") -> None: ...


@dataclass(slots=True)
class _Seen:
    name: str
    count: int


@dataclass(slots=True)
class _Budget:
    left: float
    at: float


class Recorder:
    """Writes Events in the background, in order."""

    def __init__(
        self,
        client: Client,
        node: str,
        clock: Callable[[], datetime],
        *,
        component: str = "kubelet",
        longest_queue: int = 2000,
    ) -> None:
        self._client = client
        self._node = node
        self._clock = clock
        self._component = component
        self._seen: OrderedDict[tuple[str, ...], _Seen] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._queue: asyncio.Queue[Object] = asyncio.Queue(longest_queue)
        self._serial = itertools.count()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._write(), name="events")

    def tell(self, obj: Object, kind: str, reason: str, message: str, *, container: str = "") -> None:
        meta = obj["metadata"]
        involved: Object = {
            "kind": obj.get("kind") or "Pod",
            "apiVersion": obj.get("apiVersion") or "v1",
            "name": meta["name"],
            "uid": meta.get("uid", ""),
            "resourceVersion": meta.get("resourceVersion", ""),
        }
        if meta.get("namespace"):
            involved["namespace"] = meta["namespace"]
        if container:
            init = any(item["name"] == container for item in obj["spec"].get("initContainers") or [])
            involved["fieldPath"] = f"spec.{'initContainers' if init else 'containers'}{{{container}}}"
        now = timestamp(self._clock())
        event: Object = {
            "metadata": {"namespace": meta.get("namespace") or "default"},
            "involvedObject": involved,
            "reason": reason,
            "message": message[:1024],
            "type": kind,
            "source": {"component": self._component, "host": self._node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": self._component,
            "reportingInstance": self._node,
        }
        if self._allowed(involved["uid"] or involved["name"]):
            with contextlib.suppress(asyncio.QueueFull):
                self._queue.put_nowait(event)

    def _allowed(self, key: str) -> bool:
        now = asyncio.get_running_loop().time()
        budget = self._budgets.pop(key, None) or _Budget(_BURST, now)
        budget.left = min(_BURST, budget.left + (now - budget.at) * _REFILL)
        budget.at = now
        allowed = budget.left >= 1
        if allowed:
            budget.left -= 1
        self._budgets[key] = budget
        if len(self._budgets) > _REMEMBERED:
            self._budgets.popitem(last=False)
        return allowed

    async def _write(self) -> None:
        while True:
            event = await self._queue.get()
            try:
                await self._send(event)
            except (ApiError, Unreachable) as error:
                log.debug("an event was not written: %s", error)
            finally:
                self._queue.task_done()

    async def _send(self, event: Object) -> None:
        involved = event["involvedObject"]
        namespace = event["metadata"]["namespace"]
        key = (involved["uid"], involved["name"], involved.get("fieldPath", ""), event["reason"], event["message"])
        seen = self._seen.get(key)
        if seen is not None:
            body = {"count": seen.count + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch(builtin.Event, namespace, seen.name, body)
            except NotFound:
                del self._seen[key]
            else:
                seen.count += 1
                return
        stamp = int(self._clock().timestamp() * 1e6) * 1000 + next(self._serial) % 1000
        event["metadata"]["name"] = f"{involved['name']}.{stamp:016x}"
        await self._client.create(builtin.Event, event)
        self._seen[key] = _Seen(event["metadata"]["name"], 1)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    async def flush(self) -> None:
        """Wait until everything told so far is written (or given up)."""
        await self._queue.join()

    async def close(self) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._queue.join(), 2)
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
