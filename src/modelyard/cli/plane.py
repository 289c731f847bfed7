"""The plane: the operators' controllers and webhooks, run in one process."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from modelyard.cli.installation import CERTIFICATE_SECRET, crds, metrics_services, webhook_service, webhooks
from modelyard.kube.builtin import (
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from modelyard.kube.client import Client
from modelyard.kube.times import utc_now
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.process.guard import Guard
from modelyard.runtime.process.health import HealthServer, Listening
from modelyard.runtime.process.lease import LeaseSettings
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.tls.certificates import (
    CertificateKeeper,
    MountedCertificates,
    SecretCertificates,
    Trust,
    service_names,
)
from modelyard.runtime.webhooks import ServiceAddress, Webhooks, WebhookServer
from modelyard.runtime.webhooks.access_review import ApiAccessReviews

log = logging.getLogger(__name__)

_CONFIGURATIONS = {kind.kind: kind for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)}


@dataclass(frozen=True)
class PlaneOptions:
    """How and where the plane runs."""

    home: str = "modelyard"
    """The namespace of the lease and of the serving certificate."""
    watch_namespace: str | None = None
    lease: bool = False
    webhook_host: str = "0.0.0.0"
    webhook_port: int = 9443
    webhook_names: Sequence[str] = ()
    """Names or addresses by which the API reaches the webhooks, beside those of their Service."""
    certificates: Path | None = None
    """A folder with tls.crt and tls.key; none: certificates of our own, kept in a Secret."""
    health: Listening | None = field(default_factory=Listening)
    metrics_host: str = "0.0.0.0"
    metrics_port: int | None = None
    """Where metrics are served over HTTPS, to those whom the API lets read them; none: in the clear, beside health."""


class Plane:
    """`async with Plane(...)`: runs until the block ends."""

    def __init__(
        self, client: Client, operators: Sequence[Operator], options: PlaneOptions, *, more: Sequence[Controller] = ()
    ) -> None:
        self._client = client
        self._operators = tuple(operators)
        self._options = options
        controllers = [c for operator in operators for c in operator.controllers]
        lease = LeaseSettings("modelyard", options.home) if options.lease else None
        background = [work for operator in operators for work in operator.background]
        self.manager = Manager(
            client,
            [*controllers, *more],
            namespace=options.watch_namespace,
            lease=lease,
            background=background,
            own_metrics=[metric for operator in operators for metric in operator.metrics],
        )
        self._stack = AsyncExitStack()
        self.webhook_port = 0
        self.metrics_port = 0
        self._certificates: SecretCertificates | MountedCertificates | None = None

    @property
    def serves_webhooks(self) -> bool:
        return any(operator.webhooks or operator.conversions for operator in self._operators)

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        try:
            options = self._options
            if self.serves_webhooks or options.metrics_port is not None:
                context = await self._serving_context()
                if self.serves_webhooks:
                    await self._serve_webhooks(context)
                if options.metrics_port is not None:
                    guarded = Listening(
                        options.metrics_host,
                        options.metrics_port,
                        health=False,
                        context=context,
                        guard=Guard(self._client),
                    )
                    self.metrics_port = await self._serve_health(guarded)
            if options.health is not None:
                await self._serve_health(replace(options.health, metrics=options.metrics_port is None))
            await self._stack.enter_async_context(self.manager)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def wait_ready(self) -> None:
        while self.manager.problems:
            await asyncio.sleep(0.02)

    async def _serve_health(self, endpoint: Listening) -> int:
        server = HealthServer(self.manager, endpoint)
        port = await server.start()
        self._stack.push_async_callback(server.stop)
        return port

    async def _serving_context(self) -> ssl.SSLContext:
        """TLS with a certificate for the names of our Services, kept fresh while the plane runs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        home = self._options.home
        services = [webhook_service(self._operators), *metrics_services(self._operators)]
        names = [name for service in services for name in service_names(service, home)]
        self._certificates = source = (
            MountedCertificates(self._options.certificates)
            if self._options.certificates is not None
            else SecretCertificates(
                self._client, home, CERTIFICATE_SECRET, [*names, *self._options.webhook_names], utc_now
            )
        )
        keeper = CertificateKeeper(self._client, source, context, self._trust())
        for problem in await keeper.refresh():
            log.warning("%s", problem)
        task = asyncio.create_task(keeper.run(), name="certificates")
        self._stack.push_async_callback(_ended, task)
        return context

    async def _serve_webhooks(self, context: ssl.SSLContext) -> None:
        hooks = [webhook for operator in self._operators for webhook in operator.webhooks]
        conversions = [conversion for operator in self._operators for conversion in operator.conversions]
        server = WebhookServer(
            Webhooks(
                hooks,
                conversions,
                reader=self.manager.reader,
                access=ApiAccessReviews(self._client),
                metrics=self.manager.metrics,
            ),
            context,
            host=self._options.webhook_host,
            port=self._options.webhook_port,
        )
        self.webhook_port = await server.start()
        self._stack.push_async_callback(server.stop)

    async def trust(self, address: ServiceAddress) -> None:
        """Installs webhook configurations and conversion stanzas that point straight at this process (outside a cluster)."""
        bundle = await self._bundle()
        for config in webhooks(self._operators, address, bundle):
            kind = _CONFIGURATIONS[config["kind"]]
            await self._client.apply(kind, config, field_manager="modelyard-plane", force=True)
        for crd in crds(self._operators, address, bundle):
            if "conversion" in crd["spec"]:
                await self._client.apply(CustomResourceDefinition, crd, field_manager="modelyard-up", force=True)

    async def _bundle(self) -> bytes:
        assert isinstance(self._certificates, SecretCertificates)
        return (await self._certificates.current()).bundle

    def _trust(self) -> list[Trust]:
        """Where the API's trust in our certificate is written down."""
        kinds = {kind.kind: kind for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)}
        made = [
            Trust(kinds[c["kind"]], c["metadata"]["name"]) for c in webhooks(self._operators, ServiceAddress("x", "x"))
        ]
        for operator in self._operators:
            for conversion in operator.conversions:
                definition = conversion.definition
                made.append(Trust(CustomResourceDefinition, f"{definition.plural}.{definition.group}"))
        return made


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
