"""Which kinds are served: followed as definitions come and go, and steady through hiccups."""

from __future__ import annotations

import asyncio

import pytest

from modelyard.kube.builtin import ConfigMap, Route
from modelyard.kube.client import Client
from modelyard.kube.errors import Unreachable
from modelyard.kube.kinds import Kind
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.served import GRACE, Served

pytestmark = pytest.mark.looptime


class Answers(Client):
    """A client whose discovery says what it is told."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server.transport())
        self.kinds: set[Kind] | None = {ConfigMap, Route}

    async def discover(self) -> set[Kind]:
        if self.kinds is None:
            raise Unreachable("no answer")
        return set(self.kinds)


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
