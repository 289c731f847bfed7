"""The work queue, on virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest

from modelyard.runtime.acting.queue import Queue, QueueClosed

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


def taken(queue: Queue[str]) -> list[str]:
    """Everything that is ready, in order; each is done at once."""
    keys: list[str] = []
    while (key := queue.get_nowait()) is not None:
        keys.append(key)
        queue.done(key)
    return keys


async def test_keys_come_once_and_in_order() -> None:
    queue: Queue[str] = Queue()
    for key in "abab":
        queue.add(key)
    assert len(queue) == 2
    assert taken(queue) == ["a", "b"]


async def test_a_key_that_becomes_due_goes_behind_those_that_are_ready() -> None:
    queue: Queue[str] = Queue()
    queue.add_after("first", 1)
    await asyncio.sleep(0.5)
    queue.add("ready")
    queue.add_after("second", 1)
    await asyncio.sleep(1)
    assert taken(queue) == ["ready", "first", "second"]


async def test_a_key_in_work_is_not_handed_out_twice() -> None:
    queue: Queue[str] = Queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert queue.get_nowait() is None
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.idle


async def test_get_waits_for_a_key() -> None:
    queue: Queue[str] = Queue()
    asyncio.get_running_loop().call_later(3, queue.add, "a")
    assert await queue.get() == "a"
    assert now() == pytest.approx(3)


async def test_delayed_key_becomes_ready_when_due() -> None:
    queue: Queue[str] = Queue()
    queue.add_after("late", 20)
    queue.add_after("soon", 5)
    queue.add_after("at once", 0)
    assert queue.delayed == 2
    assert queue.next_due() == pytest.approx(now() + 5)
    assert [await queue.get() for _ in range(3)] == ["at once", "soon", "late"]
    assert now() == pytest.approx(20)


async def test_of_two_delays_the_earlier_counts() -> None:
    queue: Queue[str] = Queue()
    queue.add_after("a", 50)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    assert await queue.get() == "a"
    assert now() == pytest.approx(5)
    queue.done("a")
    await asyncio.sleep(100)
    assert taken(queue) == []


async def test_a_ready_key_needs_no_delayed_wake_up() -> None:
    queue: Queue[str] = Queue()
    queue.add_after("a", 5)
    queue.add("a")
    assert taken(queue) == ["a"]
    await asyncio.sleep(10)
    assert taken(queue) == []


async def test_delay_during_work_wakes_after_it() -> None:
    queue: Queue[str] = Queue()
    queue.add("a")
    await queue.get()
    queue.add_after("a", 5)
    await asyncio.sleep(10)
    assert queue.get_nowait() is None
    queue.done("a")
    assert taken(queue) == ["a"]


async def test_failing_key_pauses_longer_each_time_and_others_do_not() -> None:
    queue: Queue[str] = Queue(first_retry=1, longest_retry=10)
    assert [queue.add_rate_limited("bad") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert queue.add_rate_limited("good") == 1
    assert queue.failures("bad") == 6
    queue.forget("bad")
    assert queue.add_rate_limited("bad") == 1


async def test_backoff_of_a_key_that_fails_for_weeks_does_not_overflow() -> None:
    queue: Queue[str] = Queue()
    for _ in range(5000):
        pause = queue.add_rate_limited("bad")
    assert pause == 300


async def test_discarded_key_does_not_come() -> None:
    queue: Queue[str] = Queue()
    queue.add("a")
    queue.add_after("b", 5)
    queue.discard("a")
    queue.discard("b")
    await asyncio.sleep(10)
    assert taken(queue) == []
    queue.add("a")
    assert taken(queue) == ["a"]


async def test_cancelled_worker_loses_no_key() -> None:
    queue: Queue[str] = Queue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_many_workers_share_the_keys() -> None:
    queue: Queue[int] = Queue()
    running: set[int] = set()
    done: list[int] = []

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in running
            running.add(key)
            await asyncio.sleep(1)
            running.remove(key)
            done.append(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    for key in range(40):
        queue.add(key)
    await asyncio.sleep(10.5)
    assert sorted(done) == list(range(40))
    for worker in workers:
        worker.cancel()
    await asyncio.wait(workers)


async def test_closing_wakes_the_workers() -> None:
    queue: Queue[str] = Queue()
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add_after("a", 5)
    queue.close()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosed, QueueClosed]
    queue.add("b")
    assert len(queue) == 0


@pytest.mark.parametrize("seed", range(20))
async def test_no_added_key_is_lost_and_none_is_worked_on_twice_at_once(seed: int) -> None:
    chance = random.Random(seed)
    queue: Queue[int] = Queue(first_retry=0.1, longest_retry=5)
    loop = asyncio.get_running_loop()
    asked: dict[int, float] = {}  # key -> when a pass over it is due at the latest
    running: set[int] = set()

    def add() -> None:
        key, delay = chance.randrange(8), chance.choice((0.0, 0.5, 3.0))
        match chance.randrange(3):
            case 0:
                delay = 0.0
                queue.add(key)
            case 1:
                queue.add_after(key, delay)
            case _:
                delay = queue.add_rate_limited(key)
        due = loop.time() + delay
        asked[key] = min(asked.get(key, due), due)

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in running
            running.add(key)
            asked.pop(key, None)
            try:
                await asyncio.sleep(chance.choice((0.0, 0.2, 1.0)))
            finally:
                running.remove(key)
                queue.done(key)
            if chance.random() < 0.5:
                queue.forget(key)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    for _ in range(200):
        add()
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.1, 1.0)))
        if chance.random() < 0.05:
            index = chance.randrange(3)
            workers[index].cancel()
            await asyncio.wait([workers[index]])
            workers[index] = asyncio.create_task(work())
    await asyncio.sleep(60)
    assert asked == {}
    assert queue.idle
    assert queue.delayed == 0
    for worker in workers:
        assert not worker.done()
        worker.cancel()
    await asyncio.wait(workers)


class Numbers:
    def __init__(self) -> None:
        self.depths: list[int] = []
        self.adds = self.retries = 0
        self.waits: list[float] = []
        self.works: list[float] = []

    def depth(self, ready: int) -> None:
        self.depths.append(ready)

    def added(self) -> None:
        self.adds += 1

    def waited(self, seconds: float) -> None:
        self.waits.append(seconds)

    def worked(self, seconds: float) -> None:
        self.works.append(seconds)

    def retried(self) -> None:
        self.retries += 1


async def test_metrics_tell_depth_adds_latency_work_and_retries() -> None:
    numbers = Numbers()
    queue: Queue[str] = Queue(metrics=numbers)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(2)
    await queue.get()
    assert queue.working == {"a": 0}
    await asyncio.sleep(3)
    assert queue.working == {"a": pytest.approx(3)}
    queue.done("a")
    queue.add_rate_limited("a")
    assert (numbers.adds, numbers.retries) == (2, 1)
    assert numbers.depths == [1, 2, 1]
    assert numbers.waits == [pytest.approx(2)]
    assert numbers.works == [pytest.approx(3)]
