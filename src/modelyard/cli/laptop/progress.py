"""What a person sees while the laptop cluster starts: parts as they come up, then what was applied until it is ready."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Self

from rich.status import Status

from modelyard.cli.files import Document
from modelyard.cli.output import console, did_you_mean
from modelyard.cli.refusals import no_namespace, refusal
from modelyard.cli.survey import NO_IMAGE, Node, reason, state_of, survey, survey_one
from modelyard.failure import Failed
from modelyard.kube.builtin import CustomResourceDefinition, Deployment, Pod, ReplicaSet, StatefulSet
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Conflict, NotFound, Unreachable
from modelyard.kube.kinds import Key, Kind, Object
from modelyard.kube.objects import key_of
from modelyard.local.laptop.layout import Layout, State
from modelyard.operators.registry import load
from modelyard.runtime.declaring.operator import Operator

MANAGER = "modelyard-up"
_LASTING_KINDS = frozenset((Deployment, StatefulSet, ReplicaSet, Pod))
_FIRST_KINDS = frozenset(("Namespace", "CustomResourceDefinition"))
_LOOK_SECONDS = 1.0
_PATIENCE = 4.0
"""A pod without an image may be one that the controllers replace just now; after so long it is the one to mend."""
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

    def done(self, state: State, layout: Layout, links: Mapping[str, str]) -> None:
        """`links` log a browser in, each once; the one without a name leads to the start page."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(
            f"\nmodelyard is up in {layout.directory}\n"
            f"  operators   {', '.join(state.operators)}\n"
            f"  gateway     {state.gateway}\n"
            f"{_links(links, layout)}"
            f"  kubectl     kubectl --kubeconfig {shlex.quote(str(layout.kubeconfig))} get pods -A\n"
            f"  next        modelyard status{layout.argument}\n"
            f"              modelyard down{layout.argument}",
            markup=False,
            soft_wrap=True,
        )


def _links(links: Mapping[str, str], layout: Layout) -> str:
    lines = [f"{name or 'start page'}: {url}\n" for name, url in sorted(links.items())]
    again = f"              each link works once; for another: modelyard url NAME{layout.argument}\n" if links else ""
    return "".join(f"  {'open' if number == 0 else '':12}{line}" for number, line in enumerate(lines)) + again


async def follow_applied(
    layout: Layout, documents: Sequence[Document], operators: Sequence[str], timeout: float, progress: Progress
) -> None:
    """Applies the objects in order, then waits until the custom resources and workloads among them are ready."""
    client = connect(layout.kubeconfig)
    try:
        applied = []
        defined: set[tuple[str, str]] = set()
        # What others need comes first, wherever it stands in the files.
        for document in sorted(documents, key=lambda each: each.object["kind"] not in _FIRST_KINDS):
            kind, key = await apply(client, document, defined)
            defined |= _defines(document.object)
            applied.append((kind, key))
            progress.line(f"applied {kind.kind} {key}")
        await _until_ready(client, applied, operators, timeout, progress, layout.read_building)
    finally:
        await client.close()


async def apply(
    client: Client, document: Document, defined: Container[tuple[str, str]] = (), *, seconds: float = 30.0
) -> tuple[Kind, Key]:
    """Server-side apply. What waiting cannot mend is told at once; a definition among `defined` (group and kind) may take a
    moment until it is served, and the API server may be restarting."""
    obj = document.object
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        problem = ""
        try:
            served = await client.discover()
            kind = next((k for k in served if (k.api_version, k.kind) == (obj["apiVersion"], obj["kind"])), None)
            if kind is None:
                problem = f"the cluster does not serve {obj['apiVersion']} {obj['kind']}"
                if (obj["apiVersion"].partition("/")[0], obj["kind"]) not in defined:
                    close = did_you_mean(
                        f"{obj['apiVersion']} {obj['kind']}", {f"{k.api_version} {k.kind}" for k in served}
                    )
                    raise Failed(f"{document} was refused: {problem}{close}")
            else:
                if kind.namespaced and not obj["metadata"].get("namespace"):
                    obj = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
                await client.apply(kind, obj, field_manager=MANAGER, force=True)
                return kind, key_of(obj)
        except NotFound as error:
            namespace = obj["metadata"].get("namespace") or ""
            if f'namespaces "{namespace}" not found' in str(error):
                raise Failed(f"{document} was refused: {no_namespace(namespace)}") from None
            problem = str(error)
        except (Unreachable, Conflict) as error:
            problem = str(error)
        except ApiError as error:
            # A value of the wrong type is a 500 in Kubernetes, though it never becomes right.
            if error.code < 500 or "failed to create typed patch object" in str(error):
                raise Failed(f"{document} was refused: {refusal(error)}") from None
            problem = str(error)
        if asyncio.get_running_loop().time() > deadline:
            raise Failed(f"{document} could not be applied: {problem}")
        await asyncio.sleep(0.1)


def _defines(obj: Object) -> set[tuple[str, str]]:
    """Group and kind of a definition."""
    if obj["kind"] != CustomResourceDefinition.kind:
        return set()
    spec = obj.get("spec") or {}
    return {(str(spec.get("group")), str((spec.get("names") or {}).get("kind")))}


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
    culprit, since = "", clock()
    while True:
        try:
            waiting = await _waiting(client, operators, applied, custom, told, progress)
            if not waiting:
                return
            if line := building():
                progress.waiting(line)
            elif clock() >= look_again:
                # A close look reads most of the cluster, which has better things to do while it starts.
                (kind, key), problem = next(iter(waiting.items()))
                why, stuck = await _explained(client, operators, kind, key, problem)
                progress.waiting(why)
                since = since if stuck == culprit else clock()
                culprit = stuck
                if stuck and clock() - since >= _PATIENCE:
                    raise Failed(why)
                look_again = clock() + _LOOK_SECONDS
        except Unreachable as error:
            # The API server may be starting again.
            why = str(error)
            progress.waiting(why)
        if clock() > deadline:
            raise Failed(f"not ready within {timeout:.0f} s: {why}")
        await asyncio.sleep(0.2)


async def _waiting(
    client: Client,
    operators: Sequence[Operator],
    applied: Sequence[tuple[Kind, Key]],
    custom: Container[Kind],
    told: set[tuple[Kind, Key]],
    progress: Progress,
) -> dict[tuple[Kind, Key], str]:
    """What is not ready yet, and why; those that became ready are told once."""
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
    return waiting


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


async def _explained(
    client: Client, operators: Sequence[Operator], kind: Kind, key: Key, problem: str
) -> tuple[str, str]:
    """The problem, with what causes it where a look at the object's children shows that; and the pod that has no image."""
    root = await survey_one(client, operators, kind, key)
    if root is None or root.ready is not False:
        return problem, ""
    cause = reason(root)
    stuck = next((node for node in root.walk() if node.kind == Pod and node.state in NO_IMAGE), None)
    return f"{root.title} is not ready: {cause}" if cause else problem, stuck.key.name if stuck else ""


def _reports(kind: Kind) -> bool:
    """Configuration kinds have no controller that would report on them."""
    return not kind.kind.endswith("Config")
