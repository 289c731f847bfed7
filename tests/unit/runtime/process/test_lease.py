"""Leader election: one leads, a lost lease means standby, and nobody acts in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from modelyard.kube.builtin import Lease
from modelyard.kube.client import Client
from modelyard.kube.errors import Unreachable
from modelyard.kube.transport import Around, Response, Sent
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.process.lease import Elector, LeaseSettings

pytestmark = pytest.mark.looptime

SETTINGS = LeaseSettings("plane", "default")


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())


class Cable(Around):
    """A transport that can be pulled out."""

    pulled = False

    async def pass_on(self, sent: Sent) -> Response:
        if self.pulled:
            raise Unreachable("the cable is pulled out")
        return await super().pass_on(sent)


class Process:
    """One that wants to lead, and notes when it does."""

    def __init__(self, server: ApiServer, name: str) -> None:
        self.cable = Cable(server.transport())
        self.elector = Elector(Client(self.cable), SETTINGS, name, clock)
        self.leading = False
        self.terms = 0
        self.task = asyncio.create_task(self.elector.run(self._lead))

    async def _lead(self) -> None:
        self.leading, self.terms = True, self.terms + 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.leading = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_only_one_leads_and_the_other_takes_over_at_once_when_it_is_given_back() -> None:
    async with ApiServer(clock=clock) as server:
        one = Process(server, "one")
        await asyncio.sleep(1)
        two = Process(server, "two")
        await asyncio.sleep(60)
        assert (one.leading, two.leading) == (True, False)
        await one.stop()
        await asyncio.sleep(4)
        assert two.leading
        spec = (await server.client().get(Lease, "default", "plane"))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)
        await two.stop()


async def test_who_is_cut_off_stops_before_the_other_begins_and_comes_back_as_standby() -> None:
    async with ApiServer(clock=clock) as server:
        one = Process(server, "one")
        await asyncio.sleep(1)
        two = Process(server, "two")
        await asyncio.sleep(10)
        one.cable.pulled = True
        both = 0
        for _ in range(600):
            await asyncio.sleep(0.1)
            both += one.leading and two.leading
            both += one.elector.held and two.elector.held
        assert both == 0
        assert (one.leading, two.leading) == (False, True)
        one.cable.pulled = False
        await asyncio.sleep(30)
        assert (one.leading, two.leading) == (False, True)
        await two.stop()
        await asyncio.sleep(5)
        assert (one.leading, one.terms) == (True, 2)
        await one.stop()


async def test_a_holder_whose_clock_is_wrong_keeps_the_lease_while_it_renews() -> None:
    async with ApiServer(clock=clock) as server:
        one = Process(server, "one")
        one.elector._clock = lambda: (
            datetime(2001, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())
        )
        await asyncio.sleep(1)
        two = Process(server, "two")
        await asyncio.sleep(120)
        assert (one.leading, two.leading) == (True, False)
        await one.stop()
        await two.stop()


async def test_an_api_that_is_gone_for_ten_minutes_ends_nothing() -> None:
    async with ApiServer(clock=clock) as server:
        one = Process(server, "one")
        await asyncio.sleep(5)
        one.cable.pulled = True
        await asyncio.sleep(600)
        assert not one.leading
        assert not one.task.done()
        one.cable.pulled = False
        await asyncio.sleep(20)
        assert one.leading
        await one.stop()
