"""Plugs the parts that stand on their own into a server: built-in kinds, custom resources, access, admission, documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver import catalog
from modelyard.local.apiserver.builtin.strategies import BuiltinStrategies
from modelyard.local.apiserver.conversion import WebhookFailure
from modelyard.local.apiserver.crds import CustomResources, DefinitionStrategy
from modelyard.local.apiserver.documents import ServerDocuments
from modelyard.local.apiserver.field_validation import FieldChecks
from modelyard.local.apiserver.resources import Strategy
from modelyard.local.apiserver.tables import Tables

if TYPE_CHECKING:
    from modelyard.local.apiserver.server import ApiServer


@dataclass
class Parts:
    """The parts that have a life of their own."""

    custom_resources: CustomResources
    handlers: catalog.Handlers = field(default_factory=dict)

    async def start(self) -> None:
        self.custom_resources.start()

    async def stop(self) -> None:
        await self.custom_resources.stop()

    @property
    def busy(self) -> bool:
        return self.custom_resources.busy


def assemble(server: ApiServer, *, access_control: bool) -> Parts:
    strategies = BuiltinStrategies()
    definitions = DefinitionStrategy()

    def strategy_of(kind: Kind, has_status: bool) -> Strategy:
        return definitions if kind == CustomResourceDefinition else strategies(kind, has_status)

    server.hooks.documents = ServerDocuments(server.registry)
    server.hooks.fields = FieldChecks()
    server.hooks.tables = Tables(server.clock)
    handlers: catalog.Handlers = {}
    server.registry.add(*catalog.builtin_resources(strategy_of, handlers))

    async def call_webhook(config: Object, review: Object, seconds: float) -> Object:
        raise WebhookFailure("webhooks cannot be called from here")

    custom_resources = CustomResources(
        server.store, server.registry, server.ownership, server.clock, call_webhook, server.delete_all
    )
    return Parts(custom_resources, handlers)
