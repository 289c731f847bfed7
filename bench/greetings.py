"""What bench-runtime reconciles: a resource with four children and a status, for whoever runs it."""

from __future__ import annotations

from dataclasses import replace

from greetings_operator import children
from greetings_operator.api import GREETING, Greeting, GreetingStatus
from modelyard.kube.builtin import ConfigMap, Deployment, Service, ServiceAccount
from modelyard.kube.conditions import condition
from modelyard.kube.kinds import Kind, Object
from modelyard.operators.parts import build
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired, Live
from modelyard.runtime.declaring.world import World

DEFINITION = replace(GREETING, versions=[GREETING.storage], conversion_path="")
KIND = DEFINITION.kind
MANAGER = "bench"
IMAGE = "docker.io/library/python:3.12"


def greeting(name: str, namespace: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": {"text": "Hello"}}


def kinds_and_objects(resource: Greeting) -> list[tuple[Kind, Object]]:
    account = build.obj(ServiceAccount, resource.name, resource.namespace, children.labels(resource))
    return [
        (ConfigMap, children.config(resource)),
        (ServiceAccount, account),
        (Service, children.service(resource)),
        (Deployment, children.deployment(resource, None, IMAGE)),
    ]


def status(resource: Greeting) -> GreetingStatus:
    generation = resource.metadata.generation
    ready = condition("Ready", False, "Starting", "0 of 1 are available", observed_generation=generation)
    return GreetingStatus(observed_generation=generation, available_replicas=0, conditions=[ready])


def controllers() -> list[Controller]:
    controller = Controller("greetings", DEFINITION, owns=[ConfigMap, ServiceAccount, Service, Deployment])

    @controller.reconcile
    def reconcile(resource: Greeting, world: World) -> Desired:
        def observed(greeting: Greeting, live: Live) -> GreetingStatus:
            return status(greeting)

        return Desired([child for _, child in kinds_and_objects(resource)], status=observed)

    return [controller]
