"""The server as a bench for tests: settle, faults, journal, lost watches, forgotten history, virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from modelyard.kube.builtin import ConfigMap, Deployment, Event, Namespace, Pod
from modelyard.kube.errors import ApiError, Conflict, Gone, NotFound, ServerError
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.storage.history import History
from modelyard.local.apiserver.testing.bench import api_server

__all__ = ["api_server"]


def config_map(name: str, **labels: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}}


async def test_server_starts_and_stops_in_milliseconds() -> None:
    async with ApiServer():
        pass
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with ApiServer():
        assert loop.time() - start < 0.5


async def test_settle_waits_for_the_servers_own_controllers(api_server: ApiServer) -> None:
    client = api_server.client()
    await client.create(Namespace, {"metadata": {"name": "gone"}})
    await client.create(ConfigMap, {"metadata": {"name": "a", "namespace": "gone"}})
    await client.delete(Namespace, "", "gone")
    await api_server.settle()
    assert await client.find(Namespace, "", "gone") is None
    assert await client.find(ConfigMap, "gone", "a") is None


async def test_settle_waits_for_those_who_watch(api_server: ApiServer) -> None:
    client = api_server.client()

    async def copy() -> None:
        async for event in client.watch(ConfigMap, "default", resource_version="0"):
            name = event.object.get("metadata", {}).get("name", "")
            if event.type == "ADDED" and name.startswith("a"):
                await client.create(ConfigMap, config_map("copy-of-" + name))

    task = asyncio.create_task(copy())
    for index in range(10):
        await client.create(ConfigMap, config_map(f"a{index}"))
    await api_server.settle()
    copies = [
        obj for obj in (await client.list(ConfigMap, "default")).items if obj["metadata"]["name"].startswith("copy")
    ]
    assert len(copies) == 10
    task.cancel()


async def test_refusals_are_per_verb_and_resource_and_end(api_server: ApiServer) -> None:
    client = api_server.client()
    api_server.faults.add("create", resource="configmaps", status=500, times=1)
    with pytest.raises(ServerError, match="a fault of the test bench"):
        await client.create(ConfigMap, config_map("a"))
    await client.create(ConfigMap, config_map("a"))
    fault = api_server.faults.add("patch", status=409)
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.patch(ConfigMap, "default", "a", {"data": {"x": "y"}})
    api_server.faults.remove(fault)
    await client.patch(ConfigMap, "default", "a", {"data": {"x": "y"}})
    api_server.faults.add("get", resource="deployments.apps", status=418, skip=1)
    with pytest.raises(NotFound):
        await client.get(Deployment, "default", "a")
    with pytest.raises(ApiError):
        await client.get(Deployment, "default", "a")
    assert (await client.get(ConfigMap, "default", "a"))["data"] == {"x": "y"}


async def test_lost_watch_ends_and_can_be_resumed(api_server: ApiServer) -> None:
    client = api_server.client()
    version = (await client.list(ConfigMap, "default")).resource_version
    seen: list[str] = []

    async def watch() -> None:
        async for event in client.watch(ConfigMap, "default", resource_version=version):
            seen.append(event.object["metadata"]["name"])

    task = asyncio.create_task(watch())
    await client.create(ConfigMap, config_map("a"))
    await api_server.settle()
    assert api_server.drop_watches("configmaps") == 1
    await task
    await client.create(ConfigMap, config_map("b"))
    assert "a" in seen
    task = asyncio.create_task(watch())
    await api_server.settle()
    assert seen[-1] == "b"
    task.cancel()


async def test_forgotten_history_answers_gone(api_server: ApiServer) -> None:
    client = api_server.client()
    for index in range(3):
        await client.create(ConfigMap, config_map(f"a{index}"))
    page = await client.list_page(ConfigMap, "default", limit=1)
    version = (await client.list(ConfigMap, "default")).resource_version
    await client.create(ConfigMap, config_map("b"))
    api_server.compact()
    with pytest.raises(Gone, match="too old resource version"):
        async for _ in client.watch(ConfigMap, "default", resource_version=version):
            pass
    with pytest.raises(Gone, match="The provided continue parameter is too old") as caught:
        await client.list_page(ConfigMap, "default", limit=1, continue_=page.continue_)
    token = caught.value.status["metadata"]["continue"]
    rest = await client.list_page(ConfigMap, "default", continue_=token)
    assert {msgspec.json.decode(raw)["metadata"]["name"] for raw in rest.items} >= {"a1", "a2", "b"}


async def test_slow_watcher_is_told_when_it_fell_too_far_behind(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(History, "MOST", 100)
    client = api_server.client()
    version = (await client.list(ConfigMap, "default")).resource_version
    stream = client.watch(ConfigMap, "default", resource_version=version)
    await client.create(ConfigMap, config_map("a"))
    assert (await anext(stream)).type == "ADDED"
    for index in range(150):
        await client.patch(ConfigMap, "default", "a", {"data": {"x": str(index)}})
    with pytest.raises(Gone, match="too old resource version"):
        async for _ in stream:
            pass


async def test_stale_reads_show_an_earlier_state(api_server: ApiServer) -> None:
    client = api_server.client()
    await client.create(ConfigMap, config_map("a"))
    api_server.faults.serve_stale("configmaps", api_server.store.version)
    await client.create(ConfigMap, config_map("b"))
    await client.delete(ConfigMap, "default", "a")
    assert await client.find(ConfigMap, "default", "b") is None
    assert await client.find(ConfigMap, "default", "a") is not None
    api_server.faults.clear()
    assert await client.find(ConfigMap, "default", "b") is not None


async def test_journal_tells_who_did_what(api_server: ApiServer) -> None:
    await api_server.settle()
    api_server.journal.clear()
    client = api_server.client("bob", groups=("system:masters",))
    await client.create(ConfigMap, config_map("a"))
    with pytest.raises(NotFound):
        await client.get(Pod, "default", "none")
    entry = api_server.journal.entries(verb="create")[0]
    assert (entry["user"], entry["resource"], entry["namespace"], entry["status"]) == (
        "bob",
        "configmaps",
        "default",
        201,
    )
    assert api_server.journal.entries(resource="pods", status=404)[0]["name"] == "none"
    assert len(api_server.journal.writes()) == 1


@pytest.mark.looptime(start=0)
async def test_virtual_time_drives_bookmarks_and_timeouts() -> None:
    async with ApiServer(clock=lambda: datetime(2030, 1, 1, tzinfo=UTC)) as server:
        client = server.client()
        loop = asyncio.get_running_loop()
        begin = loop.time()
        types = [event.type async for event in client.watch(ConfigMap, "default", resource_version="0", timeout=600)]
        assert 599 < loop.time() - begin < 602
        assert types.count("BOOKMARK") >= 9
        made = await client.create(ConfigMap, config_map("a"))
        assert made["metadata"]["creationTimestamp"] == "2030-01-01T00:00:00Z"


async def test_client_that_gives_up_leaves_nothing_under_way(api_server: ApiServer) -> None:
    api_server.faults.add("list", delay=1000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await api_server.client().list(ConfigMap)
    await api_server.settle()
    assert api_server.journal.entries(verb="list")[-1]["status"] == 499


async def test_unexpected_failure_is_a_500_without_details(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(api_server.store, "get", broken)
    with pytest.raises(ServerError) as caught:
        await api_server.client().get(ConfigMap, "default", "a")
    assert "secret detail" not in str(caught.value)


def event(name: str) -> dict[str, object]:
    involved = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name, "namespace": "default"}, "involvedObject": involved, "reason": "r"}


@pytest.mark.looptime(start=0)
async def test_events_are_dropped_an_hour_after_their_last_write() -> None:
    async with ApiServer() as server:
        client = server.client()
        await client.create(Event, event("old"))
        await client.create(Event, event("renewed"))
        await asyncio.sleep(1800)
        await client.patch(Event, "default", "renewed", {"count": 2})
        await asyncio.sleep(1900)
        assert [obj["metadata"]["name"] for obj in (await client.list(Event)).items] == ["renewed"]
        await asyncio.sleep(1900)
        assert (await client.list(Event)).items == []


@pytest.mark.looptime(start=0)
async def test_events_are_dropped_by_a_timer_that_comes_a_little_early() -> None:
    async with ApiServer() as server:
        client = server.client()
        for number in range(100):
            # Moments whose sum with an hour is rounded up, and the loop's clock down.
            await client.create(Event, event(f"e-{number}"))
            await asyncio.sleep(0.100_003)
        await asyncio.sleep(3700)
        assert (await client.list(Event)).items == []
