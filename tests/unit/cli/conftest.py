"""The demo operator and the embedded API server with its definitions: a cluster for a command to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from greetings_operator.operator import operator
from modelyard.cli.offline import offline_server
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.declaring.operator import Operator


@pytest.fixture
def demo() -> Operator:
    return operator({})


@pytest.fixture
async def server(demo: Operator) -> AsyncIterator[ApiServer]:
    async with offline_server([demo]) as server:
        client = server.client()
        yield server
        await client.close()


def greeting(name: str = "hi", **spec: Any) -> Object:
    return {
        "apiVersion": "demo.modelyard.dev/v1",
        "kind": "Greeting",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"text": "Hello"} | spec,
    }
