"""The same random sequence of requests on our API server and on a real one: every answer must agree, but for what is masked.

`python -m tests.chaos.differential --sequences 500 --seed 1`
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modelyard.kube.builtin import ServiceAccount
from modelyard.kube.client import Client
from modelyard.kube.config import connect
from modelyard.kube.errors import ApiError, Unreachable
from modelyard.kube.kinds import Kind
from modelyard.local.apiserver import ApiServer
from tests.chaos import differential_objects as objects
from tests.real.cluster import RealCluster

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ADDRESS = re.compile(r"\b(10\.96|127\.\d+)\.\d+\.\d+\b")
_AGE = re.compile(r"\d+s")
_VERSION_TEXT = re.compile(r'(resourceVersion"?: ?"?|ResourceVersion in record \()\d+')


@dataclass(frozen=True)
class Step:
    """One request, as data; the same on both servers."""

    verb: str
    kind: Kind
    name: str = ""
    body: Any = None
    options: Mapping[str, str] = field(default_factory=dict)
    content: str = ""
    subresource: str = ""
    accept: str = "application/json"

    def __str__(self) -> str:
        body = msgspec.json.encode(self.body).decode() if self.body is not None else ""
        return f"{self.verb} {self.kind.kind} {self.name} {self.subresource} {self.accept} {dict(self.options)} {self.content} {body}"


@dataclass
class Answer:
    code: int
    body: Any


async def send(client: Client, namespace: str, step: Step, versions: dict[str, str]) -> Answer:
    """Performs a step; `update` sends the version that this server gave last, unless it is to be stale."""
    kind = step.kind
    path = kind.path(namespace if kind.namespaced else "", step.name if step.verb != "create" else "", step.subresource)
    body = step.body
    if (
        step.verb == "update"
        and isinstance(body, dict)
        and body.get("metadata", {}).get("resourceVersion") == "current"
    ):
        body = {
            **body,
            "metadata": {**body["metadata"], "resourceVersion": versions.get(f"{kind.kind}/{step.name}", "1")},
        }
    methods = {
        "create": "POST",
        "update": "PUT",
        "patch": "PATCH",
        "delete": "DELETE",
        "get": "GET",
        "list": "GET",
        "deletecollection": "DELETE",
    }
    headers = {"Content-Type": step.content or "application/json", "Accept": step.accept}
    if step.verb == "delete" and body and (body.get("preconditions") or {}).get("resourceVersion") == "current":
        body = {**body, "preconditions": {"resourceVersion": versions.get(f"{kind.kind}/{step.name}", "1")}}
    data = msgspec.json.encode(body) if body is not None else b""
    response = await client.transport.send(
        methods[step.verb], path, query=step.options, headers=headers, body=data, timeout=30
    )
    raw = await response.read()
    answer: Any = msgspec.json.decode(raw) if raw else None
    if isinstance(answer, dict) and response.status < 300 and answer.get("metadata", {}).get("name"):
        versions[f"{kind.kind}/{answer['metadata']['name']}"] = answer["metadata"].get("resourceVersion", "")
    return Answer(response.status, answer)


_MASKED = frozenset(
    (
        "ca.crt",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "time",
        "continue",
        "remainingItemCount",
    )
)


def _order(entry: Any) -> tuple[str, ...]:
    return tuple(str(entry.get(key)) for key in ("operation", "manager", "subresource", "apiVersion"))


def masked(value: Any, namespace: str) -> Any:
    """The same for two servers that did the same: ids, times, versions and addresses are taken out."""
    if isinstance(value, dict):
        made = {}
        for key, one in value.items():
            if key in _MASKED:
                made[key] = "*" if one else one
            elif (key in ("clusterIP", "nodePort", "healthCheckNodePort") and one not in ("None", "", 0)) or (
                key == "clusterIPs" and one != ["None"]
            ):
                made[key] = "*"
            elif key == "cells":
                made[key] = ["AGE" if _AGE.fullmatch(str(cell)) else masked(cell, namespace) for cell in one]
            elif key == "columnDefinitions":
                # The descriptions are Kubernetes' own prose.
                made[key] = [{**column, "description": ""} for column in one]
            elif key == "managedFields":
                # Sorted by time, which two servers do not share.
                made[key] = sorted((masked(entry, namespace) for entry in one), key=_order)
            else:
                made[key] = masked(one, namespace)
        return made
    if isinstance(value, list):
        return [masked(one, namespace) for one in value]
    if isinstance(value, str):
        text = value.replace(namespace, "NS")
        return _ADDRESS.sub("IP", _VERSION_TEXT.sub(r"\1*", _UID.sub("UID", _TIME.sub("TIME", text))))
    return value


EXPLAINED: tuple[tuple[str, str], ...] = (
    (r"spec is immutable after creation except resources", "the rest is a diff of Go structs, field names and all"),
    (r"illegal base64 data", "the message quotes the whole object as Go encodes it"),
    (r"field is immutable", "the message quotes the new value as Go encodes it"),
    (r"expected \w+, got \w+ evaluating rule|no such overload.* for rule", "rules on what is of a wrong kind and type"),
)
"""`(pattern of a difference, why it is one we keep)`."""


CUT_SHORT: tuple[tuple[str, str], ...] = (
    (
        r"kubernetes\.io/pvc-protection",
        "a controller beside the real server puts the finalizer back when it finds time",
    ),
)
"""`(pattern of a difference, why)`: what is compared no further, for the real server's state depends on its controllers."""


def unordered(status: Any) -> Any:
    """Go walks its maps in a random order, and with them the causes of a refusal: they are compared as a set."""
    if not isinstance(status, dict):
        return status
    begin, found, _ = str(status.get("message")).partition("failed to create typed patch object")
    if found and not begin:
        return {**status, "message": found}
    causes = sorted(
        (status.get("details") or {}).get("causes") or [], key=lambda c: (c.get("field", ""), c.get("message", ""))
    )
    if status.get("reason") == "Conflict" and causes:
        return {**status, "details": {**status["details"], "causes": causes}}
    if status.get("reason") != "Invalid":
        return status
    begin, found, rest = str(status.get("message")).partition(" is invalid: ")
    marks = [why for pattern, why in EXPLAINED if re.search(pattern, rest)]
    if marks:
        return {**status, "message": begin, "details": {**(status.get("details") or {}), "causes": marks}}
    text = begin + found + "".join(sorted(rest)) if found else begin
    return {**status, "message": text, "details": {**(status.get("details") or {}), "causes": causes}}


@dataclass
class Difference:
    sequence: int
    step: Step
    ours: Answer
    real: Answer
    where: list[str]

    def __str__(self) -> str:
        lines = [f"sequence {self.sequence}: {self.step}"[:1500]]
        lines += [f"   {line}"[:600] for line in self.where[:12]]
        return "\n".join(lines)


def paths(ours: Any, real: Any, at: str = "") -> list[str]:
    """Where two answers differ."""
    if isinstance(ours, dict) and isinstance(real, dict):
        found: list[str] = []
        for key in sorted(set(ours) | set(real)):
            if key not in ours:
                found.append(f"{at}.{key}: only real: {real[key]!r}")
            elif key not in real:
                found.append(f"{at}.{key}: only ours: {ours[key]!r}")
            else:
                found += paths(ours[key], real[key], f"{at}.{key}")
        return found
    if isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        return [line for i, (a, b) in enumerate(zip(ours, real, strict=True)) for line in paths(a, b, f"{at}[{i}]")]
    return [] if ours == real else [f"{at}: ours {ours!r} != real {real!r}"]


async def until(client: Client, kind: Kind, namespace: str, name: str, *, there: bool) -> None:
    """Waits for what controllers do on their own time: default accounts come, and what only the collector holds goes."""
    for _ in range(3000):  # the collector learns of a new kind within half a minute
        found = await client.find(kind, namespace, name)
        held = set((found or {}).get("metadata", {}).get("finalizers") or ()) - {
            "orphan",
            "foregroundDeletion",
            "kubernetes.io/pvc-protection",
        }
        if (found is not None) is there or (not there and held):
            return
        await asyncio.sleep(0.02)


async def run_sequence(
    number: int, seed: int, ours: Client, real: Client, left_out: list[str], *, wide: bool = False
) -> Difference | None:
    chance = random.Random(f"{seed}/{number}")
    namespace = f"fuzz-{seed}-{number}{'-wide' if wide else ''}"
    for client in (ours, real):
        await client.create(objects.NAMESPACE, {"metadata": {"name": namespace}})
        await until(client, ServiceAccount, namespace, "default", there=True)
    versions: tuple[dict[str, str], dict[str, str]] = ({}, {})
    steps = (objects.wide_sequence if wide else objects.sequence)(chance, namespace)
    try:
        for step in steps:
            step = Step(**step)
            try:
                theirs = await send(real, namespace, step, versions[1])
            except Unreachable as why:
                left_out.append(
                    f"sequence {number}: the real server did not answer {step.verb} {step.kind.kind}: {why}"
                )
                return None
            mine = await send(ours, namespace, step, versions[0])
            if step.verb == "delete" and mine.code == theirs.code == 200 and "dryRun" not in step.options:
                for client in (ours, real):
                    await until(client, step.kind, namespace, step.name, there=False)
            where = [] if mine.code == theirs.code else [f"code: ours {mine.code} != real {theirs.code}"]
            where += paths(unordered(masked(mine.body, namespace)), unordered(masked(theirs.body, namespace)))
            if any(re.search(pattern, line) for pattern, _ in CUT_SHORT for line in where):
                return None
            if where:
                return Difference(number, step, mine, theirs, where)
    finally:
        for client in (ours, real):
            try:
                await client.delete(objects.NAMESPACE, "", namespace)
            except ApiError:
                continue
    return None


async def fuzz(
    cluster: RealCluster, sequences: int, seed: int, seconds: float | None, stop_after: int, *, wide: bool = False
) -> tuple[int, list[Difference], list[str]]:
    differences: list[Difference] = []
    left_out: list[str] = []
    done = 0
    deadline = time.monotonic() + seconds if seconds else None
    real = connect(cluster.kubeconfig)
    async with ApiServer() as server:
        ours = server.client()
        try:
            for client in (ours, real):
                await objects.install(client)
            for number in range(sequences):
                if deadline and time.monotonic() > deadline:
                    break
                found = await run_sequence(number, seed, ours, real, left_out, wide=wide)
                done += 1
                if found is not None:
                    differences.append(found)
                    if len(differences) >= stop_after:
                        break
        finally:
            await real.close()
    return done, differences, left_out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--stop-after", type=int, default=10, help="differences to show at most")
    parser.add_argument("--wide", action="store_true", help="more kinds and rarer requests")
    args = parser.parse_args()
    with RealCluster() as cluster:
        done, differences, left_out = asyncio.run(
            fuzz(cluster, args.sequences, args.seed, args.seconds, args.stop_after, wide=args.wide)
        )
    for one in differences:
        print(one, end="\n\n")
    for line in left_out:
        print(f"left out: {line}")
    print(
        f"seed {args.seed}: {done} sequences, {len(differences)} with an unexplained difference, {len(left_out)} cut short by the real server"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
