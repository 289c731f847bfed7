"""The objects: an in-memory read model with one monotonic version and a bounded history, durable through a journal or not.

A write is checked against the newest state, acknowledged only when the journal kept it, and visible only then. Reads are plain
look-ups; objects are kept as JSON bytes and decoded by who needs them."""

from __future__ import annotations

import asyncio
import sys
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from modelyard.kube.kinds import Object
from modelyard.local.apiserver.storage.history import History
from modelyard.local.apiserver.storage.shared_text import FieldTexts, Kept, own_size

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(dict)
encode = _encoder.encode

FIRST_VERSION = 100
"""Not 1: a client that asks for the very first versions asks for what is long gone, on a fresh server too."""
MOST_BYTES = 1536 * 1024
"""How large an object may be."""
_CHANGE_BYTES, _STORED_BYTES = 100, 600
"""What a change and a version of an object take in memory, beside the object's bytes."""


def decode(raw: bytes) -> Object:
    obj: Object = _decoder.decode(raw)
    return obj


class _Owner(msgspec.Struct):
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Envelope(msgspec.Struct):
    metadata: _Metadata


_envelopes = msgspec.json.Decoder(_Envelope)


class Stored:
    """One version of one object. Immutable, but for what is worked out lazily."""

    __slots__ = (
        "born", "deleting", "kept", "key", "labels", "name", "namespace", "owners", "rules", "storage", "uid", "version", "views",
    )  # fmt: skip

    def __init__(
        self,
        storage: str,
        namespace: str,
        name: str,
        version: int,
        kept: Kept,
        *,
        born: int,
        uid: str,
        labels: dict[str, str] | None,
        owners: tuple[str, ...],
        deleting: bool,
        rules: object = None,
        key: str = "",
    ) -> None:
        self.storage = storage
        # Every request brings its own copy of the same text.
        self.namespace = namespace = sys.intern(namespace)
        self.name = name
        self.key = key or (f"{namespace}/{name}" if namespace else name)
        self.version = version
        self.kept = kept
        self.born = born
        """The version that created it: its row in the journal."""
        self.uid = uid
        self.labels = labels
        self.owners = owners
        self.deleting = deleting
        self.rules = rules
        """The strategy it was written under; reads under another one apply defaults again."""
        self.views: dict[object, bytes] | None = None
        """The object as other versions show it, by served resource."""

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        kept = self.kept
        return kept if isinstance(kept, bytes) else b"".join(kept)

    def decode(self) -> Object:
        """A fresh object, the caller's own."""
        return decode(self.raw)

    def __repr__(self) -> str:
        return f"<{self.storage} {self.key} at {self.version}>"


WELL_KNOWN = object()
"""The rules of an object that this very program version wrote: those of built-in kinds have not changed since."""


def restored(storage: str, key: str, version: int, raw: bytes, born: int, rules: object = None) -> Stored:
    """An entry from what a journal kept."""
    namespace, _, name = key.rpartition("/")
    meta = _envelopes.decode(raw).metadata
    owners = tuple(owner.uid for owner in meta.owner_references or ())
    return Stored(
        storage, namespace, name, version, raw,
        born=born, uid=meta.uid, labels=meta.labels or None, owners=owners, deleting=meta.deletion_timestamp is not None,
        rules=rules,
    )  # fmt: skip


class Change:
    """One step of the history: `old` is None for a create, `new` for a delete."""

    __slots__ = ("frames", "new", "old", "version")

    def __init__(self, version: int, old: Stored | None, new: Stored | None) -> None:
        self.version = version
        self.old = old
        self.new = new
        self.frames: dict[tuple[object, ...], bytes] | None = None
        """The change as watch frames, encoded once for all watchers."""

    @property
    def subject(self) -> Stored:
        subject = self.new or self.old
        assert subject is not None
        return subject


class Stale(Exception):
    """The object is not (or no longer) what the writer based its write on; `latest` is what it is now."""

    def __init__(self, latest: Stored | None) -> None:
        super().__init__("the object changed meanwhile")
        self.latest = latest


class TooLarge(Exception):
    """The object is larger than an object may be."""


class WriteFailed(Exception):
    """The journal could not keep a write; the message says why."""


class Journal(Protocol):
    """Where changes are kept."""

    def load(self) -> tuple[int, list[Stored]]:
        """The last version given out, and all objects."""

    def append(self, changes: Sequence[Change], version: int) -> None:
        """Keeps the changes, all or none; returns when they are safe. Runs in a thread of its own."""

    def close(self) -> None: ...


class _Collection:
    """The objects of one storage: visible ones by key, in key order when asked, and their history."""

    __slots__ = ("history", "items", "keys", "unsorted")

    def __init__(self, floor: int) -> None:
        self.items: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.unsorted = False
        self.history: History[Change] = History(floor)

    def sorted_keys(self) -> list[str]:
        if self.unsorted:
            self.keys = sorted(self.items)
            self.unsorted = False
        return self.keys

    def apply(self, change: Change) -> None:
        new = change.new
        if new is not None:
            self.items[new.key] = new
            if change.old is None and not self.unsorted:
                if not self.keys or new.key > self.keys[-1]:
                    self.keys.append(new.key)
                else:
                    insort(self.keys, new.key)
        elif change.old is not None:
            del self.items[change.old.key]
            self.unsorted = True
        # The newest version is kept anyway; the one before is kept for the history alone.
        cost = _CHANGE_BYTES if change.old is None else _CHANGE_BYTES + _STORED_BYTES + own_size(change.old.kept)
        self.history.append(change, cost)


Listener = Callable[[Change], None]


class Store:
    """All collections. One event loop uses it; only the journal's `append` runs elsewhere."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self.failure = ""
        """Why the last write could not be kept; empty where it could."""
        self._collections: dict[str, _Collection] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._everywhere: list[Listener] = []
        self._pending: dict[tuple[str, str], Stored | None] = {}
        """The newest state of objects whose last write is not kept yet."""
        self._queue: list[tuple[Change, asyncio.Future[None]]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._buffer = bytearray()
        self._texts = FieldTexts()
        self._issued = FIRST_VERSION
        self.version = FIRST_VERSION
        """The last visible version."""
        self._floor = FIRST_VERSION
        if journal is not None:
            version, objects = journal.load()
            self._issued = self.version = self._floor = max(version, FIRST_VERSION)
            for stored in objects:
                stored.kept = self._texts.share(stored.raw)
                collection = self._collection(stored.storage)
                collection.items[stored.key] = stored
                collection.unsorted = True

    def _collection(self, storage: str) -> _Collection:
        collection = self._collections.get(storage)
        if collection is None:
            collection = self._collections[storage] = _Collection(self._floor)
        return collection

    # Reads: what is visible.

    def get(self, storage: str, namespace: str, name: str) -> Stored | None:
        return self._collection(storage).items.get(f"{namespace}/{name}" if namespace else name)

    def items(self, storage: str, namespace: str = "") -> list[Stored]:
        """All objects, or a namespace's, in key order."""
        collection = self._collection(storage)
        keys = collection.sorted_keys()
        if namespace:
            # "0" is what follows "/" in the alphabet.
            keys = keys[bisect_left(keys, namespace + "/") : bisect_left(keys, namespace + "0")]
        items = collection.items
        return [items[key] for key in keys]

    def count(self, storage: str) -> int:
        return len(self._collection(storage).items)

    def storages(self) -> list[str]:
        """The collections that hold something."""
        return [name for name, collection in self._collections.items() if collection.items]

    def items_at(self, storage: str, namespace: str, version: int) -> list[Stored] | None:
        """As `items`, but as it was at a version; None when the history does not reach that far back."""
        collection = self._collection(storage)
        if version >= self.version:
            return self.items(storage, namespace)
        if version < collection.history.floor:
            return None
        undone: dict[str, Stored | None] = {}
        for change in reversed(collection.history.since(version)):
            undone[change.subject.key] = change.old
        items = {key: stored for key, stored in collection.items.items() if key not in undone}
        items.update((key, stored) for key, stored in undone.items() if stored is not None)
        prefix = namespace + "/" if namespace else ""
        return [items[key] for key in sorted(items) if key.startswith(prefix)]

    def get_at(self, storage: str, namespace: str, name: str, version: int) -> Stored | None:
        """As `get`, but as it was at a version (as far back as the history reaches)."""
        found = self.get(storage, namespace, name)
        key = f"{namespace}/{name}" if namespace else name
        for change in reversed(self._collection(storage).history.since(version)):
            if change.subject.key == key:
                found = change.old
        return found

    def history(self, storage: str) -> History[Change]:
        return self._collection(storage).history

    def listen(self, listener: Listener, storage: str = "") -> Callable[[], None]:
        """Calls back on every visible change, in order (of one storage, or of all). Returns what ends it."""
        listeners = self._listeners.setdefault(storage, []) if storage else self._everywhere
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def compact(self) -> None:
        """Forgets all history, as if it had grown too old."""
        self._floor = self.version
        for collection in self._collections.values():
            collection.history.clear(self.version)

    # Writes: checked against the newest state, visible or not.

    def latest(self, storage: str, namespace: str, name: str) -> Stored | None:
        """What the next write of the object must be based on."""
        key = f"{namespace}/{name}" if namespace else name
        if self._pending and (storage, key) in self._pending:
            return self._pending[storage, key]
        return self._collection(storage).items.get(key)

    async def put(self, storage: str, obj: Object, expected: Stored | None, rules: object = None) -> Stored:
        """Writes an object (a create where nothing is expected); its resourceVersion is set. Raises Stale, TooLarge or WriteFailed."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        current = self.latest(storage, namespace, name)
        if current is not expected:
            raise Stale(current)
        self._issued = version = self._issued + 1
        metadata["resourceVersion"] = str(version)
        references = metadata.get("ownerReferences")
        # Through a buffer: the encoder's own result is cut off a larger block, and what is left between such is lost.
        _encoder.encode_into(obj, self._buffer)
        raw = bytes(self._buffer)
        if len(raw) > MOST_BYTES:
            raise TooLarge
        uid, labels = metadata.get("uid", ""), metadata.get("labels")
        if expected is not None:
            # The history keeps both: what is the same is kept once.
            name, uid = expected.name, expected.uid if uid == expected.uid else uid
            labels = expected.labels if labels == expected.labels else labels
        new = Stored(
            storage, namespace, name, version, self._texts.share(raw),
            born=version if expected is None else expected.born,
            uid=uid,
            labels=labels,
            owners=tuple(reference.get("uid", "") for reference in references) if references else (),
            deleting="deletionTimestamp" in metadata,
            rules=rules,
            key=expected.key if expected is not None else "",
        )  # fmt: skip
        await self._commit(Change(version, expected, new))
        return new

    async def remove(self, expected: Stored) -> int:
        """Deletes an object; returns the version of the deletion. Raises Stale or WriteFailed."""
        current = self.latest(expected.storage, expected.namespace, expected.name)
        if current is not expected:
            raise Stale(current)
        self._issued = version = self._issued + 1
        await self._commit(Change(version, expected, None))
        return version

    async def _commit(self, change: Change) -> None:
        if self._journal is None:
            self._publish(change)
            return
        subject = change.subject
        self._pending[subject.storage, subject.key] = change.new
        done = asyncio.get_running_loop().create_future()
        self._queue.append((change, done))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush(), name="store: group commit")
        await done

    async def _flush(self) -> None:
        """Writes what has queued up in one transaction after the other, until nothing is left."""
        assert self._journal is not None
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                changes = [change for change, _ in batch]
                try:
                    await loop.run_in_executor(None, self._journal.append, changes, changes[-1].version)
                except Exception as error:
                    self.failure = str(error)
                    # Later writes in the queue may build on the ones that failed.
                    failed, self._queue = batch + self._queue, []
                    self._pending.clear()
                    for _, done in failed:
                        if not done.done():
                            done.set_exception(WriteFailed(str(error)))
                    continue
                self.failure = ""
                for change, done in batch:
                    subject = change.subject
                    key = (subject.storage, subject.key)
                    if self._pending.get(key) is change.new:
                        del self._pending[key]
                    self._publish(change)
                    if not done.done():
                        done.set_result(None)
        finally:
            self._flushing = None

    def _publish(self, change: Change) -> None:
        subject = change.subject
        self.version = change.version
        self._collection(subject.storage).apply(change)
        listeners = self._listeners.get(subject.storage)
        if listeners:
            for listener in listeners:
                listener(change)
        for listener in self._everywhere:
            listener(change)

    @property
    def busy(self) -> bool:
        """Whether writes wait for the journal."""
        return self._flushing is not None

    async def close(self) -> None:
        """Lets queued writes finish, then closes the journal."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])
        if self._journal is not None:
            self._journal.close()

    def __iter__(self) -> Iterator[Stored]:
        for collection in self._collections.values():
            yield from collection.items.values()
