"""What a person sees while the laptop cluster starts: parts as they come up, then what was applied until it is ready."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from rich.status import Status

from modelyard.cli.files import read_all
from modelyard.cli.laptop.layout import Layout, State
from modelyard.cli.output import Failed, console
from modelyard.cli.survey import Node, reason, state_of, survey
from modelyard.kube.builtin import Deployment, Pod, ReplicaSet, StatefulSet
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Conflict, NotFound, Unreachable
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of
from modelyard.operators.registry import load
from modelyard.runtime.operator import Operator

MANAGER = "modelyard-up"
_LASTING_KINDS = frozenset((Deployment, StatefulSet, ReplicaSet, Pod))
_LOOK_SECONDS = 1.0
_WAITING_KINDS = frozenset(("Deployment", "StatefulSet", "Job", "Pod", "PersistentVolumeClaim"))


class Progress:
    """Lines as things happen, and one live line for what is waited for. `quiet` has no live line (for a log file)."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = console()
        self._live: Status | None = None if quiet or not self._console.is_terminal else self._console.status("starting")
        self._started = time.monotonic()
        self._last = ""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def line(self, text: str, style: str = "") -> None:
        self._console.print(f"{self.seconds:6.1f} s  {text}", style=style or None, markup=False)

    def part(self, part: str, event: str) -> None:
        self.line(f"{part}: {event}", "" if event == "ready" else "yellow")

    def waiting(self, text: str) -> None:
        if self._live is not None:
            self._live.update(text)
        elif text != self._last:
            self.line(text)
        self._last = text

    def failed(self, text: str) -> None:
        self.line(text, "red")

    def stopping(self) -> None:
        self.line("stopping")

    def done(self, state: State, layout: Layout) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(
            f"\nmodelyard is up in {layout.directory}\n"
            f"  operators   {', '.join(state.operators)}\n"
            f"  gateway     {state.gateway}\n"
            f"{_served(state, layout)}"
            f"  kubectl     kubectl --kubeconfig {shlex.quote(str(layout.kubeconfig))} get pods -A\n"
            f"  next        modelyard status{layout.argument}\n"
            f"              modelyard down{layout.argument}",
            markup=False,
            soft_wrap=True,
        )


def _served(state: State, layout: Layout) -> str:
    """Where what runs is reached: its address, and how a browser is logged in there."""
    lines = [
        f"{url}\n              in a browser: modelyard url {name}{layout.argument}\n"
        for name, url in sorted(state.served.items())
    ]
    return "".join(f"  {'open' if number == 0 else '':12}{line}" for number, line in enumerate(lines))


async def follow_applied(
    layout: Layout, files: Sequence[Path], operators: Sequence[str], timeout: float, progress: Progress
) -> None:
    """Applies the files' objects in order, then waits until the custom resources and workloads among them are ready."""
    objects = read_all(files)
    client = connect(layout.kubeconfig)
    try:
        applied = []
        for obj in objects:
            kind = await apply(client, obj)
            applied.append((kind, key_of(obj)))
            progress.line(f"applied {kind.kind} {key_of(obj)}")
        await _until_ready(client, applied, operators, timeout, progress, layout.read_building)
    finally:
        await client.close()


async def apply(client: Client, obj: Object, *, seconds: float = 30.0) -> Kind:
    """Server-side apply; waits a little for a kind or namespace that is only just coming."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        kind = next(
            (k for k in await client.discover() if (k.api_version, k.kind) == (obj["apiVersion"], obj["kind"])), None
        )
        try:
            if kind is not None:
                if kind.namespaced and not obj["metadata"].get("namespace"):
                    obj = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
                await client.apply(kind, obj, field_manager=MANAGER, force=True)
                return kind
        except (NotFound, Unreachable, Conflict) as error:
            problem = str(error)
        except ApiError as error:
            if error.code < 500:
                raise Failed(f"{obj['kind']} {obj['metadata']['name']} was refused: {error}") from None
            problem = str(error)
        else:
            problem = f"{obj['apiVersion']} {obj['kind']} is not served here"
        if asyncio.get_running_loop().time() > deadline:
            raise Failed(f"{obj['kind']} {obj['metadata']['name']} could not be applied: {problem}")
        await asyncio.sleep(0.1)


async def _until_ready(
    client: Client,
    applied: Sequence[tuple[Kind, Key]],
    names: Sequence[str],
    timeout: float,
    progress: Progress,
    building: Callable[[], str],
) -> None:
    operators = load(names, os.environ)
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout
    custom = {definition.kind for operator in operators for definition in operator.definitions}
    told: set[tuple[Kind, Key]] = set()
    why, look_again = "", 0.0
    while True:
        waiting: dict[tuple[Kind, Key], str] = {}
        for kind, key in applied:
            problem = await _problem(client, kind, key, kind in custom)
            if problem:
                waiting[kind, key] = problem
        # What a resource says of itself may date from the last run; its pods tell.
        ready = [root for root in applied if root[0] in custom and root not in waiting and root not in told]
        waiting |= await _not_started(client, operators, ready)
        for kind, key in ready:
            if (kind, key) not in waiting:
                told.add((kind, key))
                progress.line(f"{kind.kind} {key} is available", "green")
        if not waiting:
            return
        if line := building():
            progress.waiting(line)
        elif clock() >= look_again:
            # A close look reads most of the cluster, which has better things to do while it starts.
            (kind, key), problem = next(iter(waiting.items()))
            why = await _explained(client, operators, kind, key, problem)
            progress.waiting(why)
            look_again = clock() + _LOOK_SECONDS
        if clock() > deadline:
            raise Failed(f"not ready within {timeout:.0f} s: {why}")
        await asyncio.sleep(0.2)


async def _problem(client: Client, kind: Kind, key: Key, custom: bool) -> str:
    """Why this object is not ready, as it says itself; empty when it is, or when such a kind never says."""
    if not custom and kind.kind not in _WAITING_KINDS:
        return ""
    found = await client.find(kind, *key)
    if found is None:
        return f"{kind.kind} {key} is gone"
    state, ready, why = state_of(kind, found)
    if custom:
        if ready is None:
            says = bool((found.get("status") or {}).get("conditions"))
            return f"{kind.kind} {key} has not said anything yet" if _reports(kind) and not says else ""
        return "" if ready else f"{kind.kind} {key.name} is not ready: {why}"
    return "" if ready is not False else f"{kind.kind} {key}: {why or state}"


async def _not_started(
    client: Client, operators: Sequence[Operator], resources: Sequence[tuple[Kind, Key]]
) -> dict[tuple[Kind, Key], str]:
    """Those of the resources whose workloads do not run, and why."""
    found: dict[tuple[Kind, Key], str] = {}
    for root in await survey(client, operators) if resources else ():
        culprit = _idle_workload(root)
        if (root.kind, root.key) in resources and culprit is not None:
            found[root.kind, root.key] = f"{root.title} is not ready: {culprit.title}: {culprit.why}"
    return found


def _idle_workload(node: Node) -> Node | None:
    for child in node.children:
        if child.kind in _LASTING_KINDS:
            culprit = child if child.ready is False else _idle_workload(child)
            if culprit is not None:
                return culprit
    return None


async def _explained(client: Client, operators: Sequence[Operator], kind: Kind, key: Key, problem: str) -> str:
    """The problem, with what causes it where a look at the object's children shows that."""
    roots = await survey(client, operators, (kind.kind, key.name))
    cause = next((reason(root) for root in roots if (root.kind, root.key) == (kind, key) and root.ready is False), "")
    return f"{kind.kind} {key.name} is not ready: {cause}" if cause else problem


def _reports(kind: Kind) -> bool:
    """Configuration kinds have no controller that would report on them."""
    return not kind.kind.endswith("Config")
