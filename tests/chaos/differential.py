"""The same random sequence of requests on our API server and on a real one: every answer must agree, but for what is masked.

`python -m tests.chaos.differential --sequences 500 --seed 1`
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies

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
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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


class Uids:
    """The uids of one server in the order in which it showed them: the first on one side stands for the first on the other. So
    which object is meant is compared, and what its uid looks like is not."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def named(self, value: Any) -> Any:
        """The value with a name for each uid in it."""
        if isinstance(value, dict):
            return {key: self.named(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [self.named(one) for one in value]
        if not isinstance(value, str):
            return value
        return _UID.sub(lambda found: self._names.setdefault(found[0], f"uid {len(self._names) + 1}"), value)


@dataclass
class Side:
    """One of the two servers, and what it told about one sequence's objects."""

    client: Client
    namespace: str
    versions: dict[str, str] = field(default_factory=dict)
    more: str = ""
    """The token of the last list that was cut off."""
    uids: Uids = field(default_factory=Uids)

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
        return Answer(response.status, self.uids.named(answer), tuple(_warnings(response)))

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


class Differs(AssertionError):
    """The servers did not agree."""

    def __init__(self, before: Sequence[tuple[Step, int]], step: Step, where: Sequence[str]) -> None:
        steps = [f"   after {code}: {step}"[:400] for step, code in before]
        super().__init__("\n".join(["", *steps, f"   {step}"[:1800], *(f"   >> {line}"[:900] for line in where[:12])]))


class TimeIsUp(KeyboardInterrupt):
    """Of all exceptions, hypothesis lets only this kind end a run."""


@dataclass
class Run:
    """What a run found so far."""

    seed: int
    done: int = 0
    steps: int = 0
    accepted: int = 0
    unanswered: list[str] = field(default_factory=list)
    """Sequences that ended because kube-apiserver hung up or kept silent."""
    touched: Counter[str] = field(default_factory=Counter)
    differs: bool = False
    """A sequence was found; now hypothesis looks for the simplest one that differs."""

    def masks_too_busy(self) -> list[str]:
        """The masks that took more away than they should: behind one of them something may hide that is none of its business."""
        return [
            f"{mask.name}: {self.touched[mask.name]} of {self.steps} requests, at most {mask.most:.0%}"
            for mask in MASKS
            if self.touched[mask.name] > max(3.0, mask.most * self.steps)
        ]

    def summary(self) -> str:
        lines = [
            f"seed {self.seed}: {self.done} sequences of {self.steps} requests ({self.accepted} accepted) without an "
            f"unexplained difference, {len(self.unanswered)} ended by the real server",
            "differences taken away, by mask and number of requests:",
        ]
        lines += [f"  {self.touched[mask.name]:6} {mask.name}: {mask.why}" for mask in MASKS if self.touched[mask.name]]
        return "\n".join(lines)


async def play(steps: Sequence[Step], run: Run, ours: Client, real: Client, namespace: str) -> bool:
    """One sequence, in a namespace of its own; raises `Differs` at the first answer in which the servers differ. False if the
    real server ended it."""
    sides = Side(ours, namespace), Side(real, namespace)
    for side in sides:
        await side.client.create(Namespace, {"metadata": {"name": namespace}})
        while await side.client.find(ServiceAccount, namespace, "default") is None:
            await asyncio.sleep(0.02)
    before: list[tuple[Step, int]] = []
    try:
        for step in steps:
            mine = await sides[0].send(step)
            try:
                theirs = await sides[1].send(step)
            except Unreachable as why:
                run.unanswered.append(f"no answer to {step}: {why}")
                return False
            run.steps += 1
            run.accepted += theirs.code < 300
            where = differences(mine.to_object(), theirs.to_object(), run.touched)
            if where:
                raise Differs(before, step, where)
            if step.writes and theirs.code < 300:
                for side in sides:
                    await side.settled(step.kind)
            before.append((step, theirs.code))
        return True
    finally:
        for side in sides:
            with suppress(ApiError):
                await side.client.delete(Namespace, "", namespace)


def fuzz(cluster: RealCluster, sequences: int, seed: int, seconds: float | None = None, *, wide: bool = False) -> Run:
    """Raises `Differs` with the simplest sequence that hypothesis found to differ."""
    run = Run(seed)
    deadline = time.monotonic() + seconds if seconds else None
    numbers = itertools.count()
    with asyncio.Runner() as runner:
        server = ApiServer()
        runner.run(server.__aenter__())
        ours, real = server.client(), connect(cluster.kubeconfig)
        for client in (ours, real):
            runner.run(install(client))

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=sequences, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
        )
        @hypothesis.given(strategies.data())
        def both_answer_alike(data: strategies.DataObject) -> None:
            if deadline and time.monotonic() > deadline and not run.differs:
                raise TimeIsUp
            chance = Chance(lambda n: data.draw(strategies.integers(0, n - 1)), wide=wide)
            steps = [Step(**wanted) for wanted in sequence(chance)]
            try:
                namespace = f"fuzz-{seed}-{next(numbers)}{'-wide' if wide else ''}"
                run.done += runner.run(play(steps, run, ours, real, namespace))
            except Differs:
                run.differs = True
                raise

        try:
            both_answer_alike()
        except TimeIsUp:
            pass
        finally:
            runner.run(real.close())
            runner.run(server.__aexit__(None, None, None))
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--wide", action="store_true", help="bodies are changed at random places, too")
    args = parser.parse_args()
    with RealCluster() as cluster:
        try:
            run = fuzz(cluster, args.sequences, args.seed, args.seconds, wide=args.wide)
        except Differs as difference:
            print(f"seed {args.seed}, the simplest sequence that differs:{difference}")
            return 1
    for line in run.unanswered:
        print(f"the real server did not answer: {line}")
    print(run.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
