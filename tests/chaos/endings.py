"""A resource is deleted in the middle of whatever is being done for it: at the end nothing of it is left, and nothing else is gone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from modelyard.kube.client import Client
from modelyard.kube.transport import Sent
from tests.chaos.faults import Fault, is_business
from tests.chaos.sweeps import Step, SweptScenario, baseline, compare, play, points, virtually


class DeleteAfterWrite(Fault):
    """Someone deletes the resource right after the n-th write of its controllers, before they have the answer."""

    def __init__(self, number: int, delete: Step) -> None:
        self._left = number
        self._delete = delete
        self._client: Client | None = None
        self.done = False

    async def after(self, sent: Sent) -> None:
        if not is_business(sent):
            return
        self._left -= 1
        if self._left == 0:
            await self.end()

    async def end(self) -> None:
        if not self.done and self._client is not None:
            self.done = True
            await self._delete(self._client)

    def before_the_end(self, step: Step) -> Step:
        """The step, as long as the resource is not deleted."""

        async def told(client: Client) -> None:
            self._client = client
            if not self.done:
                await step(client)

        return told

    async def last(self, client: Client) -> None:
        """Deletes it now, if it was not deleted before."""
        self._client = client
        await self.end()


def deleted_in_every_phase(story: SweptScenario, delete: Step, *, sample: int = 8) -> None:
    """`story` makes and changes one resource and nothing else; `delete` ends it."""
    writes = baseline(story).writes
    begun = _with_steps(story, story.steps[0], delete)
    gone, _ = virtually(play(begun))
    for number in points(story, len(writes), sample):
        fault = DeleteAfterWrite(number, delete)
        told = _with_steps(story, *map(fault.before_the_end, story.steps), fault.last)
        ending, _ = virtually(play(told, partial(_itself, fault)))
        compare(story, ending, gone, f"deleted after write {number} ({writes[number - 1]})")


def _itself(fault: Fault) -> Fault:
    return fault


def _with_steps(story: SweptScenario, *steps: Step) -> SweptScenario:
    return replace(story, steps=steps, masked={})
