"""The runtime on an API server that fills in defaults, enforces rules and collects garbage: the demo operator lives its life."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from greetings_operator.api import GREETING
from greetings_operator.controller import greetings
from greetings_operator.webhooks import CONVERSIONS, WEBHOOKS
from modelyard.kube.builtin import (
    ClusterRole,
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    MutatingWebhookConfiguration,
    Secret,
    Service,
    ValidatingWebhookConfiguration,
)
from modelyard.kube.client import Client
from modelyard.kube.crd import definition_of
from modelyard.kube.errors import AlreadyExists, ApiError, Invalid
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import utc_now
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.process.metrics import Metrics
from modelyard.runtime.tls.certificates import CertificateKeeper, SecretCertificates, Trust
from modelyard.runtime.webhooks import (
    ServiceAddress,
    Webhooks,
    WebhookServer,
    conversion_stanza,
    webhook_configurations,
)
from tests.cluster.conftest import Api

PATIENCE = 30.0


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def installed(client: Client) -> AsyncIterator[None]:
    """The demo's definition, without conversion; removed at the end, for the real server is shared."""
    crd = definition_of(GREETING)
    crd["spec"]["conversion"] = {"strategy": "None"}
    try:
        await client.create(CustomResourceDefinition, crd)
    except AlreadyExists:
        await client.patch(
            CustomResourceDefinition, "", GREETING.kind.resource, {"spec": {"conversion": crd["spec"]["conversion"]}}
        )

    async def served() -> bool:
        return GREETING.kind in await client.discover()

    await until(served)
    try:
        yield
    finally:
        await client.delete(CustomResourceDefinition, "", GREETING.kind.resource)

        async def gone() -> bool:
            return await client.find(CustomResourceDefinition, "", GREETING.kind.resource) is None

        await until(gone)


def greeting(namespace: str, version: str = "v1", **spec: object) -> Object:
    return {
        "apiVersion": f"{GREETING.group}/{version}",
        "kind": "Greeting",
        "metadata": {"name": "hi", "namespace": namespace},
        "spec": spec,
    }


def written(metrics: Metrics) -> float:
    """How many requests, other than reads, a plane has sent."""
    total = 0.0
    for family in metrics.registry.collect():
        if family.name == "rest_client_requests":
            total += sum(s.value for s in family.samples if s.name.endswith("_total") and s.labels["method"] != "GET")
    return total


async def test_a_greeting_lives_and_dies_and_a_restart_writes_nothing(api: Api) -> None:
    namespace = await api.namespace()
    user = api.client
    async with installed(user):
        async with Manager(user, [greetings()]) as plane:
            await user.create(GREETING.kind, greeting(namespace, text="Hello", replicas=2))

            async def complete() -> bool:
                found = await user.get(GREETING.kind, namespace, "hi")
                return bool((found.get("status") or {}).get("conditions"))

            await until(complete)
            await plane.idle(quiet=0.3)
            for kind, name in ((ConfigMap, "hi"), (Secret, "hi-key"), (Deployment, "hi"), (Service, "hi")):
                child = await user.get(kind, namespace, name)
                assert child["metadata"]["ownerReferences"][0]["name"] == "hi"
            await user.patch(Deployment, namespace, "hi", {"spec": {"replicas": 5}})

            async def repaired() -> bool:
                return bool((await user.get(Deployment, namespace, "hi"))["spec"]["replicas"] == 2)

            await until(repaired)
            await plane.idle(quiet=0.3)

        metrics = Metrics()
        async with Manager(user, [greetings()], metrics=metrics) as plane:
            await plane.idle(quiet=0.5)
            assert plane.engines[0].passes
            assert written(metrics) == 0
            await user.delete(GREETING.kind, namespace, "hi")

            async def gone() -> bool:
                # What is owned goes with the collector, which may take half a minute to hear of a new kind.
                role = await user.find(ClusterRole, "", f"greeting-{namespace}-hi")
                return role is None and await user.find(GREETING.kind, namespace, "hi") is None

            await until(gone)


async def test_webhooks_default_validate_and_convert_over_tls(api: Api) -> None:
    namespace = await api.namespace()
    user = api.client
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = SecretCertificates(user, namespace, "webhook-certs", ["127.0.0.1"], utc_now)
    targets = [
        Trust(MutatingWebhookConfiguration, "modelyard-mutating"),
        Trust(ValidatingWebhookConfiguration, "modelyard-validating"),
        Trust(CustomResourceDefinition, GREETING.kind.resource),
    ]
    keeper = CertificateKeeper(user, certificates, context, targets)
    assert await keeper.refresh() == []
    server = WebhookServer(Webhooks(WEBHOOKS, CONVERSIONS), context, host="127.0.0.1", port=0)
    port = await server.start()
    address = ServiceAddress(url=f"https://127.0.0.1:{port}")
    try:
        async with installed(user):
            stanza = conversion_stanza(CONVERSIONS[0], address)
            await user.patch(CustomResourceDefinition, "", GREETING.kind.resource, {"spec": {"conversion": stanza}})
            for configuration in webhook_configurations(WEBHOOKS, address):
                kind = _configuration_kind(configuration)
                await user.create(kind, configuration)
            assert await keeper.refresh() == []

            async def defaults() -> bool:
                try:
                    made = await user.create(GREETING.kind, greeting(namespace, text=" "), dry_run=True)
                except ApiError:
                    return False
                return bool(made["spec"]["text"] == "Hello")

            await until(defaults)
            with pytest.raises(Invalid, match="must be at most 10"):
                await user.create(GREETING.kind, greeting(namespace, text="x", replicas=11))
            await user.create(GREETING.kind.at("v1alpha1"), greeting(namespace, "v1alpha1", message="old words"))
            assert (await user.get(GREETING.kind, namespace, "hi"))["spec"]["text"] == "old words"
            old = await user.get(GREETING.kind.at("v1alpha1"), namespace, "hi")
            assert old["spec"]["message"] == "old words"
            for configuration in webhook_configurations(WEBHOOKS, address):
                await user.delete(_configuration_kind(configuration), "", configuration["metadata"]["name"])
            await user.delete(GREETING.kind, namespace, "hi")
    finally:
        await server.stop()


def _configuration_kind(configuration: Object) -> Kind:
    mutating = configuration["kind"] == "MutatingWebhookConfiguration"
    return MutatingWebhookConfiguration if mutating else ValidatingWebhookConfiguration
