"""Watches: each walks the history of its collection at its own pace, so a slow one never holds up a write or another watch."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.requests import problems, rendering
from modelyard.local.apiserver.requests.hooks import Hooks
from modelyard.local.apiserver.requests.messages import Request
from modelyard.local.apiserver.requests.negotiation import Format
from modelyard.local.apiserver.requests.options import ListOptions
from modelyard.local.apiserver.requests.problems import Problem
from modelyard.local.apiserver.served.resources import Registry, ServedResource
from modelyard.local.apiserver.storage.store import Change, Store, decode, encode
from modelyard.local.apiserver.verbs.listing import Lists
from modelyard.local.apiserver.verbs.selection import Selection

BOOKMARK_SECONDS = 60.0
_CHUNK = 256
"""How many changes are put into one chunk at most."""
_MANY = 8
_WAKE_SECONDS = 0.0002
"""Where many watches wait, for each of them that much time passes before they are woken again."""
_SHARED_CHUNKS = 4
_SHARED_BYTES = 64 * 1024
_RESOLUTION = 0.001
"""By how much a timer may fire early, in seconds."""
_INITIAL_END = "k8s.io/initial-events-end"


class Watches:
    """All watches under way."""

    def __init__(self, store: Store, lists: Lists, registry: Registry, hooks: Hooks) -> None:
        self.store = store
        self.lists = lists
        self.hooks = hooks
        self._registry = registry
        self._signals: dict[str, Signal] = {}
        self._open: set[Watch] = set()
        registry.listen(self._end_outdated)

    def open(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        options: ListOptions,
        request: Request,
        format: Format,
    ) -> Watch:
        selection = Selection(resource, namespace, options, name)
        return Watch(self, resource, selection, options, request, format)

    def signal(self, storage: str) -> Signal:
        signal = self._signals.get(storage)
        if signal is None:
            signal = self._signals[storage] = Signal(self.store, storage)
        return signal

    def add(self, watch: Watch) -> None:
        self._open.add(watch)

    def discard(self, watch: Watch) -> None:
        self._open.discard(watch)

    @property
    def drained(self) -> bool:
        """Whether every watch has handed over all there is."""
        return all(watch.drained for watch in self._open)

    def end(self, chosen: Callable[[Watch], bool] = lambda _: True) -> int:
        """Ends watches, as when a connection is lost; returns how many."""
        ended = [watch for watch in self._open if chosen(watch)]
        for watch in ended:
            watch.stop()
        return len(ended)

    def __len__(self) -> int:
        return len(self._open)

    def _end_outdated(self) -> None:
        """A resource that is gone or served by other rules: its watchers must come again."""
        for watch in list(self._open):
            kind = watch.resource.kind
            if self._registry.lookup(kind.group, kind.version, kind.plural) is not watch.resource:
                watch.stop()


class Signal:
    """Wakes the watches of one collection, and keeps the last frames and chunks that they share."""

    __slots__ = ("_chunks", "_held", "_timer", "_waiting", "_woken")

    def __init__(self, store: Store, storage: str) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._held: deque[Change] = deque()
        self._chunks: dict[tuple[object, ...], bytes] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._woken = 0.0
        """When watches were last woken."""
        store.listen(self._change, storage)

    def _change(self, change: Change) -> None:
        if not self._waiting or self._timer is not None:
            return
        many = len(self._waiting)
        if many >= _MANY:
            # To wake so many for each single change would take all the time there is; so they get several at once.
            loop = asyncio.get_running_loop()
            when = self._woken + many * _WAKE_SECONDS
            if when > loop.time():
                self._timer = loop.call_at(when, self._wake)
                return
        self._wake()

    def _wake(self) -> None:
        self._timer = None
        self._woken = asyncio.get_running_loop().time()
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Done at the next change."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        return future

    def chunk(self, key: tuple[object, ...]) -> bytes | None:
        """What another watch that wants the same made of the same changes."""
        return self._chunks.get(key)

    def share(self, key: tuple[object, ...], chunk: bytes) -> None:
        if len(chunk) > _SHARED_BYTES:
            return
        if len(self._chunks) >= _SHARED_CHUNKS:
            self._chunks.clear()
        self._chunks[key] = chunk

    def hold(self, change: Change) -> None:
        """Lets go of the frames of the oldest change when there are many: who is that late encodes for himself."""
        self._held.append(change)
        if len(self._held) > _CHUNK:
            self._held.popleft().frames = None

    def forget(self, future: asyncio.Future[None]) -> None:
        """The waiter was woken by something else, or has ended."""
        self._waiting.pop(future, None)


class Watch:
    """One watch. `frames()` is its stream; it ends when its time is over, when it fell too far behind, or when stopped."""

    def __init__(
        self,
        watches: Watches,
        resource: ServedResource,
        selection: Selection,
        options: ListOptions,
        request: Request,
        format: Format,
    ) -> None:
        self.resource = resource
        self.selection = selection
        self._watches = watches
        self._store = watches.store
        self._options = options
        self._format = format
        self._maker = (
            rendering.TableMaker(watches.hooks, resource, request, format.shape_version)
            if format.shape == "table"
            else None
        )
        self._headers = True
        self._likeness = (
            resource,
            selection.namespace,
            selection.name,
            options.selectors,
            format.shape,
            format.shape_version,
        )
        """Watches that are alike in this get the same bytes for the same changes."""
        self._timer: asyncio.TimerHandle | None = None
        self._position = 0
        self._sent = 0
        self._waiter: asyncio.Future[None] | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _wake_at(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is None or self._timer.when() != when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(when, self._wake)

    @property
    def drained(self) -> bool:
        waiting = self._waiter is not None and not self._waiter.done()
        return waiting and self._position == self._store.history(self.resource.storage).end

    async def frames(self) -> AsyncIterator[bytes]:
        self._watches.add(self)
        try:
            async for chunk in self._initial():
                yield chunk
            async for chunk in self._changes():
                yield chunk
        except Problem as problem:
            # Also from a conversion webhook: what cannot be shown ends the watch.
            yield _frame("ERROR", encode(problem.status))
        finally:
            self._watches.discard(self)
            if self._waiter is not None:
                self._waiter.cancel()
            if self._timer is not None:
                self._timer.cancel()

    async def _initial(self) -> AsyncIterator[bytes]:
        """Finds where to start, and sends the state there where the client asked for it."""
        options, store = self._options, self._store
        given = options.resource_version
        history = store.history(self.resource.storage)
        synthetic = options.initial_events if options.initial_events is not None else given in ("", "0")
        if synthetic:
            if given not in ("", "0"):
                await self._watches.lists.reach(int(given))
            self._sent = store.version
            self._position = history.end
            items = store.items(self.resource.storage, self.selection.namespace)
            matching = [stored for stored in items if self.selection.matches(stored)]
            for first in range(0, len(matching), _CHUNK):
                raws = await rendering.views(matching[first : first + _CHUNK], self.resource)
                yield b"".join([_frame("ADDED", self._shape(raw)) for raw in raws])
            if options.initial_events and options.bookmarks:
                yield self._bookmark({"annotations": {_INITIAL_END: "true"}})
            return
        start = int(given) if given not in ("", "0") else store.version
        if start < history.floor:
            raise problems.expired(f"too old resource version: {start} ({history.floor})")
        self._sent = start
        self._position = history.position_after(start)

    async def _changes(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        history = self._store.history(self.resource.storage)
        signal = self._watches.signal(self.resource.storage)
        seconds = self._options.timeout or random.uniform(1800, 3600)
        end = loop.time() + seconds
        bookmark = loop.time() + min(BOOKMARK_SECONDS, max(seconds - 2, seconds / 2))
        while not self._stopped:
            if self._position < history.start:
                version = self._sent
                status = problems.expired(f"too old resource version: {version} ({history.floor})").status
                yield _frame("ERROR", encode(status))
                return
            changes = history.read(self._position, _CHUNK)
            if changes:
                self._position += len(changes)
                self._sent = changes[-1].version
                chunk = await self._shared(changes, signal)
                if chunk:
                    yield chunk
                continue
            now = loop.time() + _RESOLUTION
            if now >= end:
                return
            if self._options.bookmarks and now >= bookmark:
                bookmark = now + BOOKMARK_SECONDS
                self._sent = self._store.version
                yield self._bookmark({})
                continue
            self._waiter = signal.waiter()
            self._wake_at(loop, min(end, bookmark) if self._options.bookmarks else end)
            try:
                await self._waiter
            finally:
                signal.forget(self._waiter)

    async def _shared(self, changes: list[Change], signal: Signal) -> bytes:
        if self._maker is not None:
            return await self._encoded(changes)
        key = (changes[0].version, changes[-1].version, self._likeness)
        chunk = signal.chunk(key)
        if chunk is None:
            chunk = await self._encoded(changes)
            signal.share(key, chunk)
        return chunk

    async def _encoded(self, changes: list[Change]) -> bytes:
        selection, parts = self.selection, []
        for change in changes:
            old, new = change.old, change.new
            was = old is not None and selection.matches(old)
            is_now = new is not None and selection.matches(new)
            if is_now:
                parts.append(await self._event("MODIFIED" if was else "ADDED", change))
            elif was:
                parts.append(await self._event("DELETED", change))
        return b"".join(parts)

    async def _event(self, type: str, change: Change) -> bytes:
        """A change as a frame. Watches that want the same bytes share them."""
        key = (type, self.resource, self._format.shape, self._format.shape_version)
        if change.frames is None:
            change.frames = {}
        elif self._maker is None:
            found = change.frames.get(key)
            if found is not None:
                return found
        if type == "DELETED":
            assert change.old is not None
            raw = _at_version(await rendering.view(change.old, self.resource), change.version)
        else:
            assert change.new is not None
            raw = await rendering.view(change.new, self.resource)
        frame = _frame(type, self._shape(raw))
        if self._maker is None:
            if not change.frames:
                self._watches.signal(self.resource.storage).hold(change)
            change.frames[key] = frame
        return frame

    def _shape(self, raw: bytes) -> bytes:
        if self._maker is not None:
            headers, self._headers = self._headers, False
            version = rendering.metadata_of(raw).get("resourceVersion", "")
            return self._maker.table([raw], {"resourceVersion": version}, headers=headers)
        return rendering.partial(raw, self._format.shape_version) if self._format.shape == "metadata" else raw

    def _bookmark(self, metadata: Object) -> bytes:
        metadata = {"resourceVersion": str(self._sent), "creationTimestamp": None} | metadata
        kind, api_version = self.resource.kind.kind, self.resource.kind.api_version
        if self._format.shape == "metadata":
            kind, api_version = "PartialObjectMetadata", f"meta.k8s.io/{self._format.shape_version}"
        return _frame("BOOKMARK", encode({"kind": kind, "apiVersion": api_version, "metadata": metadata}))


def _frame(type: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type.encode(), raw)


def _at_version(raw: bytes, version: int) -> bytes:
    """An object that left the watch, with the version at which it did."""
    obj = decode(raw)
    obj["metadata"]["resourceVersion"] = str(version)
    return encode(obj)
