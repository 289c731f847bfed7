"""A cluster for a moment: the embedded API server with the platform's definitions and webhooks, in this process."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from modelyard.cli.installation import crds, webhooks
from modelyard.cli.packages import require_rules
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.times import utc_now
from modelyard.local.apiserver import ApiServer
from modelyard.local.platform import platform_crds
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.tls.certificates import issue, make_ca
from modelyard.runtime.tls.pairs import load
from modelyard.runtime.webhooks import ServiceAddress, Webhooks, WebhookServer
from modelyard.runtime.webhooks.access_review import ApiAccessReviews

_LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def offline_server(operators: Sequence[Operator], platform: str = "kubernetes") -> AsyncIterator[ApiServer]:
    """Admission and schema errors come from the same code as on a cluster. Nothing runs there and nothing is kept."""
    require_rules()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer())
        client = server.client()
        address, bundle = await _serve_webhooks(stack, operators, client)
        for crd in [*platform_crds(platform), *crds(operators, address, bundle)]:
            await client.create(builtin.CustomResourceDefinition, crd)
        await server.settle()
        for configuration in webhooks(operators, address, bundle):
            await client.create(_configuration_kind(configuration), configuration)
        yield server


async def _serve_webhooks(
    stack: AsyncExitStack, operators: Sequence[Operator], client: Client
) -> tuple[ServiceAddress, bytes]:
    """Webhooks on loopback, with a certificate that lives as long as the block."""
    hooks = [webhook for operator in operators for webhook in operator.webhooks]
    conversions = [conversion for operator in operators for conversion in operator.conversions]
    if not hooks and not conversions:
        return ServiceAddress("none", "none"), b""
    now = utc_now()
    ca = make_ca(now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, issue(ca, [_LOOPBACK], now))
    answers = Webhooks(hooks, conversions, access=ApiAccessReviews(client))
    server = WebhookServer(answers, context, host=_LOOPBACK, port=0)
    port = await server.start()
    stack.push_async_callback(server.stop)
    return ServiceAddress(url=f"https://{_LOOPBACK}:{port}"), ca.certificate


def _configuration_kind(configuration: Object) -> Kind:
    mutating = configuration["kind"] == builtin.MutatingWebhookConfiguration.kind
    return builtin.MutatingWebhookConfiguration if mutating else builtin.ValidatingWebhookConfiguration
