"""Random faults on every request of a reflector, on virtual time: when they stop, the cache is what the cluster is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from modelyard.kube.builtin import Pod
from modelyard.kube.client import Client
from modelyard.kube.errors import Unreachable
from modelyard.kube.kinds import Key
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.watching import Selection, Timing
from tests.unit.runtime.scripted_api import bookmark, pod, status

pytestmark = pytest.mark.looptime


@dataclass
class Answer:
    status: int
    content: Any = None
    stream: AsyncIterator[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return msgspec.json.encode(self.content)

    async def chunks(self) -> AsyncIterator[bytes]:
        assert self.stream is not None
        async for chunk in self.stream:
            yield chunk

    async def close(self) -> None: ...


class FaultyApi:
    """Pods with a history that is compacted, behind a network that does its worst while `faulty`."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.faulty = True
        self.pods: dict[str, dict[str, Any]] = {}
        self.version = 1
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.compacted = 0
        self.changed = asyncio.Event()

    def change(self) -> None:
        """One write by someone."""
        self.version += 1
        name = f"p{self.chance.randrange(6)}"
        if name in self.pods and self.chance.random() < 0.4:
            gone = self.pods.pop(name)
            self._record("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})
            return
        word = "MODIFIED" if name in self.pods else "ADDED"
        uid = self.pods[name]["metadata"]["uid"] if name in self.pods else f"uid-{self.version}"
        self.pods[name] = pod(name, self.version, uid=uid)
        self._record(word, self.pods[name])

    def compact(self) -> None:
        self.compacted = self.version
        self.history.clear()

    async def close(self) -> None: ...

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Answer:
        query = query or {}
        if self.faulty:
            match self.chance.randrange(8):
                case 0:
                    raise Unreachable("connection refused")
                case 1:
                    return Answer(self.chance.choice((500, 502, 504)), status(500, "InternalError"))
                case 2:
                    return Answer(410, status(410, "Expired"))
                case 3 if timeout is None:
                    await asyncio.Event().wait()
        if "watch" not in query:
            return self._list(query)
        initial = "sendInitialEvents" in query
        after = self.version if initial else int(query["resourceVersion"])
        if after < self.compacted:
            return Answer(410, status(410, "Expired"))
        return Answer(200, stream=self._watch(after, initial))

    def _list(self, query: Mapping[str, str]) -> Answer:
        at, _, start = query.get("continue", f"{self.version}/0").partition("/")
        if int(at) != self.version:
            return Answer(410, status(410, "Expired", "the pages are of another time"))
        items, first, limit = list(self.pods.values()), int(start), int(query.get("limit", "0")) or 100
        metadata = {"resourceVersion": at}
        if first + limit < len(items):
            metadata["continue"] = f"{at}/{first + limit}"
        return Answer(200, {"metadata": metadata, "items": items[first : first + limit]})

    async def _watch(self, after: int, initial: bool) -> AsyncIterator[bytes]:
        if initial:
            for obj in list(self.pods.values()):
                yield _line("ADDED", obj)
            yield _line("BOOKMARK", bookmark(after, initial_end=True))
        while True:
            self.changed.clear()
            if after < self.compacted:
                yield _line("ERROR", status(410, "Expired"))
                return
            for version, word, obj in [event for event in self.history if event[0] > after]:
                line = _line(word, obj)
                if self.faulty:
                    match self.chance.randrange(10):
                        case 0:
                            return
                        case 1:
                            yield line[: len(line) // 2]
                            raise Unreachable("reset by peer")
                        case 2:
                            yield line[: len(line) // 2]
                            return
                        case 3:
                            await asyncio.Event().wait()
                yield line
                after = version
            try:
                async with asyncio.timeout(60):
                    await self.changed.wait()
            except TimeoutError:
                yield _line("BOOKMARK", bookmark(after))

    def _record(self, word: str, obj: dict[str, Any]) -> None:
        self.history.append((self.version, word, obj))
        self.changed.set()


def _line(word: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": word, "object": obj}) + b"\n"


class Mirror:
    """Follows the events alone, and insists that they fit together."""

    def __init__(self) -> None:
        self.versions: dict[Key, str] = {}

    def __call__(self, old: Entry | None, new: Entry | None) -> None:
        entry = new or old
        assert entry is not None
        assert self.versions.get(entry.key) == (old.resource_version if old else None)
        if new is None:
            del self.versions[entry.key]
        else:
            assert old is None or old.uid != new.uid or old.version < new.version
            self.versions[new.key] = new.resource_version


@pytest.mark.parametrize("seed", range(40))
async def test_cache_and_its_events_end_at_the_truth(seed: int) -> None:
    api, mirror = FaultyApi(seed), Mirror()
    failures: list[BaseException] = []

    def checked(old: Entry | None, new: Entry | None) -> None:
        try:
            mirror(old, new)
        except AssertionError as error:
            failures.append(error)

    cache = Cache(Client(api), Selection(Pod), timing=Timing(page=2))
    cache.subscribe(checked)
    cache.start()
    for _ in range(60):
        api.change()
        await asyncio.sleep(api.chance.choice((0, 0.01, 1, 20)))
        if api.chance.random() < 0.1:
            api.compact()
    api.faulty = False
    api.change()
    assert await cache.wait_passed(str(api.version), 600)
    await asyncio.sleep(1)

    truth = {Key("shop", name): obj["metadata"]["resourceVersion"] for name, obj in api.pods.items()}
    assert {entry.key: entry.resource_version for entry in cache} == truth
    assert mirror.versions == truth
    assert failures == []
    assert not cache.stale
    await cache.stop(clear=False)


async def test_outage_of_hours_is_not_a_storm_of_requests() -> None:
    asked = 0

    class Down(FaultyApi):
        async def send(self, *_: object, **__: object) -> Answer:
            nonlocal asked
            asked += 1
            raise Unreachable("connection refused")

    cache = Cache(Client(Down(0)), Selection(Pod))
    cache.start()
    await asyncio.sleep(3600)
    assert cache.stale
    assert cache.error == "connection refused"
    assert asked < 3600 / 20
    await cache.stop()


async def test_watch_that_always_fails_after_a_good_list_is_not_a_storm_of_lists() -> None:
    asked = 0

    class Half(FaultyApi):
        async def send(self, method: str, path: str, **options: Any) -> Answer:
            nonlocal asked
            asked += 1
            if "watch" in options["query"]:
                return Answer(410, status(410, "Expired"))
            return self._list(options["query"])

    cache = Cache(Client(Half(0)), Selection(Pod))
    cache.start()
    await asyncio.sleep(3600)
    assert asked < 3600 / 5
    await cache.stop()


async def test_catching_up_does_not_disturb_a_slow_streaming_list() -> None:
    class Slow(FaultyApi):
        async def _watch(self, after: int, initial: bool) -> AsyncIterator[bytes]:
            await asyncio.sleep(20)
            async for chunk in super()._watch(after, initial):
                yield chunk

    api = Slow(0)
    api.faulty = False
    api.change()
    cache = Cache(Client(api), Selection(Pod))
    cache.start()
    assert await cache.catch_up(60)
    assert asyncio.get_running_loop().time() == pytest.approx(20, abs=2)
    await cache.stop()


async def test_catching_up_waits_for_an_api_that_is_down_but_not_for_ever() -> None:
    class Flaky(FaultyApi):
        down = True

        async def send(self, method: str, path: str, **options: Any) -> Answer:
            if self.down:
                raise Unreachable("connection refused")
            return await super().send(method, path, **options)

    api = Flaky(0)
    api.faulty = False
    cache = Cache(Client(api), Selection(Pod))
    cache.start()
    assert not await cache.catch_up(30)
    asyncio.get_running_loop().call_later(10, setattr, api, "down", False)
    assert await cache.catch_up(30)
    await cache.stop()


async def test_kind_that_was_not_served_for_a_while_is_listed_anew() -> None:
    class Unserved(FaultyApi):
        served = True

        async def send(self, method: str, path: str, **options: Any) -> Answer:
            if not self.served:
                return Answer(404, status(404, "NotFound"))
            return await super().send(method, path, **options)

        async def _watch(self, after: int, initial: bool) -> AsyncIterator[bytes]:
            async for chunk in super()._watch(after, initial):
                if not self.served:
                    return
                yield chunk

    api = Unserved(0)
    api.faulty = False
    api.change()
    cache = Cache(Client(api), Selection(Pod))
    cache.start()
    assert await cache.wait_synced(10)
    api.served = False
    api.change()
    await asyncio.sleep(100)
    assert cache.stale
    # What happened to the old objects was never told.
    api.pods.clear()
    api.history.clear()
    api.served = True
    assert await cache.wait_until(lambda: len(cache) == 0, 60)
    await cache.stop()


async def test_quiet_watch_that_stands_open_after_an_outage_is_not_stale() -> None:
    class Flaky(FaultyApi):
        down = False

        async def send(self, method: str, path: str, **options: Any) -> Answer:
            if self.down:
                raise Unreachable("connection refused")
            return await super().send(method, path, **options)

        async def _watch(self, after: int, initial: bool) -> AsyncIterator[bytes]:
            stream = super()._watch(after, initial)
            for _ in range(1 if initial else 0):
                yield await anext(stream)
            self.drop = asyncio.Event()
            await self.drop.wait()

    api = Flaky(0)
    api.faulty = False
    cache = Cache(Client(api), Selection(Pod), timing=Timing(silence=10_000))
    cache.start()
    assert await cache.wait_synced(10)
    api.down = True
    api.drop.set()
    await asyncio.sleep(60)
    assert cache.stale
    api.down = False
    await asyncio.sleep(40)
    assert not cache.stale
    assert cache.error == ""
    await cache.stop()


async def test_streaming_list_that_never_gets_through_is_given_up_for_a_plain_one() -> None:
    class Cutting(FaultyApi):
        async def _watch(self, after: int, initial: bool) -> AsyncIterator[bytes]:
            if initial:
                yield _line("ADDED", pod("a", 1))
                raise Unreachable("reset by peer")
            async for chunk in super()._watch(after, initial):
                yield chunk

    api = Cutting(0)
    api.faulty = False
    api.change()
    cache = Cache(Client(api), Selection(Pod))
    cache.start()
    assert await cache.wait_synced(30)
    assert len(cache) == 1
    await cache.stop()


async def test_relist_during_a_pause_is_not_forgotten() -> None:
    class Down(FaultyApi):
        down = False

        async def send(self, method: str, path: str, **options: Any) -> Answer:
            if self.down:
                raise Unreachable("connection refused")
            return await super().send(method, path, **options)

    api = Down(0)
    api.faulty = False
    cache = Cache(Client(api), Selection(Pod))
    cache.start()
    assert await cache.wait_synced(10)
    api.down = True
    asyncio.get_running_loop().call_later(20, setattr, api, "down", False)
    assert cache._reflector is not None
    cache._reflector.relist()
    await asyncio.sleep(60)
    assert cache.info()["relists"] >= 1
    assert cache.info()["state"] == "Watching"
    await cache.stop()
