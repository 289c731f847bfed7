"""Stories of workloads: what their controllers say over time is compared with what is written down."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit.local.timelines import Book, timeline
from tests.unit.local.workloads.stage import Stage

BOOK = Book(Path(__file__).with_name("timelines.txt"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    yield
    stage = getattr(item, "funcargs", {}).get("stage")
    if isinstance(stage, Stage):
        BOOK.check(item.name.removeprefix("test_").replace("_", " "), timeline(stage.statuses, stage.began))
