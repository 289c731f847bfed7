"""The life of two greetings of the demo operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from greetings_operator.api import GREETING
from greetings_operator.operator import operator
from modelyard.kube.builtin import ConfigMap, HTTPRoute, Secret, Service
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Object
from tests.chaos.subject import Subject
from tests.chaos.sweeps import Step, namespace

SHOP = "shop"


def put_secret(name: str, value: str) -> Step:
    async def step(client: Client) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SHOP}}
        await client.apply(Secret, body | {"data": {"word": value}}, field_manager="user", force=True)

    return step


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": SHOP, "labels": {"app.kubernetes.io/name": "greeting"}}, **fields}


GREETINGS = Subject(
    operator,
    kind=GREETING.kind,
    key=Key(SHOP, "hi"),
    spec={"text": "Hello"},
    served=[HTTPRoute],
    setup=[namespace(SHOP)],
    foreign=[
        (ConfigMap, named("bystander", data={"a": "b"})),
        (Service, named("someone", spec={"ports": [{"port": 1}], "selector": {"app.kubernetes.io/instance": "hi"}})),
    ],
    generated=["Secret hi-key", "Secret other-key"],
)
OTHER = replace(GREETINGS, key=Key(SHOP, "other"))

LIFE = GREETINGS.story(
    "a greeting's life",
    GREETINGS.made(replicas=2, secretName="word"),
    put_secret("word", "YQ=="),
    GREETINGS.made(replicas=3, secretName="word", host="hi.example"),
    OTHER.made(text="Servus"),
    put_secret("word", "Yg=="),
    GREETINGS.made(text="Bye", replicas=1),
    OTHER.deleted,
)
AGAIN = GREETINGS.story("a greeting that is made again")
"""All that a new operator needs for a first story: no steps of its own."""
