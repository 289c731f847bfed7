"""Follows one collection of the API: lists it, watches it, and finds back after every failure. It may not die unseen."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from modelyard.kube.client import Client, WatchEvent
from modelyard.kube.errors import ApiError, BadRequest, Gone, Invalid, NotFound, Unreachable
from modelyard.kube.kinds import Key, Kind
from modelyard.runtime.caching.entry import Entry, entry_of

log = logging.getLogger(__name__)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
STREAM_FAILURES = 3
OPEN_IS_WELL = 1 / 6
"""The part of `Timing.stale` after which a watch that only stands open counts as well."""


@dataclass(frozen=True)
class Selection:
    """Which objects are followed. Empty means: no limit."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def __str__(self) -> str:
        limits = {"in": self.namespace, "with": self.labels, "where": self.fields}
        said = "".join(f" {word} {value}" for word, value in limits.items() if value)
        return f"{self.kind.resource}{said}{' (metadata only)' if self.metadata_only else ''}"


@dataclass(frozen=True)
class Timing:
    """How long things may take, in seconds."""

    watch: float = 300.0
    """Asked of the server as the length of one watch; up to twice as long, so that watches do not all end at once."""
    silence: float = 120.0
    """No event and no bookmark (they come each minute) for so long: the watch is not trusted any more."""
    stale: float = 30.0
    """Failing for so long: what we hold may be old."""
    first_retry: float = 0.2
    longest_retry: float = 30.0
    page: int = 500
    linger: float = 30.0
    """How long a watch that nobody demands any more stays open."""


class Sink(Protocol):
    """What is fed by a reflector."""

    def replace(self, entries: Iterable[Entry], resource_version: str) -> None:
        """This is all there is: what is not among it is gone."""
        ...

    def put(self, entry: Entry) -> None: ...

    def remove(self, entry: Entry) -> None: ...

    def progress(self, resource_version: str) -> None:
        """Everything up to this version has been seen."""
        ...


@dataclass(frozen=True)
class Empty:
    """Nothing is known, or what is known cannot be continued: all must be read."""


@dataclass(frozen=True)
class Listing:
    """Some pages of a list have been read."""

    entries: list[Entry] = field(default_factory=list)
    continue_: str = ""
    limit: int = 0


@dataclass(frozen=True)
class Watching:
    """Everything up to a version is known; events tell the rest."""

    resource_version: str


@dataclass(frozen=True)
class Waiting:
    """Something failed; after a while, `then` is tried."""

    seconds: float
    then: Empty | Listing | Watching


State: TypeAlias = Empty | Listing | Watching | Waiting


class _Silent(Exception):
    """The watch said nothing for too long."""


class Reflector:
    """A state machine: each state is one kind of work, and its result or its failure names the next state."""

    def __init__(
        self,
        client: Client,
        selection: Selection,
        sink: Sink,
        *,
        keep_managers: str = "",
        timing: Timing | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.selection = selection
        self.state: State = Empty()
        self.synced = False
        self.error = ""
        """Why the last step failed; empty while all is well."""
        self.relists = 0
        self._client = client
        self._sink = sink
        self._keep_managers = keep_managers
        self._timing = timing or Timing()
        self._chance = chance
        self._streams_lists = True
        self._failures = 0
        self._failing_since: float | None = None
        self._last_contact = 0.0
        self._last_fed = 0.0
        self._watchdog: asyncio.Timeout | None = None
        self._open_timer: asyncio.TimerHandle | None = None
        self._start_over = False
        self._retry_now = asyncio.Event()

    @property
    def stale(self) -> bool:
        """What was read may be old: never listed, or cut off for longer than a hiccup."""
        if not self.synced:
            return True
        since = self._failing_since
        return since is not None and asyncio.get_running_loop().time() - since > self._timing.stale

    def relist(self) -> None:
        """Reads everything again, now; a reading that is under way is not disturbed."""
        if isinstance(self.state, Empty | Listing):
            return
        self._start_over = True
        self._retry_now.set()
        if self._watchdog is not None and not self._watchdog.expired():
            self._watchdog.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Until cancelled."""
        self._last_contact = asyncio.get_running_loop().time()
        while True:
            try:
                self.state = await self._step(self.state)
            except Exception as error:
                self.state = self._recover(self.state, error)

    async def _step(self, state: State) -> State:
        match state:
            case Empty():
                self._start_over = False
                self.relists += self.synced
                # Where streaming lists keep failing, plain ones may get through.
                streams = self._streams_lists and self._failures < STREAM_FAILURES
                return await self._stream_list() if streams else Listing(limit=self._timing.page)
            case Listing():
                return await self._list_page(state)
            case Watching() if self._start_over:
                return Empty()
            case Watching():
                return await self._follow(state.resource_version, None)
            case Waiting():
                return await self._wait(state)

    async def _list_page(self, state: Listing) -> State:
        chosen = self.selection
        async with asyncio.timeout(self._timing.silence):
            page = await self._client.list_page(
                chosen.kind,
                chosen.namespace,
                labels=chosen.labels,
                fields=chosen.fields,
                limit=state.limit,
                continue_=state.continue_,
                metadata_only=chosen.metadata_only,
            )
        self._contact()
        entries = state.entries + self._entries(page.items)
        if page.continue_:
            return Listing(entries, page.continue_, state.limit)
        return self._listed(entries, page.resource_version)

    async def _stream_list(self) -> State:
        """A list as a stream of ADDED events that ends with a marked bookmark; then the same stream goes on as a watch."""
        entries: dict[Key, Entry] = {}
        try:
            return await self._follow("", entries)
        except (BadRequest, Invalid) as refusal:
            # A server that does not know streaming lists says so at once.
            if entries:
                raise
            log.debug("%s: no streaming lists here: %s", self.selection, refusal)
            self._streams_lists = False
            return Listing(limit=self._timing.page)

    async def _follow(self, resource_version: str, initial: dict[Key, Entry] | None) -> State:
        """Reads one watch to its end; `initial` collects the first part of a streaming list."""
        chosen, loop = self.selection, asyncio.get_running_loop()
        opened = self._last_fed = loop.time()
        news = 0
        stream = self._client.watch(
            chosen.kind,
            chosen.namespace,
            resource_version=resource_version,
            labels=chosen.labels,
            fields=chosen.fields,
            timeout=self._timing.watch * (1 + self._chance()),
            send_initial_events=initial is not None,
            metadata_only=chosen.metadata_only,
            on_open=self._opened,
        )
        try:
            async with asyncio.timeout(self._timing.silence) as watchdog, aclosing(stream):
                self._watchdog = watchdog
                async for event in stream:
                    self._feed(watchdog)
                    if initial is None:
                        news += 1
                        resource_version = self._handle(event) or resource_version
                    elif self._collect(initial, event):
                        resource_version, initial = self._finish_stream(initial, event), None
                    else:
                        continue
                    self.state = Watching(resource_version)
        except TimeoutError:
            if self._start_over:
                return Empty()
            if initial is not None:
                # Old servers and some proxies never send the marked bookmark.
                self._streams_lists = False
            raise _Silent(f"no event and no bookmark for {self._timing.silence:g} s") from None
        finally:
            self._watchdog = None
            if self._open_timer is not None:
                self._open_timer.cancel()
            lasted = loop.time() - opened
            if news or lasted > self._timing.longest_retry:
                self._failures = 0
        if initial is not None:
            self._streams_lists = False
            raise Unreachable("the streaming list ended before it was complete")
        if not news and lasted < self._timing.first_retry:
            # A server that only opens and closes watches must not be asked in a tight loop.
            raise Unreachable("the watch ended at once")
        return Watching(resource_version)

    def _opened(self) -> None:
        """The server took up the watch. If it still stands in a while, it is well, though a quiet one says nothing yet."""
        loop = asyncio.get_running_loop()
        self._open_timer = loop.call_later(self._timing.stale * OPEN_IS_WELL, self._contact)

    def _feed(self, watchdog: asyncio.Timeout) -> None:
        """Something came. The timer is moved only now and then: that costs more than handling an event."""
        now = asyncio.get_running_loop().time()
        if now - self._last_fed > self._timing.silence / 10:
            self._last_fed = now
            watchdog.reschedule(now + self._timing.silence)
        self._contact()

    async def _wait(self, state: Waiting) -> State:
        self._retry_now.clear()
        try:
            async with asyncio.timeout(state.seconds):
                await self._retry_now.wait()
        except TimeoutError:
            pass
        return state.then

    def _collect(self, initial: dict[Key, Entry], event: WatchEvent) -> bool:
        """Takes one event of a streaming list; True if it was the last."""
        if event.type == "BOOKMARK":
            annotations = (event.object.get("metadata") or {}).get("annotations") or {}
            return annotations.get(INITIAL_EVENTS_END) == "true"
        for entry in self._entries((event.raw,)):
            if event.type == "DELETED":
                initial.pop(entry.key, None)
            else:
                initial[entry.key] = entry
        return False

    def _finish_stream(self, initial: dict[Key, Entry], event: WatchEvent) -> str:
        version = entry_of(self.selection.kind, event.raw).resource_version
        self._listed(initial.values(), version)
        return version

    def _listed(self, entries: Iterable[Entry], resource_version: str) -> Watching:
        self._sink.replace(entries, resource_version)
        self.synced = True
        self._contact()
        return Watching(resource_version)

    def _handle(self, event: WatchEvent) -> str:
        """Passes one event on; gives the version it brings us to."""
        entry = next(iter(self._entries((event.raw,))), None)
        if entry is None:
            return ""
        match event.type:
            case "ADDED" | "MODIFIED":
                self._sink.put(entry)
            case "DELETED":
                self._sink.remove(entry)
            case _:
                self._sink.progress(entry.resource_version)
        return entry.resource_version

    def _entries(self, items: Sequence[bytes]) -> list[Entry]:
        entries: list[Entry] = []
        for raw in items:
            try:
                entries.append(entry_of(self.selection.kind, raw, keep_managers=self._keep_managers))
            except msgspec.MsgspecError as error:
                # One broken object must not stop the others.
                log.error("%s: an object cannot be read and is left out: %s", self.selection, error)
        return entries

    def _contact(self) -> None:
        self._last_contact = asyncio.get_running_loop().time()
        self._failing_since = None
        self.error = ""

    def _recover(self, state: State, error: Exception) -> State:
        """What to do next after a failure: continue where we were if that is possible, else read everything."""
        now = asyncio.get_running_loop().time()
        self._failures += 1
        if self._failing_since is None:
            self._failing_since = self._last_contact if isinstance(error, _Silent) else now
        self.error = str(error) or type(error).__name__
        then: Empty | Listing | Watching
        match error:
            case _Silent():
                log.warning("%s: %s; everything is read again", self.selection, error)
                return Empty()
            case Gone() if isinstance(state, Listing):
                # The snapshot behind the pages expired; one big page cannot.
                then = Listing(limit=0)
            case Gone() | NotFound() | BadRequest() | Invalid():
                # Our version or page means nothing to the server (any more), or the kind was not served for a while
                # and nobody told what happened in between.
                then = Empty()
            case ApiError() if _from_the_future(error):
                # The server was restored or is behind; what we know cannot be continued.
                then = Empty()
            case _:
                then = state.then if isinstance(state, Waiting) else state
        if not isinstance(error, ApiError | Unreachable | TimeoutError):
            log.error("%s: unexpected failure", self.selection, exc_info=error)
        else:
            log.info("%s: %s", self.selection, self.error)
        return Waiting(self._backoff(error), then)

    def _backoff(self, error: Exception) -> float:
        timing = self._timing
        wait = min(timing.first_retry * 2.0 ** min(self._failures - 1, 30), timing.longest_retry)
        asked = error.retry_after if isinstance(error, ApiError) else None
        return max(wait * (0.8 + 0.4 * self._chance()), min(asked or 0.0, timing.longest_retry))


def _from_the_future(error: ApiError) -> bool:
    return "too large resource version" in error.message.lower() or any(
        cause.get("reason") == "ResourceVersionTooLarge" for cause in error.causes
    )
