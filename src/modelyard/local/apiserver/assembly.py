"""Plugs the parts that stand on their own into a server: built-in kinds, custom resources, access, admission, documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver import catalog
from modelyard.local.apiserver.auth.authentication import TokenAuthenticator
from modelyard.local.apiserver.auth.bootstrap import AccessDefaults
from modelyard.local.apiserver.auth.jwt import SigningKey
from modelyard.local.apiserver.auth.rbac import Rbac
from modelyard.local.apiserver.auth.reviews import Reviews
from modelyard.local.apiserver.auth.token_secrets import TokenSecrets
from modelyard.local.apiserver.auth.tokens import ServiceAccountTokens
from modelyard.local.apiserver.builtin.service_network import ServiceNetwork
from modelyard.local.apiserver.builtin.strategies import BuiltinStrategies
from modelyard.local.apiserver.conversion import WebhookFailure
from modelyard.local.apiserver.crds import CustomResources, DefinitionStrategy
from modelyard.local.apiserver.documents import ServerDocuments
from modelyard.local.apiserver.field_validation import FieldChecks
from modelyard.local.apiserver.resources import Strategy
from modelyard.local.apiserver.tables import Tables

if TYPE_CHECKING:
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
    authenticator: TokenAuthenticator

    async def start(self) -> None:
        await self.access.start()
        self.custom_resources.start()
        self.token_secrets.start()

    async def stop(self) -> None:
        for part in self._all():
            await part.stop()

    @property
    def busy(self) -> bool:
        return any(part.busy for part in self._all())

    def _all(self) -> tuple[Part, ...]:
        return (self.token_secrets, self.custom_resources, self.access)


def assemble(server: ApiServer, *, access_control: bool) -> Parts:
    network = ServiceNetwork(server.services)
    network.attach(server.store)
    strategies = BuiltinStrategies(network)
    definitions = DefinitionStrategy()

    def strategy_of(kind: Kind, has_status: bool) -> Strategy:
        return definitions if kind == CustomResourceDefinition else strategies(kind, has_status)

    rbac = Rbac(server.store)
    key_file = server.directory / "pki" / "service-accounts.key" if server.directory is not None else None
    tokens = ServiceAccountTokens(server.store, server.clock, lambda: SigningKey(key_file))
    authenticator = TokenAuthenticator(rbac, tokens)
    hooks = server.hooks
    hooks.authenticator = authenticator
    if access_control:
        hooks.authorizer = rbac
    hooks.documents = ServerDocuments(server.registry)
    hooks.fields = FieldChecks()
    hooks.tables = Tables(server.clock)
    handlers: catalog.Handlers = dict(Reviews(hooks.authorizer, rbac, authenticator, tokens, server.clock).handlers())
    server.registry.add(*catalog.builtin_resources(strategy_of, handlers))

    async def call_webhook(config: Object, review: Object, seconds: float) -> Object:
        raise WebhookFailure("webhooks cannot be called from here")

    custom_resources = CustomResources(
        server.store, server.registry, server.ownership, server.clock, call_webhook, server.delete_all
    )
    access = AccessDefaults(server.store, server.registry, server.writes)
    token_secrets = TokenSecrets(
        server.store, server.registry, server.writes, server.deletions, tokens, server.root_certificate
    )
    return Parts(custom_resources, access, token_secrets, authenticator)
