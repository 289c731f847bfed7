"""Scenarios 50, 60 and 62-64: what is about newer kinds, about discovery, and about servers that fail and users who may not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from modelyard.kube import builtin
from modelyard.kube.kinds import Kind
from modelyard.kube.objects import metadata_of
from modelyard.kube.transport import Around, Response, Sent, Transport
from modelyard.operators.model_registry.api import DEFINITIONS
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME, RESOURCES
from modelyard.operators.model_registry.catalog.controller import catalog_controller
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.operators.model_registry.operator import operator
from modelyard.operators.parts.platform import ClusterIngress
from modelyard.runtime.acting.cluster import declared_kinds
from modelyard.runtime.process.manager import Manager
from tests.cluster.model_registry.scenarios.scene import REGISTRY, Book, RegistryScene
from tests.cluster.stories import Server, may_get
from tests.ground import ApiGround, MemoryGround

book = Book()
newer = book.scenario
CATALOG = Kind("aihub.opendatahub.io", "v1alpha1", "Catalog", "catalogs")


# 50, 60: the newer Catalog is not part of this operator. Where someone serves it, it is nobody's business here.


def groups_of_the_operator() -> set[str]:
    """The groups of all that the operator defines, watches, owns or judges."""
    made = operator({"STORAGE_MIGRATION_SOURCE_VERSION": "v1alpha1", "STORAGE_MIGRATION_TARGET_VERSION": "v1beta1"})
    kinds = {kind for controller in made.controllers for kind in declared_kinds(controller)}
    kinds |= {kind for hook in made.webhooks for kind in hook.kinds}
    return {kind.group for kind in kinds} | {definition.group for definition in DEFINITIONS}


@newer(50)
async def a_newer_catalog_resource_is_not_read(scene: RegistryScene) -> None:
    assert not {"aihub.opendatahub.io", "components.platform.opendatahub.io"} & {d.group for d in DEFINITIONS}
    await scene.ground.serve(CATALOG)
    more = {"requests": {"cpu": "7", "memory": "7Gi"}}
    spec = {
        "resources": {"catalog": more, "postgres": more},
        "database": {"volume": {"sizeLimit": "10Gi"}},
    }
    made = await scene.ground.create(CATALOG, "catalog", spec=spec)
    async with _catalog(scene):
        server = Server(await scene.ground.until(builtin.Deployment, NAME), "catalog")
        assert server.container["resources"] == RESOURCES
        claim = await scene.ground.until(builtin.PersistentVolumeClaim, DATABASE)
        assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
        assert metadata_of(await scene.ground.get(CATALOG, "catalog")) == metadata_of(made)


@newer(60, needs_api=True)
async def nobody_judges_a_newer_catalog_resource(scene: RegistryScene) -> None:
    assert CATALOG.group not in groups_of_the_operator()
    await scene.ground.serve(CATALOG)
    await scene.start(hooks=True)
    elsewhere = f"{scene.namespace}-elsewhere"
    await scene.ground.create(builtin.Namespace, elsewhere)
    await scene.ground.create(CATALOG, "x")
    await scene.ground.create(CATALOG, "catalog", namespace=elsewhere)
    await scene.ground.edit(CATALOG, "x", lambda catalog: catalog.update(spec={}))


@asynccontextmanager
async def _catalog(scene: RegistryScene) -> AsyncIterator[None]:
    """The catalog at work; taken away afterwards, as its cluster-scoped object has the same name in every test."""
    settings = Settings(namespace=scene.namespace)
    await scene.ground.start([catalog_controller(settings)])
    yield
    await scene.ground.halt()
    off = Settings(namespace=scene.namespace, catalog=False, catalog_delete_data=True)
    await scene.ground.start([catalog_controller(off)])
    await scene.ground.gone(builtin.ClusterRoleBinding, "model-catalog-auth-delegator")
    await scene.ground.halt()


# 62: discovery


@dataclass(frozen=True)
class _Changed:
    """An answer with another body."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200

    async def read(self) -> bytes:
        return self.body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.body

    async def close(self) -> None:
        return


class _Silenced(Around):
    """An API whose server for some groups is down: discovery lists them as stale, with nothing in them."""

    def __init__(self, inner: Transport, groups: set[str]) -> None:
        super().__init__(inner)
        self._groups = groups

    async def pass_on(self, sent: Sent) -> Response:
        response = await super().pass_on(sent)
        if sent.path != "/apis":
            return response
        document = json.loads(await response.read())
        document["items"] = [item for item in document["items"] if item["metadata"]["name"] not in self._groups]
        stale = [{"version": "v1", "freshness": "Stale", "resources": []}]
        document["items"] += [{"metadata": {"name": group}, "versions": stale} for group in self._groups]
        return _Changed(json.dumps(document).encode(), response.headers)


@newer(62, needs_api=True)
async def nothing_is_done_before_the_platform_is_known(scene: RegistryScene) -> None:
    """Upstream ends at the start; this process waits, is not ready and says why, and needs no restart."""
    assert isinstance(scene.ground, ApiGround)
    for kind in (builtin.Route, ClusterIngress, builtin.Group):
        name = f"mr-{kind.plural}"
        silenced = {kind.group}
        client = scene.ground.client.through(partial(_Silenced, groups=silenced))
        controller = registry_controller(Settings(namespace=scene.namespace))
        async with Manager(client, [controller], discovery_poll=0.1) as manager:
            await manager.served.wait_known()
            await scene.create(name)
            said = f"controller modelregistry waits: whether {kind.resource} is served is not known"
            async with asyncio.timeout(60):
                while not any(problem.startswith(said) for problem in manager.problems):
                    await asyncio.sleep(0.02)
            assert manager.engine("modelregistry").passes == 0
            assert await scene.ground.find(builtin.Deployment, name) is None
            silenced.clear()  # Not found now: a platform without these kinds, for users an identity provider of its own.
            await scene.ground.until(builtin.Deployment, name)
            await scene.ground.client.delete(REGISTRY, scene.namespace, name)
            await scene.ground.gone(REGISTRY, name)
        scene.made.clear()


# 63, 64: with pods in tests/e2e/test_registry_servers.py; here what the operator has to do with it.


@newer(63)
async def a_server_that_does_not_come_up_is_told_in_its_own_words(scene: RegistryScene) -> None:
    await scene.start()
    await scene.create()
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
    await scene.pod(unready=("rest-container",), waiting=waiting)
    await scene.ground.until(builtin.Deployment, "mr")
    await scene.ground.set_status(builtin.Deployment, "mr", {"replicas": 1, "unavailableReplicas": 1})
    why = "rest-container: {waiting: {reason: CrashLoopBackOff, message: back-off 10s restarting failed container}}"
    message = f"Deployment is unavailable: pod mr-1 has unready containers [{why}]"
    await scene.condition("Available", status="False", reason="DeploymentUnavailable", message=message)
    if isinstance(scene.ground, MemoryGround):  # Elsewhere nobody keeps logs of a pod that never ran.
        log = "Check failed: absl::OkStatus() == status (OK vs. UNAUTHENTICATED: wrong password) cannot connect\n"
        scene.ground.cluster.written[scene.namespace, "mr-1", "rest-container"] = log
        said = "database configuration error: cannot connect: UNAUTHENTICATED: wrong password"
        await scene.condition("Available", status="False", reason="ConfigurationError", message=said)


@newer(64, needs_api=True)
async def whoever_has_the_role_may_use_the_registry(scene: RegistryScene) -> None:
    """The proxy asks the API about the caller's token, and whether the caller may `get` the Service."""
    assert isinstance(scene.ground, ApiGround)
    await scene.start()
    await scene.create(kubeRBACProxy={})
    server = await scene.server(container="kube-rbac-proxy")
    assert "--config-file=/etc/kube-rbac-proxy/config-file.yaml" in server.args
    binding = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "registry-user-mr"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]
    await scene.ground.create(builtin.RoleBinding, "ann", roleRef=binding, subjects=subjects)
    async with asyncio.timeout(60):
        while not await may_get(scene.ground.client, scene.namespace, "ann", "mr"):
            await asyncio.sleep(0.05)
    assert not await may_get(scene.ground.client, scene.namespace, "bob", "mr")
    assert not await may_get(scene.ground.client, scene.namespace, "ann", "other")
