"""A ground on the API server under test, with the AppWrapper definition in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.operators.codeflare.appwrapper.api import APPWRAPPER
from tests.cluster.appwrapper.scenarios.scene import AppWrapperScene
from tests.cluster.conftest import Api
from tests.ground import ApiGround


@pytest.fixture
async def scene(api: Api) -> AsyncIterator[AppWrapperScene]:
    ground = ApiGround(api.client, await api.namespace("wrap"), api.as_user)
    await ground.install([APPWRAPPER])
    yield AppWrapperScene(ground)
    await ground.stop()
