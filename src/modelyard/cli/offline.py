"""A cluster for a moment: the embedded API server with the platform's definitions and webhooks, in this process."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from modelyard.cli.installation import crds, webhooks
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import metadata_of
from modelyard.kube.times import format_time, utc_now
from modelyard.local.apiserver import ApiServer
from modelyard.local.platform import platform_crds
from modelyard.runtime.certificates import issue, load, make_ca
from modelyard.runtime.operator import Operator
from modelyard.runtime.webhooks import ServiceAddress, Webhooks, WebhookServer

_LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def offline_server(operators: Sequence[Operator], platform: str = "kubernetes") -> AsyncIterator[ApiServer]:
    """Admission and schema errors come from the same code as on a cluster. Nothing runs there and nothing is kept."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer())
        client = server.client()
        address, bundle = await _serve_webhooks(stack, operators)
        for crd in [*platform_crds(platform), *crds(operators, address, bundle)]:
            await client.create(builtin.CustomResourceDefinition, crd)
        await server.settle()
        for configuration in webhooks(operators, address, bundle):
            await client.create(_configuration_kind(configuration), configuration)
        yield server


async def _serve_webhooks(stack: AsyncExitStack, operators: Sequence[Operator]) -> tuple[ServiceAddress, bytes]:
    """Webhooks on loopback, with a certificate that lives as long as the block."""
    hooks = [webhook for operator in operators for webhook in operator.webhooks]
    conversions = [conversion for operator in operators for conversion in operator.conversions]
    if not hooks and not conversions:
        return ServiceAddress("none", "none"), b""
    now = utc_now()
    ca = make_ca(now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, issue(ca, [_LOOPBACK], now))
    server = WebhookServer(Webhooks(hooks, conversions), context, host=_LOOPBACK, port=0)
    port = await server.start()
    stack.push_async_callback(server.stop)
    return ServiceAddress(url=f"https://{_LOOPBACK}:{port}"), ca.certificate


def _configuration_kind(configuration: Object) -> Kind:
    mutating = configuration["kind"] == builtin.MutatingWebhookConfiguration.kind
    return builtin.MutatingWebhookConfiguration if mutating else builtin.ValidatingWebhookConfiguration


async def play_workloads(client: Client) -> bool:
    """Reports every workload as ready, as its controllers would once its pods run; True if one was not."""
    played = False
    for kind, status_of in ((builtin.Deployment, _replicas), (builtin.StatefulSet, _replicas), (builtin.Job, _job)):
        for obj in (await client.list(kind)).items:
            wanted = status_of(kind, obj)
            current = obj.get("status") or {}
            if any(current.get(name) != value for name, value in wanted.items() if name not in _TIMES):
                meta = metadata_of(obj)
                await client.patch(kind, meta["namespace"], meta["name"], {"status": wanted}, subresource="status")
                played = True
    return played


_TIMES = frozenset(("startTime", "completionTime", "conditions"))


def _replicas(kind: Kind, obj: Object) -> Object:
    count = (obj.get("spec") or {}).get("replicas", 1)
    status: Object = {"observedGeneration": metadata_of(obj).get("generation", 1)}
    names = ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"]
    if kind == builtin.StatefulSet:
        names.append("currentReplicas")
    return status | dict.fromkeys(names, count or None)


def _job(kind: Kind, obj: Object) -> Object:
    now = format_time(utc_now())
    conditions = [
        {
            "type": type_,
            "status": "True",
            "reason": "CompletionsReached",
            "message": "",
            "lastTransitionTime": now,
            "lastProbeTime": now,
        }
        for type_ in ("SuccessCriteriaMet", "Complete")
    ]
    return {"succeeded": 1, "startTime": now, "completionTime": now, "conditions": conditions}
