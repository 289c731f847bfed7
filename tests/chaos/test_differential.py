"""Random requests get the same answers from our API server as from kube-apiserver, for a bounded time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.chaos.differential import fuzz
from tests.real.build import Unavailable
from tests.real.cluster import RealCluster

SECONDS = 60 if os.environ.get("CHAOS") == "full" else 10


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
def test_both_servers_answer_alike(cluster: RealCluster) -> None:
    """One seed, so that a failure is the change's; other seeds and `--wide` are for looking: `python -m tests.chaos.differential`."""
    seed = int(os.environ.get("SEED") or 1)
    run = fuzz(cluster, 500, seed, SECONDS)
    print(run.summary())
    assert run.done > len(run.unanswered), "the real server answered nothing"
