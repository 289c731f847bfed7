"""The Greeting custom resource: a text that is served by a few replicas, under a route where routes exist."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from modelyard.kube.crd import Column, Definition, Model, Resource, Version

GROUP = "demo.modelyard.dev"


class GreetingSpec(Model):
    text: Annotated[str, Meta(description="What to say.")] = ""
    replicas: Annotated[int, Meta(ge=0)] = 1
    host: Annotated[str | None, Meta(description="The host name of its route; none: no route.")] = None
    secret_name: Annotated[str | None, Meta(description="A Secret whose data the replicas get.")] = None


class GreetingStatus(Model):
    observed_generation: int | None = None
    available_replicas: int | None = None
    url: str | None = None
    conditions: Annotated[
        list[dict[str, Any]] | None,
        Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True}),
    ] = None


class Greeting(Resource):
    spec: GreetingSpec = msgspec.field(default_factory=GreetingSpec)
    status: GreetingStatus = msgspec.field(default_factory=GreetingStatus)


class OldGreetingSpec(Model):
    message: Annotated[str, Meta(description="What to say; `text` in v1.")] = ""
    replicas: Annotated[int, Meta(ge=0)] = 1
    host: str | None = None
    secret_name: str | None = None


class OldGreeting(Resource):
    spec: OldGreetingSpec = msgspec.field(default_factory=OldGreetingSpec)
    status: GreetingStatus = msgspec.field(default_factory=GreetingStatus)


GREETING = Definition(
    GROUP,
    "Greeting",
    "greetings",
    [
        Version("v1", Greeting, columns=[Column("Text", ".spec.text"), Column("URL", ".status.url")]),
        Version("v1alpha1", OldGreeting, storage=False),
    ],
    conversion_path="/convert",
)
