"""Stories of pods in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from modelyard.kube.kinds import Object
from tests.unit.local.kubelet.harness import Run, Story

Tell = Callable[..., Story]


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Tell]:
    """Makes stories that are closed at the end."""
    made: list[Story] = []

    def begin(pod: Object, /, *, start: bool = True, **script: Any) -> Story:
        runs = {name: value if isinstance(value, list) else [value] for name, value in script.items()}
        one = Story(tmp_path / str(len(made)), pod, {name: list[Run](value) for name, value in runs.items()})
        made.append(one)
        return one.start() if start else one

    yield begin
    for one in made:
        await one.close()
