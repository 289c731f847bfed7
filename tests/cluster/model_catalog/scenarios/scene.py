"""What the catalog's scenarios have in common."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import resource_version_of
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME
from modelyard.operators.model_registry.catalog.controller import catalog_controller
from modelyard.operators.model_registry.catalog.sources import KEY, SOURCE_LABEL
from modelyard.operators.model_registry.config import Settings
from tests.cluster import stories
from tests.cluster.stories import Server
from tests.ground import ApiGround

CREATED_BY = {"app.kubernetes.io/created-by": "model-registry-operator"}
ALWAYS: tuple[tuple[Kind, str], ...] = (
    (builtin.ServiceAccount, NAME),
    (builtin.ConfigMap, "default-catalog-sources"),
    (builtin.ConfigMap, "model-catalog-sources"),
    (builtin.ConfigMap, "mcp-catalog-sources"),
    (builtin.ConfigMap, "agent-catalog-sources"),
    (builtin.Deployment, NAME),
    (builtin.Service, NAME),
    (builtin.Role, NAME),
    (builtin.RoleBinding, "model-catalog-authenticated"),
    (builtin.Role, "model-catalog-admin"),
    (builtin.ConfigMap, "model-catalog-kube-rbac-proxy-config"),
    (builtin.ClusterRoleBinding, "model-catalog-auth-delegator"),
)
DATABASE_KINDS = (
    builtin.Secret,
    builtin.PersistentVolumeClaim,
    builtin.Deployment,
    builtin.Service,
    builtin.NetworkPolicy,
)


@dataclass
class CatalogScene(stories.Scene):
    """A ground in which the catalog's controller is at work. It has no resource."""

    settings: Settings = field(default_factory=Settings)

    async def start(self, *served: Kind, **settings: Any) -> None:
        """Serves the optional kinds and starts the operator with these settings."""
        for kind in served:
            await self.ground.serve(kind)
        self.settings = Settings(**{"namespace": self.namespace, "default_domain": "example.com", **settings})
        await self.ground.start([catalog_controller(self.settings)])

    async def restart(self, **settings: Any) -> None:
        await self.ground.halt()
        await self.start(**settings)

    async def close(self) -> None:
        """Takes the catalog away: its cluster-scoped object has the same name in every test."""
        assert isinstance(self.ground, ApiGround)
        await self.restart(catalog=False, catalog_delete_data=True)
        await self.ground.quiet()

    async def source(self, name: str, **body: Any) -> Object:
        """A ConfigMap that its label makes a source."""
        return await self.ground.create(
            builtin.ConfigMap, name, **{"labels": SOURCE_LABEL, "data": {KEY: "catalogs: []\n"}, **body}
        )

    async def settled(self) -> None:
        await self.ground.until(builtin.Deployment, NAME)
        await self.ground.quiet()

    async def server(self, container: str = "catalog") -> Server:
        await self.settled()
        return Server(await self.ground.get(builtin.Deployment, NAME), container)

    async def database(self) -> Server:
        await self.settled()
        return Server(await self.ground.get(builtin.Deployment, DATABASE), "postgresql")

    async def paths(self) -> list[str]:
        return [arg.removeprefix("--catalogs-path=/data/") for arg in (await self.server()).args[1:-1]]

    async def text(self, name: str) -> str:
        found: str = (await self.ground.get(builtin.ConfigMap, name))["data"][KEY]
        return found

    async def credentials(self) -> dict[str, str]:
        """What the database's Secret holds; in memory it is kept as it was written."""
        secret = await self.ground.get(builtin.Secret, DATABASE)
        data = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
        return data | (secret.get("stringData") or {})

    async def versions(self) -> list[str]:
        """The resource versions of all that always exists."""
        return [resource_version_of(await self.ground.get(kind, name)) for kind, name in ALWAYS]


Scenario = Callable[[CatalogScene], Awaitable[None]]
Book = stories.Book[CatalogScene]
