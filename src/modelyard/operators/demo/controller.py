"""What the demo watches, and what should be true of a Greeting."""

from __future__ import annotations

from collections.abc import Iterable

from modelyard.kube.builtin import ClusterRole, ConfigMap, Deployment, HTTPRoute, Secret, Service
from modelyard.kube.conditions import condition
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import key_of, name_of, namespace_of, spec_of, status_of
from modelyard.operators.demo import children
from modelyard.operators.demo.api import GREETING, Greeting, GreetingStatus
from modelyard.runtime.controller import Controller, Owns, Reader, Watch
from modelyard.runtime.desired import Child, Desired, Hold, Live, Ownership, Policy
from modelyard.runtime.world import World


def greetings_using(secret: Object, reader: Reader) -> Iterable[Key]:
    for greeting in reader.list(GREETING.kind, namespace_of(secret)):
        if spec_of(greeting).get("secretName") == name_of(secret):
            yield key_of(greeting)


def reconcile(greeting: Greeting, world: World) -> Desired | Hold:
    secret = None
    if greeting.spec.secret_name:
        secret = world.get(Secret, greeting.namespace, greeting.spec.secret_name)
        if secret is None:
            return Hold("SecretMissing", f"secret {greeting.spec.secret_name} not found in {greeting.namespace}")
    objects: list[Child | Object] = [
        children.config(greeting),
        Child(children.key(greeting), policy=Policy.ONCE, generate=lambda: {"stringData": {"key": world.token(24)}}),
        children.deployment(greeting, secret),
        children.service(greeting),
        Child(children.reader_role(greeting), ownership=Ownership.TRACKED),
    ]
    if greeting.spec.host and world.serves(HTTPRoute):
        objects.append(children.route(greeting))
    return Desired(objects, status=status)


def status(greeting: Greeting, live: Live) -> GreetingStatus:
    found = status_of(live.get(Deployment, greeting.namespace, greeting.name) or {})
    available = int(found.get("availableReplicas") or 0)
    ready = available >= greeting.spec.replicas and not live.failures
    reason, message = (
        ("Available", "") if ready else ("Starting", f"{available} of {greeting.spec.replicas} are available")
    )
    if live.failures:
        reason, message = live.failures[0].reason, live.failures[0].message
    routed = live.get(HTTPRoute, greeting.namespace, greeting.name) is not None
    return GreetingStatus(
        observed_generation=greeting.metadata.generation,
        available_replicas=available,
        url=f"http://{greeting.spec.host}/" if routed else f"http://{greeting.name}.{greeting.namespace}.svc/",
        conditions=[condition("Ready", ready, reason, message, observed_generation=greeting.metadata.generation)],
    )


def greetings() -> Controller:
    controller = Controller(
        "greetings",
        GREETING,
        owns=[ConfigMap, Secret, Deployment, Service, ClusterRole, Owns(HTTPRoute, optional=True)],
        watches=[Watch(Secret, to=greetings_using)],
        finalizer="demo.modelyard.dev/finalizer",
    )
    controller.reconcile(reconcile)
    return controller
