"""Which kinds are served: followed as definitions come and go, and steady through hiccups."""

from __future__ import annotations

import asyncio

import pytest

from modelyard.kube.builtin import ConfigMap, Route
from modelyard.kube.client import Client
from modelyard.kube.discovery import Discovery
from modelyard.kube.errors import Unreachable
from modelyard.kube.kinds import Kind
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.caching.served import GRACE, Served

pytestmark = pytest.mark.looptime


class Answers(Client):
    """A client whose discovery says what it is told."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server.transport())
        self.kinds: set[Kind] | None = {ConfigMap, Route}
        self.silent: dict[str, str] = {}

    async def survey(self) -> Discovery:
        if self.kinds is None:
            raise Unreachable("no answer")
        return Discovery(set(self.kinds), self.silent)


async def test_a_kind_that_is_missed_once_stays_and_one_that_is_missed_for_long_goes() -> None:
    async with ApiServer() as server:
        client = Answers(server)
        served = Served(client)
        changes: list[tuple[set[Kind], set[Kind]]] = []
        served.subscribe(lambda came, went: changes.append((set(came), set(went))))
        await served.refresh()
        client.kinds = {ConfigMap}
        await served.refresh()
        assert served.serves(Route)
        await asyncio.sleep(GRACE + 0.1)
        await served.refresh()
        assert not served.serves(Route)
        assert changes == [({ConfigMap, Route}, set()), (set(), {Route})]


async def test_an_api_that_does_not_answer_changes_nothing() -> None:
    async with ApiServer() as server:
        client = Answers(server)
        served = Served(client)
        await served.refresh()
        client.kinds = None
        assert not await served.refresh()
        assert served.error == "no answer"
        assert served.kind_of({"apiVersion": "route.openshift.io/v1", "kind": "Route"}) == Route


async def test_a_group_whose_server_is_down_keeps_its_kinds() -> None:
    async with ApiServer() as server:
        client = Answers(server)
        served = Served(client)
        await served.refresh()
        client.kinds, client.silent = {ConfigMap}, {Route.group: "down"}
        await served.refresh()
        await asyncio.sleep(GRACE + 600)
        await served.refresh()
        assert served.serves(Route)
        assert served.doubt([ConfigMap, Route]) == ""


async def test_a_group_that_never_answered_is_a_doubt_until_it_does() -> None:
    async with ApiServer() as server:
        client = Answers(server)
        client.kinds, client.silent = {ConfigMap}, {Route.group: "down"}
        served = Served(client)
        await served.refresh()
        assert served.doubt([ConfigMap]) == ""
        assert served.doubt([ConfigMap, Route]) == "whether routes.route.openshift.io is served is not known: down"
        client.silent = {}
        await served.refresh()
        assert served.doubt([ConfigMap, Route]) == ""


async def test_a_kind_that_goes_while_another_change_settles_is_missed_within_seconds() -> None:
    async with ApiServer() as server:
        client = Answers(server)
        served = Served(client)
        following = asyncio.create_task(served.run())
        await served.wait_known()
        served.ring()
        await asyncio.sleep(6.0)
        client.kinds = {ConfigMap}
        served.ring()
        await asyncio.sleep(5.0 + 2 * GRACE)
        assert not served.serves(Route)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
