"""A ground on the API server under test, with the AppWrapper definition in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.appwrapper.scenarios.scene import AppWrapperScene
from tests.cluster.conftest import Api


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[AppWrapperScene]:
    async with AppWrapperScene.on(api, "wrap") as scene:
        yield scene
