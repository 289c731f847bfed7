"""Plugs the parts that stand on their own into a server: built-in kinds, custom resources, access, admission, documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from modelyard.kube.builtin import CustomResourceDefinition, ServiceAccount
from modelyard.kube.kinds import Kind
from modelyard.local.apiserver.admission.calls import ServiceResolver, WebhookClient
from modelyard.local.apiserver.admission.chain import AdmissionChain
from modelyard.local.apiserver.admission.configurations import Webhooks
from modelyard.local.apiserver.admission.releases import StorageReleases
from modelyard.local.apiserver.admission.webhooks import WebhookAdmission
from modelyard.local.apiserver.auth.authentication import TokenAuthenticator
from modelyard.local.apiserver.auth.bootstrap import AccessDefaults
from modelyard.local.apiserver.auth.escalation import EscalationGuard
from modelyard.local.apiserver.auth.rbac import Rbac
from modelyard.local.apiserver.auth.reviews import Reviews
from modelyard.local.apiserver.auth.token_secrets import TokenSecrets
from modelyard.local.apiserver.auth.tokens import ServiceAccountTokens
from modelyard.local.apiserver.builtin.service_network import ServiceNetwork
from modelyard.local.apiserver.builtin.strategies import BuiltinStrategies
from modelyard.local.apiserver.controllers.expiry import EventExpiry
from modelyard.local.apiserver.crds import CustomResources, DefinitionStrategy
from modelyard.local.apiserver.documents.door import ServerDocuments
from modelyard.local.apiserver.requests.field_validation import FieldChecks
from modelyard.local.apiserver.served import catalog
from modelyard.local.apiserver.served.resources import Strategy
from modelyard.local.apiserver.subresources.kubelet import HttpKubelet, Kubelet, NoKubelet
from modelyard.local.apiserver.subresources.pods import PodSubresources
from modelyard.local.apiserver.subresources.tokens import TokenRequests
from modelyard.local.apiserver.subresources.usage import UsageResources
from modelyard.local.apiserver.tables import Tables
from modelyard.local.kubelet.address import Address

if TYPE_CHECKING:
    from modelyard.local.apiserver.auth.jwt import SigningKey
    from modelyard.local.apiserver.server import ApiServer


class Part(Protocol):
    """A part with a life of its own."""

    @property
    def busy(self) -> bool: ...

    async def stop(self) -> None: ...


@dataclass
class Parts:
    """The parts that have a life of their own, in the order in which they start."""

    custom_resources: CustomResources
    access: AccessDefaults
    token_secrets: TokenSecrets
    storage: StorageReleases
    expiry: EventExpiry
    authenticator: TokenAuthenticator
    webhook_client: WebhookClient
    kubelet: Kubelet

    async def start(self) -> None:
        await self.access.start()
        self.custom_resources.start()
        self.token_secrets.start()
        self.storage.start()
        self.expiry.start()

    async def stop(self) -> None:
        for part in self._all():
            await part.stop()
        await self.webhook_client.close()
        await self.kubelet.close()

    @property
    def busy(self) -> bool:
        return any(part.busy for part in self._all())

    def _all(self) -> tuple[Part, ...]:
        return (self.expiry, self.storage, self.token_secrets, self.custom_resources, self.access)


def assemble(server: ApiServer, *, access_control: bool) -> Parts:
    folder = server.kubelet
    kubelet: Kubelet = NoKubelet() if folder is None else HttpKubelet(lambda: Address.read(folder))
    network = ServiceNetwork(server.services)
    network.attach(server.store)
    strategies = BuiltinStrategies(network)
    definitions = DefinitionStrategy()

    def strategy_of(kind: Kind, has_status: bool) -> Strategy:
        return definitions if kind == CustomResourceDefinition else strategies(kind, has_status)

    rbac = Rbac(server.store)
    key_file = server.directory / "pki" / "service-accounts.key" if server.directory is not None else None

    def signing_key() -> SigningKey:
        # Loaded with the first token: it takes several megabytes.
        from modelyard.local.apiserver.auth.jwt import SigningKey

        return SigningKey(key_file)

    tokens = ServiceAccountTokens(server.store, server.clock, signing_key)
    authenticator = TokenAuthenticator(rbac, tokens)
    hooks = server.hooks
    hooks.authenticator = authenticator
    if access_control:
        hooks.authorizer = rbac
    hooks.documents = ServerDocuments(server.registry, tokens)
    hooks.fields = FieldChecks()
    hooks.tables = Tables(server.clock)
    pods = PodSubresources(server.store, server.writes, server.deletions, kubelet, server.clock)
    handlers: catalog.Handlers = {
        **Reviews(hooks.authorizer, rbac, authenticator, tokens, server.clock).handlers(),
        **pods.handlers(),
        (ServiceAccount.resource, "token"): TokenRequests(server.store, tokens, server.clock).create,
    }
    if folder is not None:
        handlers |= pods.on_a_laptop()
    server.registry.add(*catalog.builtin_resources(strategy_of, handlers))
    if folder is not None:
        server.registry.add(*UsageResources(server.store, kubelet).resources(strategies))

    client = WebhookClient(ServiceResolver(server.store))
    webhooks = WebhookAdmission(Webhooks(server.store, server.registry), client)
    guard = EscalationGuard(rbac) if access_control else None
    hooks.admitter = AdmissionChain(server.store, webhooks, guard, server.clock)
    custom_resources = CustomResources(
        server.store, server.registry, server.ownership, server.clock, client.call, server.delete_all
    )
    access = AccessDefaults(server.store, server.registry, server.writes)
    token_secrets = TokenSecrets(
        server.store, server.registry, server.writes, server.deletions, tokens, server.root_certificate
    )
    storage = StorageReleases(server.store, server.registry, server.writes)
    return Parts(
        custom_resources, access, token_secrets, storage, EventExpiry(server.store), authenticator, client, kubelet
    )
