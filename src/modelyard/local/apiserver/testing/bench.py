"""For tests: a fresh API server in memory as a pytest fixture. In a conftest: `from modelyard.local.apiserver.testing.bench import api_server`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from modelyard.local.apiserver.server import ApiServer

__all__ = ["ApiServer", "api_server"]


@pytest_asyncio.fixture
async def api_server() -> AsyncIterator[ApiServer]:
    """An API server of the test's own: `api_server.client()`, `.faults`, `.journal`, `await api_server.settle()`."""
    async with ApiServer() as server:
        yield server
