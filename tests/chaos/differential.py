"""The same random sequence of requests on our API server and on a real one: every answer must agree, but for what is masked.

`python -m tests.chaos.differential --sequences 500 --seed 1`
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modelyard.kube.builtin import Namespace, PersistentVolumeClaim, ServiceAccount
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.transport import Response
from modelyard.local.apiserver import ApiServer
from tests.chaos.differential_chance import Chance
from tests.chaos.differential_masks import MASKS, differences
from tests.chaos.differential_steps import install, sequence
from tests.real.cluster import RealCluster

_AT_ONCE = 4
"""Sequences that run side by side, each in a namespace of its own: most of the time is spent waiting for the real server."""

_METHODS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "get": "GET",
    "list": "GET",
    "deletecollection": "DELETE",
}
_COLLECTOR = frozenset(("orphan", "foregroundDeletion"))
_PROTECTION = "kubernetes.io/pvc-protection"


@dataclass(frozen=True)
class Step:
    """One request, as data; the same on both servers. The version `current` is the one that a server gave last."""

    verb: str
    kind: Kind
    name: str = ""
    body: Any = None
    options: Mapping[str, str] = field(default_factory=dict)
    content: str = ""
    subresource: str = ""
    accept: str = "application/json"

    def __str__(self) -> str:
        words = [self.verb, self.kind.kind, self.name, self.subresource, self.content]
        if self.accept != "application/json":
            words.append(self.accept)
        if self.options:
            words.append(str(dict(self.options)))
        if self.body is not None:
            words.append(
                self.body.decode() if isinstance(self.body, bytes) else msgspec.json.encode(self.body).decode()
            )
        return " ".join(word for word in words if word)

    @property
    def writes(self) -> bool:
        return self.verb not in ("get", "list")


@dataclass(frozen=True)
class Answer:
    code: int
    body: Any
    warnings: tuple[str, ...] = ()

    def to_object(self) -> Object:
        return {"code": self.code, "body": self.body, "warnings": sorted(self.warnings)}


@dataclass
class Side:
    """One of the two servers, and what it told about one sequence's objects."""

    client: Client
    namespace: str
    versions: dict[str, str] = field(default_factory=dict)
    more: str = ""
    """The token of the last list that was cut off."""

    async def send(self, step: Step) -> Answer:
        kind = step.kind
        name = "" if step.verb in ("create", "list", "deletecollection") else step.name
        path = kind.path(self.namespace if kind.namespaced else "", name, step.subresource)
        body = self._current(step.body, self.versions.get(f"{kind.kind}/{step.name}", "1"))
        data = body if isinstance(body, bytes) else msgspec.json.encode(body) if body is not None else b""
        options = {key: self.more if value == "more" else value for key, value in step.options.items()}
        headers = {"Content-Type": step.content or "application/json", "Accept": step.accept}
        response = await self.client.transport.send(
            _METHODS[step.verb], path, query=options, headers=headers, body=data, timeout=30
        )
        raw = await response.read()
        answer = _decoded(raw)
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        if isinstance(metadata, dict) and response.status < 300:
            if metadata.get("name"):
                self.versions[f"{kind.kind}/{metadata['name']}"] = metadata.get("resourceVersion", "")
            self.more = metadata.get("continue") or self.more
        return Answer(response.status, answer, tuple(_warnings(response)))

    def _current(self, value: Any, version: str) -> Any:
        if isinstance(value, dict):
            return {
                key: version if key == "resourceVersion" and one == "current" else self._current(one, version)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self._current(one, version) for one in value]
        return value

    async def settled(self, kind: Kind) -> None:
        """Waits for what controllers do in their own time: what only the collector holds goes, and a claim that is to stay
        gets its protection back."""
        for _ in range(3000):  # the collector learns of a new kind within half a minute
            found = await self.client.list(kind, self.namespace)
            if all(_is_settled(kind, item["metadata"]) for item in found.items):
                return
            await asyncio.sleep(0.02)


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError:
        return raw.decode(errors="replace")


def _warnings(response: Response) -> Iterator[str]:
    headers: Any = response.headers
    yield from headers.getall("Warning", ()) if hasattr(headers, "getall") else getattr(response, "warnings", ())


def _is_settled(kind: Kind, metadata: Object) -> bool:
    held = set(metadata.get("finalizers") or ())
    if metadata.get("deletionTimestamp"):
        return not held & {*_COLLECTOR, _PROTECTION}
    return kind != PersistentVolumeClaim or _PROTECTION in held


@dataclass
class Difference:
    sequence: int
    before: list[tuple[Step, int]]
    step: Step
    where: list[str]

    def __str__(self) -> str:
        related = [f"   after {code}: {step}"[:400] for step, code in self.before if step.kind == self.step.kind]
        lines = [f"sequence {self.sequence}:", *related[-6:], f"   {self.step}"[:1800]]
        return "\n".join(lines + [f"   >> {line}"[:900] for line in self.where[:12]])


@dataclass
class Run:
    """What a run found so far."""

    seed: int
    done: int = 0
    steps: int = 0
    accepted: int = 0
    differences: list[Difference] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    """Sequences that ended because kube-apiserver hung up or kept silent."""
    touched: Counter[str] = field(default_factory=Counter)

    def summary(self) -> str:
        lines = [
            f"seed {self.seed}: {self.done} sequences of {self.steps} requests ({self.accepted} accepted), "
            f"{len(self.differences)} with an unexplained difference, {len(self.unanswered)} ended by the real server",
            "differences taken away, by mask and number of requests:",
        ]
        lines += [f"  {self.touched[mask.name]:6} {mask.name}: {mask.why}" for mask in MASKS if self.touched[mask.name]]
        return "\n".join(lines)


async def run_sequence(number: int, run: Run, ours: Client, real: Client, *, wide: bool) -> None:
    chance = Chance(f"{run.seed}/{number}", wide=wide)
    namespace = f"fuzz-{run.seed}-{number}{'-wide' if wide else ''}"
    sides = Side(ours, namespace), Side(real, namespace)
    for side in sides:
        await side.client.create(Namespace, {"metadata": {"name": namespace}})
        while await side.client.find(ServiceAccount, namespace, "default") is None:
            await asyncio.sleep(0.02)
    before: list[tuple[Step, int]] = []
    try:
        for wanted in sequence(chance):
            step = Step(**wanted)
            mine = await sides[0].send(step)
            try:
                theirs = await sides[1].send(step)
            except Unreachable as why:
                run.unanswered.append(f"sequence {number}: no answer to {step}: {why}")
                return
            run.steps += 1
            run.accepted += theirs.code < 300
            where = differences(mine.to_object(), theirs.to_object(), run.touched)
            if where:
                run.differences.append(Difference(number, before, step, where))
                return
            if step.writes and theirs.code < 300:
                for side in sides:
                    await side.settled(step.kind)
            before.append((step, theirs.code))
    finally:
        run.done += 1
        for side in sides:
            try:
                await side.client.delete(Namespace, "", namespace)
            except ApiError:
                continue


async def fuzz(
    cluster: RealCluster, sequences: int, seed: int, seconds: float | None, stop_after: int, *, wide: bool = False
) -> Run:
    run = Run(seed)
    deadline = time.monotonic() + seconds if seconds else None
    numbers = iter(range(sequences))
    real = connect(cluster.kubeconfig)

    async def work() -> None:
        for number in numbers:
            if (deadline and time.monotonic() > deadline) or len(run.differences) >= stop_after:
                return
            await run_sequence(number, run, ours, real, wide=wide)

    async with ApiServer() as server:
        ours = server.client()
        try:
            for client in (ours, real):
                await install(client)
            async with asyncio.TaskGroup() as workers:
                for _ in range(_AT_ONCE):
                    workers.create_task(work())
        finally:
            await real.close()
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--stop-after", type=int, default=10, help="differences to show at most")
    parser.add_argument("--wide", action="store_true", help="bodies are changed at random places, too")
    args = parser.parse_args()
    with RealCluster() as cluster:
        run = asyncio.run(fuzz(cluster, args.sequences, args.seed, args.seconds, args.stop_after, wide=args.wide))
    for one in sorted(run.differences, key=lambda one: one.sequence):
        print(one, end="\n\n")
    for line in run.unanswered:
        print(f"the real server did not answer: {line}")
    print(run.summary())
    return 1 if run.differences else 0


if __name__ == "__main__":
    sys.exit(main())
