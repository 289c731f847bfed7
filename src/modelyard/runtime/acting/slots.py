"""How many passes of a controller run at once. A pass that waits for something beyond the API lends its slot to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MOST_CALLS = 256
"""More passes than this do not wait for the outside at once."""


class Slots:
    def __init__(self, passes: int) -> None:
        self.passes = asyncio.Semaphore(passes)
        self.calls = asyncio.Semaphore(MOST_CALLS)


class Slot:
    """One pass's slot: taken before the pass, given back after it."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._held = False

    async def take(self) -> None:
        await self._slots.passes.acquire()
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.passes.release()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """While the block runs, another pass may have this slot."""
        async with self._slots.calls:
            self.give_back()
            try:
                yield
            finally:
                await self.take()
