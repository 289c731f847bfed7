"""Random requests get the same answers from our API server as from kube-apiserver, for a bounded time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.chaos.amount import EVERYTHING, FULL
from tests.chaos.differential import Run, Uids, fuzz
from tests.real.build import Unavailable
from tests.real.cluster import RealCluster

SEEDS = [int(os.environ["SEED"])] if os.environ.get("SEED") else [1, 2, 3]
SECONDS = 600 if EVERYTHING else 20 if FULL else 5
"""For each seed."""
MOST_UNANSWERED = 20
"""Of so many sequences one may end because kube-apiserver hung up."""


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
@pytest.mark.parametrize("seed", SEEDS)
def test_both_servers_answer_alike(cluster: RealCluster, seed: int) -> None:
    """Always the same seeds, so that a failure is the change's; others and `--wide` are for looking: `python -m tests.chaos.differential`."""
    run = fuzz(cluster, 5000 if EVERYTHING else 500, seed, SECONDS)
    print(run.summary())
    assert run.done, "no sequence was played to its end"
    assert len(run.unanswered) <= max(1, run.done // MOST_UNANSWERED), run.unanswered
    assert not run.masks_too_busy()


def test_a_mask_that_hides_too_much_is_named() -> None:
    run = Run(seed=1, steps=100)
    run.touched.update({"versions": 100, "generated names": 20, "immutable value": 11})
    assert run.masks_too_busy() == ["immutable value: 11 of 100 requests, at most 10%"]


def test_uids_are_compared_by_the_object_that_they_stand_for() -> None:
    """The second object's uid in the first one's place differs, though no uid is the same on two servers."""
    first, second = ("00000000-0000-0000-0000-00000000000" + end for end in "12")
    uids = Uids()
    assert uids.named({"items": [first, second], "text": f"owned by {first}"}) == {
        "items": ["uid 1", "uid 2"],
        "text": "owned by uid 1",
    }
    assert uids.named({"uid": second}) == {"uid": "uid 2"}
