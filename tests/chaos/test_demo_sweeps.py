"""The demo operator under every fault: it ends as if nothing had happened, and touches nothing that is not its own."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.kube.builtin import ClusterRole, ConfigMap, Deployment, HTTPRoute, Secret, Service
from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.demo.api import GREETING
from modelyard.operators.demo.controller import greetings
from tests.chaos import sweeps
from tests.chaos.sweeps import Stage, Step, Story, namespace

SHOP = "shop"


def greet(name: str, **spec: Any) -> Step:
    async def step(client: Client) -> None:
        kind = GREETING.kind
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": SHOP}}
        await client.apply(kind, body | {"spec": spec}, field_manager="user", force=True)

    return step


def put_secret(name: str, value: str) -> Step:
    async def step(client: Client) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SHOP}}
        await client.apply(Secret, body | {"data": {"word": value}}, field_manager="user", force=True)

    return step


def end(name: str) -> Step:
    async def step(client: Client) -> None:
        await client.delete(GREETING.kind, SHOP, name)

    return step


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": SHOP, "labels": {"app.kubernetes.io/name": "greeting"}}, **fields}


LIFE = Story(
    name="a greeting's life",
    controllers=lambda: [greetings()],
    definitions=[GREETING],
    served=[HTTPRoute],
    setup=[namespace(SHOP)],
    foreign=[
        (ConfigMap, named("bystander", data={"a": "b"})),
        (Service, named("someone", spec={"ports": [{"port": 1}], "selector": {"app.kubernetes.io/instance": "hi"}})),
    ],
    steps=[
        greet("hi", text="Hello", replicas=2, secretName="word"),
        put_secret("word", "YQ=="),
        greet("hi", text="Hello", replicas=3, secretName="word", host="hi.example"),
        greet("other", text="Servus"),
        put_secret("word", "Yg=="),
        greet("hi", text="Bye", replicas=1),
        end("other"),
    ],
    generated=["Secret hi-key", "Secret other-key"],
)


@pytest.mark.parametrize(
    "sweep",
    [
        sweeps.crash_after_every_write,
        sweeps.lose_every_event,
        sweeps.every_watch_late,
        sweeps.random_errors,
        sweeps.partition,
        sweeps.permission_revoked,
        sweeps.settled_means_no_writes,
        sweeps.two_planes_one_lease,
    ],
    ids=lambda sweep: sweep.__name__,
)
def test_the_end_is_as_if_nothing_had_happened(sweep: Any) -> None:
    sweep(LIFE)


def test_children_that_someone_deletes_or_changes_come_back() -> None:
    async def owned(stage: Stage) -> list[tuple[Kind, Object]]:
        found: list[tuple[Kind, Object]] = []
        for kind in (ConfigMap, Deployment, Service, HTTPRoute, ClusterRole):
            for obj in (await stage.client.list(kind)).items:
                metadata = obj["metadata"]
                if metadata.get("ownerReferences") or "modelyard.dev/owner-kind" in (metadata.get("labels") or {}):
                    found.append((kind, obj))
        return found

    sweeps.children_deleted_or_stomped(LIFE, owned)
