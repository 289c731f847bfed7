"""`modelyard up` where a cluster runs already: does on it what was asked for, and waits for one that is being started."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelyard.cli.files import Document
from modelyard.cli.laptop.progress import Progress, follow_applied
from modelyard.failure import Failed
from modelyard.local.laptop.kubeconfig import merge_context
from modelyard.local.laptop.layout import Layout, State
from modelyard.local.laptop.places import offered

_POLL = 0.05


@dataclass(frozen=True)
class Wishes:
    """What a command line asks of a cluster that runs."""

    documents: Sequence[Document]
    timeout: float
    merge: bool
    operators: Sequence[str] | None
    """None: those that run there."""
    platform: str | None


def join(layout: Layout, wishes: Wishes) -> int:
    with Progress() as progress:
        state = _wait_ready(layout, progress)
        _require_same(layout, state, wishes)
        if wishes.merge:
            merge_context(layout.kubeconfig, "modelyard")
        if wishes.documents:
            asyncio.run(follow_applied(layout, wishes.documents, state.operators, wishes.timeout, progress))
        else:
            state = _wait_settled(layout, progress)
        state.served, links = asyncio.run(offered(layout, state.gateway))
        progress.done(state, layout, links)
    if state.problem and not wishes.documents:
        raise Failed(state.problem)
    return 0


def _wait_ready(layout: Layout, progress: Progress) -> State:
    return _wait(layout, progress, lambda state: state.ready, "its parts are being started")


def _wait_settled(layout: Layout, progress: Progress) -> State:
    return _wait(layout, progress, lambda state: state.settled, "what it was told to apply is not ready yet")


def _wait(layout: Layout, progress: Progress, good: Callable[[State], bool], why: str) -> State:
    """The process that runs the cluster has a time limit of its own."""
    while layout.is_running():
        state = layout.read_state()
        if state is not None and good(state):
            return state
        if state is not None:
            progress.waiting(f"process {state.pid} starts this cluster: {why}")
        time.sleep(_POLL)
    raise Failed(f"the cluster in {layout.directory} was stopped, or could not start: see {layout.logs / 'up.log'}")


def _require_same(layout: Layout, state: State, wishes: Wishes) -> None:
    remedy = f"stop it first with: modelyard down{layout.argument}"
    if wishes.operators is not None and set(wishes.operators) != set(state.operators):
        raise Failed(f"{layout.directory} runs with --operators {','.join(state.operators)}; to change that, {remedy}")
    if wishes.platform is not None and wishes.platform != state.platform:
        raise Failed(f"{layout.directory} runs with --platform {state.platform}; to change that, {remedy}")
