"""Random requests get the same answers from our API server as from kube-apiserver, for a bounded time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest

from tests.chaos.differential import fuzz
from tests.real.build import Unavailable
from tests.real.cluster import RealCluster

SECONDS = 60 if os.environ.get("CHAOS") == "full" else 10
SHOWN = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    try:
        with RealCluster() as cluster:
            yield cluster
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(why))


@pytest.mark.slow
@pytest.mark.parametrize("wide", [False, True], ids=["common requests", "more kinds and rarer requests"])
def test_both_servers_answer_alike(cluster: RealCluster, wide: bool) -> None:
    seed = int(os.environ.get("SEED") or time.time())
    done, differences, left_out = asyncio.run(fuzz(cluster, 100_000, seed, SECONDS / 2, SHOWN, wide=wide))
    assert done > len(left_out), "the real server answered nothing"
    told = "\n\n".join(map(str, differences))
    assert not differences, f"SEED={seed}, after {done} sequences:\n\n{told}"
