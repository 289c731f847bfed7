"""One collection of the cluster, kept current: a store that follows the API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Object
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.store import Store
from modelyard.runtime.caching.watching import Reflector, Selection, Timing

log = logging.getLogger(__name__)

CATCH_UP_STEP = 1.0


class Cache(Store):
    """A store that follows the API while it is started."""

    def __init__(
        self, client: Client, selection: Selection, *, keep_managers: str = "", timing: Timing | None = None
    ) -> None:
        super().__init__(selection)
        self._client = client
        self._keep_managers = keep_managers
        self._timing = timing
        self._reflector: Reflector | None = None
        self._task: asyncio.Task[None] | None = None
        self._synced = asyncio.Event()

    @property
    def started(self) -> bool:
        return self._task is not None

    @property
    def _dead(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    @property
    def stale(self) -> bool:
        """Started, but what it holds may be old."""
        return self._reflector is not None and (self._reflector.stale or self._dead)

    @property
    def error(self) -> str:
        """Why it is not current; empty while all is well."""
        if self._dead:
            return "the watch was cancelled"
        return self._reflector.error if self._reflector else ""

    def start(self) -> None:
        """Begins to follow; a no-op when it does already."""
        if self._task is None:
            self._reflector = Reflector(
                self._client, self.selection, self, keep_managers=self._keep_managers, timing=self._timing
            )
            self._spawn(self._reflector)

    async def stop(self, *, clear: bool = True) -> None:
        """Follows no more. `clear`: and holds nothing, so handlers see everything go."""
        task, self._task, self._reflector = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._synced.clear()
        if clear:
            self.clear()

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits for the first complete list; False if it did not come in time."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    async def catch_up(self, timeout: float = 30.0) -> bool:
        """Brings the cache to where the cluster is now: the first thing a new leader does. False if that took too long."""
        try:
            async with asyncio.timeout(timeout):
                version = await self._version_now()
                while not await self.wait_passed(version, CATCH_UP_STEP):
                    # A quiet collection sends no events that would prove it current, so it is read again.
                    if self._reflector is not None:
                        self._reflector.relist()
        except TimeoutError:
            return False
        return True

    async def _version_now(self) -> str:
        """The version of a consistent read, tried until it succeeds."""
        chosen = self.selection
        while True:
            try:
                page = await self._client.list_page(
                    chosen.kind,
                    chosen.namespace,
                    labels=chosen.labels,
                    fields=chosen.fields,
                    limit=1,
                    metadata_only=chosen.metadata_only,
                )
            except (ApiError, Unreachable) as error:
                log.info("%s: %s", chosen, error)
                await asyncio.sleep(CATCH_UP_STEP)
            else:
                return page.resource_version

    def replace(self, entries: Iterable[Entry], resource_version: str) -> None:
        super().replace(entries, resource_version)
        if self._reflector is not None:
            self._synced.set()

    def info(self) -> Object:
        """For the debug page."""
        reflector = self._reflector
        return {
            "selection": str(self.selection),
            "objects": len(self),
            "bytes": self.size(),
            "resourceVersion": self.resource_version,
            "state": type(reflector.state).__name__ if reflector else "Stopped",
            "synced": self.synced,
            "stale": self.stale,
            "relists": reflector.relists if reflector else 0,
            "error": self.error,
        }

    def _spawn(self, reflector: Reflector) -> None:
        task = asyncio.create_task(reflector.run(), name=f"watch {self.selection}")
        self._task = task

        def ended(_: asyncio.Task[None]) -> None:
            if self._task is not task:
                return
            # Only `stop` may end it. When the loop shuts down all tasks are cancelled; a failure must not be the end.
            if not task.cancelled():
                log.error("%s: the watch failed and is started again", self.selection, exc_info=task.exception())
                self._spawn(reflector)

        task.add_done_callback(ended)
