"""Many watches of one collection: each gets all of its events, in order, whatever it shares with the others."""

from __future__ import annotations

import asyncio

import pytest

from modelyard.kube.builtin import ConfigMap
from modelyard.kube.client import Client
from modelyard.local.apiserver import ApiServer

EVENTS = 60


async def seen_by(
    client: Client, begin: str, labels: str, fields: str, count: int, *, metadata_only: bool
) -> list[str]:
    """What a watch is told: type and value of each event."""
    seen: list[str] = []
    async for event in client.watch(
        ConfigMap, "default", resource_version=begin, metadata_only=metadata_only, labels=labels, fields=fields
    ):
        if event.type != "BOOKMARK":
            kind = event.object["kind"]
            seen.append(f"{event.type} {event.object['metadata']['name']} {kind}")
        if len(seen) == count:
            break
    return seen


@pytest.mark.parametrize("each", [1, 5])
async def test_every_watch_gets_its_own_events_in_order(each: int) -> None:
    async with ApiServer() as server:
        client = server.client()
        begin = (await client.list(ConfigMap, "default")).resource_version
        names = [f"c{index}" for index in range(EVENTS)]
        even = [name for name in names if int(name[1:]) % 2 == 0]
        kinds: list[tuple[str, str, list[str], bool]] = [
            ("", "", names, False),
            ("", "", names, True),
            ("even=true", "", even, False),
            ("even!=true", "", [name for name in names if name not in even], False),
            ("", "metadata.name=c7", ["c7"], False),
            ("", "metadata.name!=c7", [name for name in names if name != "c7"], False),
        ]
        watches = [
            (wanted, bare, asyncio.create_task(seen_by(client, begin, labels, fields, len(wanted), metadata_only=bare)))
            for labels, fields, wanted, bare in kinds
            for _ in range(each)
        ]
        for name in names:
            own = {"even": "true"} if name in even else {}
            await client.create(ConfigMap, {"metadata": {"name": name, "namespace": "default", "labels": own}})
        async with asyncio.timeout(20):
            for wanted, bare, task in watches:
                kind = "PartialObjectMetadata" if bare else "ConfigMap"
                assert await task == [f"ADDED {name} {kind}" for name in wanted]


async def test_many_watches_learn_of_a_single_change_at_once() -> None:
    async with ApiServer() as server:
        client = server.client()
        begin = (await client.list(ConfigMap, "default")).resource_version
        tasks = [asyncio.create_task(seen_by(client, begin, "", "", 2, metadata_only=False)) for _ in range(20)]
        for name in ("a", "b"):
            await client.create(ConfigMap, {"metadata": {"name": name, "namespace": "default"}})
        await server.settle()
        assert all(task.done() for task in tasks)
