"""Database servers that the tests of several programs share: one of each for a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.programs.databases import DatabaseServer, mysql, postgres, running


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[DatabaseServer]:
    with running(postgres) as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[DatabaseServer]:
    with running(mysql) as server:
        yield server
