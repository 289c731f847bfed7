"""Which kinds the API serves right now: discovered at the start, and again whenever a CRD or an API service comes or goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Kind, Object
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.watching import Reflector, Selection, Timing

log = logging.getLogger(__name__)

POLL = 60.0
"""Aggregated APIs have no CRD whose events would tell us."""
GRACE = 2.0
"""A kind is gone when discovery has missed it for so long: an aggregated API that hiccups has not gone."""
SETTLING = (0.0, 0.5, 2.0, 5.0)
"""A new CRD is served a little after its event: so many seconds later discovery is asked again."""


class Served:
    """The set of served kinds; `subscribe` hears of every change as `(came, went)`."""

    def __init__(self, client: Client, *, poll: float = POLL, timing: Timing | None = None) -> None:
        self._client = client
        self._poll = poll
        self._kinds: frozenset[Kind] = frozenset()
        self._by_name: dict[tuple[str, str], Kind] = {}
        self._missed_since: dict[Kind, float] = {}
        self._listeners: list[Callable[[frozenset[Kind], frozenset[Kind]], None]] = []
        self._changed = asyncio.Event()
        self._known = asyncio.Event()
        self._crds = Reflector(
            client, Selection(CustomResourceDefinition, metadata_only=True), _Bell(self), timing=timing
        )
        self.error = ""
        """Why discovery fails right now; empty while all is well."""
        self.silent: Mapping[str, str] = {}
        """Groups that do not say what they serve right now, with the reason. What is known of them stays."""

    def __contains__(self, kind: Kind) -> bool:
        return kind in self._kinds

    def serves(self, kind: Kind) -> bool:
        return kind in self._kinds

    @property
    def kinds(self) -> frozenset[Kind]:
        return self._kinds

    @property
    def known(self) -> bool:
        """Has discovery succeeded once?"""
        return self._known.is_set()

    async def wait_known(self) -> None:
        await self._known.wait()

    def doubt(self, kinds: Iterable[Kind]) -> str:
        """Why it is not known whether all of these are served; empty if it is known."""
        for kind in kinds:
            if kind.group in self.silent and kind not in self._kinds:
                return f"whether {kind.resource} is served is not known: {self.silent[kind.group]}"
        return ""

    def kind_of(self, obj: Object) -> Kind | None:
        return self._by_name.get((obj.get("apiVersion", ""), obj.get("kind", "")))

    def subscribe(self, listener: Callable[[frozenset[Kind], frozenset[Kind]], None]) -> None:
        self._listeners.append(listener)

    def ring(self) -> None:
        """Something changed: discovery is asked again."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._crds.run(), name="watch CRDs for discovery")
            tasks.create_task(self._follow(), name="discovery")

    async def _follow(self) -> None:
        pause = 0.2
        while True:
            if not await self.refresh():
                await asyncio.sleep(pause)
                pause = min(pause * 2, 10.0)
                continue
            pause = 0.2
            try:
                # What was missed a moment ago has gone if it is missed again.
                async with asyncio.timeout(GRACE if self._missed_since else self._poll):
                    await self._changed.wait()
            except TimeoutError:
                continue
            for delay in SETTLING:
                await asyncio.sleep(delay)
                self._changed.clear()
                await self.refresh()

    async def refresh(self) -> bool:
        """Asks the API once; False if it did not answer (then what is known stays)."""
        try:
            found = await self._client.survey()
        except (ApiError, Unreachable) as error:
            self.error = str(error)
            log.info("discovery failed: %s", error)
            return False
        self.error = ""
        self.silent = found.silent
        self._replace(found.kinds)
        return True

    def _replace(self, found: Iterable[Kind]) -> None:
        new = self._with_missed(frozenset(found))
        came, went = new - self._kinds, self._kinds - new
        self._kinds = new
        self._by_name = {(kind.api_version, kind.kind): kind for kind in new}
        self._known.set()
        if came or went:
            for listener in self._listeners:
                listener(came, went)

    def _with_missed(self, found: frozenset[Kind]) -> frozenset[Kind]:
        """What was found, and what was missed only now."""
        now = asyncio.get_running_loop().time()
        missed = self._kinds - found
        unheard = {kind for kind in missed if kind.group in self.silent}
        since = {kind: self._missed_since.get(kind, now) for kind in missed - unheard}
        self._missed_since = since
        return found | unheard | {kind for kind, first in since.items() if now - first < GRACE}


class _Bell:
    """Takes the events of CRDs; only that there was one matters."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def replace(self, entries: Iterable[Entry], resource_version: str) -> None:
        self._served.ring()

    def put(self, entry: Entry) -> None:
        self._served.ring()

    def remove(self, entry: Entry) -> None:
        self._served.ring()

    def progress(self, resource_version: str) -> None:
        return
