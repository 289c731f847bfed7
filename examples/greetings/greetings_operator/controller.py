"""What the controller watches, and what should be true of a Greeting."""

from __future__ import annotations

from collections.abc import Iterable

from greetings_operator import children
from greetings_operator.api import GREETING, Greeting, GreetingStatus
from greetings_operator.config import Settings
from modelyard.kube.builtin import ClusterRole, ConfigMap, Deployment, HTTPRoute, Secret, Service
from modelyard.kube.conditions import condition, find_condition
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import key_of, name_of, namespace_of, spec_of, status_of
from modelyard.runtime.declaring.controller import Controller, Owns, Reader, Watch
from modelyard.runtime.declaring.desired import Child, Desired, Hold, Live, Ownership, Policy
from modelyard.runtime.declaring.operator_metrics import CacheGauge, counted_by
from modelyard.runtime.declaring.world import World


def greetings_using(secret: Object, reader: Reader) -> Iterable[Key]:
    for greeting in reader.list(GREETING.kind, namespace_of(secret)):
        if spec_of(greeting).get("secretName") == name_of(secret):
            yield key_of(greeting)


def reconcile_greeting(greeting: Greeting, world: World, settings: Settings) -> Desired | Hold:
    secret = None
    if greeting.spec.secret_name:
        secret = world.get(Secret, greeting.namespace, greeting.spec.secret_name)
        if secret is None:
            return Hold("SecretMissing", f"secret {greeting.spec.secret_name} not found in {greeting.namespace}")
    objects: list[Child | Object] = [
        children.config(greeting),
        Child(children.key(greeting), policy=Policy.ONCE, generate=lambda: {"stringData": {"key": world.token(24)}}),
        children.deployment(greeting, secret, settings.image),
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


def greetings(settings: Settings = Settings()) -> Controller:
    controller = Controller(
        "greetings",
        GREETING,
        owns=[ConfigMap, Secret, Deployment, Service, ClusterRole, Owns(HTTPRoute, optional=True)],
        watches=[Watch(Secret, to=greetings_using)],
        finalizer="demo.modelyard.dev/finalizer",
        settings=settings.live,
    )

    @controller.reconcile
    def reconcile(greeting: Greeting, world: World) -> Desired | Hold:
        return reconcile_greeting(greeting, world, settings.live.current(world))

    return controller


def readiness(greeting: Object) -> tuple[str]:
    """The label of the metric: what the condition Ready says."""
    found = find_condition(status_of(greeting).get("conditions"), "Ready")
    return (str((found or {}).get("status") or "Unknown"),)


METRICS = (
    CacheGauge(
        "greetings",
        "Greetings by what their condition Ready says",
        ["ready"],
        "greetings",
        counted_by(GREETING.kind, readiness),
        always=[("True",), ("False",)],
    ),
)
"""Computed from the caches whenever /metrics is read."""
