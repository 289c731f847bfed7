"""Stories of pods in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from modelyard.kube.kinds import Object
from tests.unit.local.kubelet.harness import EPOCH, PodScenario, Run
from tests.unit.local.timelines import Book, timeline

BOOK = Book(Path(__file__).with_name("timelines.txt"))
STORIES = pytest.StashKey[list[PodScenario]]()
Tell = Callable[..., PodScenario]


@pytest.fixture
async def story(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Tell]:
    """Makes stories that are closed at the end."""
    made = request.node.stash.setdefault(STORIES, [])

    def begin(pod: Object, /, *, start: bool = True, **script: Any) -> PodScenario:
        runs = {name: value if isinstance(value, list) else [value] for name, value in script.items()}
        one = PodScenario(tmp_path / str(len(made)), pod, {name: list[Run](value) for name, value in runs.items()})
        made.append(one)
        return one.start() if start else one

    yield begin
    for one in made:
        await one.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """When a test has said what it has to say, its story's whole status over time is compared with what is written down."""
    yield
    told: list[PodScenario] = item.stash.get(STORIES, [])
    for number, one in enumerate(told, 1):
        name = item.name.removeprefix("test_").replace("_", " ") + ("" if number == 1 else f" ({number})")
        BOOK.check(name, timeline([(at, {"": status}) for at, status in one.statuses], EPOCH))
