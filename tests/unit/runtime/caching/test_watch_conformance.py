"""What a watch must survive: each way in which an API server, a proxy or the network can break one, and be right after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from modelyard.kube.builtin import Pod
from modelyard.kube.kinds import Key
from modelyard.runtime.caching.cache import Cache
from modelyard.runtime.caching.entry import Entry
from modelyard.runtime.caching.watching import Selection, Timing
from tests.unit.runtime.scripted_api import ScriptedApi, Stream, bookmark, pod, serving, status

FAST = Timing(silence=30.0, first_retry=0.01, longest_retry=0.05, stale=0.02, page=2)


class Seen:
    """Writes down what handlers are told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(self, old: Entry | None, new: Entry | None) -> None:
        entry = new or old
        assert entry is not None
        word = "add" if old is None else "delete" if new is None else "change"
        self.events.append(f"{word} {entry.key.name}")


@asynccontextmanager
async def following(
    api: ScriptedApi, *, timing: Timing = FAST, selection: Selection = Selection(Pod)
) -> AsyncIterator[tuple[Cache, Seen]]:
    async with serving(api) as client:
        cache, seen = Cache(client, selection, timing=timing, keep_managers="modelyard-"), Seen()
        cache.subscribe(seen)
        cache.start()
        try:
            yield cache, seen
        finally:
            await cache.stop()


async def until(cache: Cache, condition: Callable[[], bool]) -> None:
    assert await cache.wait_until(condition, 10), f"not reached; {cache.info()}, holds {[str(e.key) for e in cache]}"


def names(cache: Cache) -> set[str]:
    return {entry.key.name for entry in cache}


async def test_list_then_watch_starts_after_the_version_of_the_list() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3), pod("b", 4), pod("c", 5)], 7)]

    async def script(stream: Stream) -> None:
        await stream.send("ADDED", pod("d", 8))
        await stream.send("MODIFIED", pod("a", 9))
        await stream.send("DELETED", pod("b", 10))
        await stream.hang()

    api.watches = [script]
    async with following(api) as (cache, seen):
        await until(cache, lambda: cache.has_passed("10"))
    assert [query.get("continue") for query in api.list_requests] == [None, "2"]
    assert api.watch_requests[0]["resourceVersion"] == "7"
    assert api.watch_requests[0]["allowWatchBookmarks"] == "true"
    assert seen.events[:6] == ["add a", "add b", "add c", "add d", "change a", "delete b"]


async def test_streaming_list_is_used_where_the_server_has_it() -> None:
    api = ScriptedApi()
    api.streams_lists = True

    async def script(stream: Stream) -> None:
        assert stream.query["resourceVersionMatch"] == "NotOlderThan"
        await stream.send("ADDED", pod("a", 3))
        await stream.send("ADDED", pod("b", 4))
        await stream.send("BOOKMARK", bookmark(7, initial_end=True))
        await stream.send("ADDED", pod("c", 8))
        await stream.hang()

    api.watches = [script]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("8"))
        assert names(cache) == {"a", "b", "c"}
        assert cache.synced
    assert api.list_requests == []
    assert len(api.requests) == 1


async def test_streaming_list_shows_nothing_before_it_is_complete() -> None:
    api = ScriptedApi()
    api.streams_lists = True
    go_on = asyncio.Event()
    sent = asyncio.Event()

    async def script(stream: Stream) -> None:
        await stream.send("ADDED", pod("a", 3))
        sent.set()
        await go_on.wait()
        await stream.send("BOOKMARK", bookmark(7, initial_end=True))
        await stream.hang()

    api.watches = [script]
    async with following(api) as (cache, _):
        await sent.wait()
        assert not cache.synced
        assert len(cache) == 0
        go_on.set()
        assert await cache.wait_synced(10)
        assert names(cache) == {"a"}


async def test_410_as_an_event_relists_and_emits_deletes_for_what_is_gone() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3), pod("b", 4)], 7), ([pod("b", 4), pod("c", 20)], 21)]

    async def script(stream: Stream) -> None:
        await stream.send("ERROR", status(410, "Expired", "too old resource version: 7 (15)"))

    async def quiet(stream: Stream) -> None:
        await stream.hang()

    api.watches = [script, quiet]
    async with following(api) as (cache, seen):
        await until(cache, lambda: cache.has_passed("21"))
        assert names(cache) == {"b", "c"}
    assert seen.events[:4] == ["add a", "add b", "delete a", "add c"]


async def test_410_as_a_status_relists() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7), ([pod("b", 20)], 21)]

    async def quiet(stream: Stream) -> None:
        await stream.hang()

    api.watches = [status(410, "Gone"), quiet]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("21"))
        assert names(cache) == {"b"}


async def test_410_on_a_page_reads_the_list_again_in_one_piece() -> None:
    api = ScriptedApi()
    first_page = {"kind": "PodList", "metadata": {"resourceVersion": "6", "continue": "2"}, "items": [pod("gone", 2)]}
    api.lists = [first_page, status(410, "Expired"), ([pod("a", 3), pod("b", 4), pod("c", 5)], 7)]
    async with following(api) as (cache, _):
        assert await cache.wait_synced(10)
        assert names(cache) == {"a", "b", "c"}
    assert [query.get("limit") for query in api.list_requests] == ["2", "2", None]


async def test_tcp_reset_mid_line_resumes_from_the_last_whole_event() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]

    async def broken(stream: Stream) -> None:
        await stream.send("ADDED", pod("b", 8))
        await stream.write(b'{"type":"ADDED","object":{"metadata":{"name":"c","na')
        stream.reset()

    async def resumed(stream: Stream) -> None:
        await stream.send("ADDED", pod("c", 9))
        await stream.hang()

    api.watches = [broken, resumed]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("9"))
        assert names(cache) == {"a", "b", "c"}
    assert [query["resourceVersion"] for query in api.watch_requests] == ["7", "8"]
    assert len(api.list_requests) == 1


async def test_a_clean_end_in_the_middle_of_a_line_is_not_taken_for_an_event() -> None:
    api = ScriptedApi()
    api.lists = [([], 7)]

    async def cut(stream: Stream) -> None:
        await stream.send("ADDED", pod("b", 8))
        await stream.write(b'{"type":"DELETED","object":{"metadata":{"name":"b"')

    async def resumed(stream: Stream) -> None:
        await stream.send("ADDED", pod("c", 9))
        await stream.hang()

    api.watches = [cut, resumed]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("9"))
        assert names(cache) == {"b", "c"}


@pytest.mark.parametrize("code", [500, 502, 503, 504, 429])
async def test_5xx_resumes_the_watch_without_a_new_list(code: int) -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]

    async def resumed(stream: Stream) -> None:
        await stream.send("ADDED", pod("b", 8))
        await stream.hang()

    refusal = status(code, "InternalError")
    api.watches = [refusal, refusal, refusal, resumed]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("8"))
        assert cache.error == ""
    assert [query["resourceVersion"] for query in api.watch_requests] == ["7"] * 4
    assert len(api.list_requests) == 1


async def test_server_closing_the_watch_resumes_from_the_last_bookmark() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]

    async def closes(stream: Stream) -> None:
        await stream.send("BOOKMARK", bookmark(50))

    async def resumed(stream: Stream) -> None:
        await stream.send("ADDED", pod("b", 51))
        await stream.hang()

    api.watches = [closes, resumed]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("51"))
    assert [query["resourceVersion"] for query in api.watch_requests] == ["7", "50"]
    assert len(api.list_requests) == 1


async def test_silence_relists_and_is_noticed() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7), ([pod("a", 3), pod("b", 9)], 12)]
    timing = Timing(silence=0.1, first_retry=0.01, longest_retry=0.05, page=2)
    async with following(api, timing=timing) as (cache, _):
        await until(cache, lambda: cache.has_passed("12"))
        assert names(cache) == {"a", "b"}
        assert cache.info()["relists"] >= 1


async def test_bookmarks_keep_a_quiet_watch_alive() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]
    timing = Timing(silence=0.4, first_retry=0.01, longest_retry=0.05, page=2)

    async def quiet(stream: Stream) -> None:
        for version in range(8, 18):
            await stream.send("BOOKMARK", bookmark(version))
            await asyncio.sleep(0.1)
        await stream.hang()

    api.watches = [quiet]
    async with following(api, timing=timing) as (cache, _):
        await until(cache, lambda: cache.has_passed("17"))
        assert cache.info()["relists"] == 0
    assert len(api.list_requests) == 1


async def test_a_line_of_1_mb_is_one_event() -> None:
    api = ScriptedApi()
    big = pod("big", 8)
    big["metadata"]["annotations"] = {"data": "x" * 1_000_000}

    async def script(stream: Stream) -> None:
        await stream.send("ADDED", big)
        await stream.send("ADDED", pod("small", 9))
        await stream.hang()

    api.watches = [script]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("9"))
        entry = cache.get(Key("shop", "big"))
        assert entry is not None
        assert len(entry.object["metadata"]["annotations"]["data"]) == 1_000_000


async def test_line_separators_inside_strings_do_not_cut_the_line() -> None:
    api = ScriptedApi()
    text = "one\u0085two\u2028three\u2029four\u000bfive\u001csix\r\nseven"
    obj = pod("a", 8)
    obj["metadata"]["annotations"] = {"text": text}

    async def script(stream: Stream) -> None:
        await stream.send("ADDED", obj)
        await stream.hang()

    api.watches = [script]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("8"))
        entry = cache.get(Key("shop", "a"))
        assert entry is not None
        assert entry.object["metadata"]["annotations"]["text"] == text


async def test_events_in_arbitrary_chunks_are_put_together() -> None:
    api = ScriptedApi()

    async def script(stream: Stream) -> None:
        whole = b""
        for version in range(2, 12):
            text = "é\u0085" * version
            whole += b'{"type":"ADDED","object":{"metadata":{"name":"p%d","resourceVersion":"%d"},"x":"%s"}}\n' % (
                version,
                version,
                text.encode(),
            )
        for start in range(0, len(whole), 7):
            await stream.write(whole[start : start + 7])
        await stream.hang()

    api.watches = [script]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("11"))
        assert len(cache) == 10


async def test_selector_transitions_come_and_go() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3, app="web")], 7)]

    async def script(stream: Stream) -> None:
        assert stream.query["labelSelector"] == "app=web"
        await stream.send("DELETED", pod("a", 8, app="web"))
        await stream.send("ADDED", pod("a", 9, app="web"))
        await stream.hang()

    api.watches = [script]
    async with following(api, selection=Selection(Pod, namespace="shop", labels="app=web")) as (cache, seen):
        await until(cache, lambda: cache.has_passed("9"))
    assert api.list_requests[0]["labelSelector"] == "app=web"
    assert seen.events[:3] == ["add a", "delete a", "add a"]


async def test_object_replaced_by_a_namesake_during_an_outage_is_a_change_of_uid() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3, uid="first")], 7), ([pod("a", 9, uid="second")], 12)]

    async def quiet(stream: Stream) -> None:
        await stream.hang()

    api.watches = [status(410, "Expired"), quiet]
    async with following(api) as (cache, seen):
        await until(cache, lambda: cache.has_passed("12"))
        assert cache.has_lost(Key("shop", "a"), "first")
    assert seen.events[:2] == ["add a", "change a"]


async def test_version_from_the_future_relists() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 300)], 700), ([pod("b", 3)], 7)]

    async def quiet(stream: Stream) -> None:
        await stream.hang()

    api.watches = [status(504, "Timeout", "Too large resource version: 700, current: 7"), quiet]
    async with following(api) as (cache, _):
        await until(cache, lambda: names(cache) == {"b"})
        assert cache.resource_version == "7"


async def test_readiness_sees_a_watch_that_keeps_failing() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]
    refused = asyncio.Event()

    async def closes(stream: Stream) -> None:
        if len(api.watch_requests) > 5:
            refused.set()
        stream.reset()

    api.watches = [closes]
    async with following(api) as (cache, _):
        await refused.wait()
        assert cache.stale
        assert "cut off" in cache.error or "closed" in cache.error
        assert names(cache) == {"a"}

        async def well(stream: Stream) -> None:
            await stream.send("BOOKMARK", bookmark(8))
            await stream.hang()

        api.watches = [well]
        await until(cache, lambda: cache.has_passed("8"))
        assert not cache.stale


async def test_one_broken_object_does_not_stop_the_others() -> None:
    api = ScriptedApi()

    async def script(stream: Stream) -> None:
        await stream.write(b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n')
        await stream.send("ADDED", pod("a", 8))
        await stream.hang()

    api.watches = [script]
    async with following(api) as (cache, _):
        await until(cache, lambda: cache.has_passed("8"))
        assert names(cache) == {"a"}


async def test_a_failing_handler_does_not_stop_the_watch() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]

    async def script(stream: Stream) -> None:
        await stream.send("ADDED", pod("b", 8))
        await stream.hang()

    def broken(old: Entry | None, new: Entry | None) -> None:
        raise RuntimeError("a bug")

    api.watches = [script]
    async with serving(api) as client:
        cache, seen = Cache(client, Selection(Pod), timing=FAST), Seen()
        cache.subscribe(broken)
        cache.subscribe(seen)
        cache.start()
        await until(cache, lambda: cache.has_passed("8"))
        assert seen.events == ["add a", "add b"]
        await cache.stop()


async def test_no_watcher_dies_unseen() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7)]
    async with following(api) as (cache, _):
        assert await cache.wait_synced(10)
        assert cache._task is not None
        cache._task.cancel()
        await asyncio.wait([cache._task])
        assert cache.stale
        assert cache.error == "the watch was cancelled"


async def test_list_refused_is_tried_again_until_allowed() -> None:
    api = ScriptedApi()
    api.lists = [status(403, "Forbidden", "pods is forbidden"), status(404, "NotFound"), ([pod("a", 3)], 7)]
    async with following(api) as (cache, _):
        assert await cache.wait_synced(10)
        assert names(cache) == {"a"}


async def test_catching_up_reads_anew_when_a_quiet_watch_proves_nothing() -> None:
    api = ScriptedApi()
    api.lists = [([pod("a", 3)], 7), ([], 30), ([pod("b", 20)], 30)]
    async with following(api) as (cache, _):
        assert await cache.wait_synced(10)
        assert await cache.catch_up(10)
        assert names(cache) == {"b"}
