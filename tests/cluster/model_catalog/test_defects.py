"""Defects of upstream's catalog, by their number in its specification's section 12, that only an API server can show to be gone."""

from __future__ import annotations

import asyncio

from modelyard.kube import builtin
from modelyard.kube.errors import Unreachable
from modelyard.kube.objects import owners_of, uid_of
from modelyard.kube.transport import Around, Response, Sent
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME
from modelyard.operators.model_registry.catalog.controller import (
    PLATFORM_NAME,
    PlatformRegistry,
    catalog_controller,
)
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.process.manager import Manager
from modelyard.runtime.webhooks import AdmissionRequest, Denied, Webhook
from tests.cluster.model_catalog.scenarios.scene import CatalogScene
from tests.ground import ApiGround


class _NoPlatform(Around):
    """The platform's own resources cannot be read."""

    async def pass_on(self, sent: Sent) -> Response:
        if sent.path.startswith(f"/apis/{PlatformRegistry.group}/"):
            raise Unreachable("the platform does not answer")
        return await super().pass_on(sent)


async def test_q3_a_platform_that_cannot_be_read_is_not_one_that_is_not_there(scene: CatalogScene) -> None:
    assert isinstance(scene.ground, ApiGround)
    await scene.ground.serve(PlatformRegistry)
    await scene.ground.create(PlatformRegistry, PLATFORM_NAME)
    await scene.start()
    await scene.ground.until(builtin.Deployment, NAME, owners_of)
    await scene.settled()
    await scene.ground.halt()
    client = scene.ground.client.through(_NoPlatform)
    async with Manager(client, [catalog_controller(scene.settings)]) as manager:
        async with asyncio.timeout(60):
            while not any(PlatformRegistry.group in problem for problem in manager.problems):
                await asyncio.sleep(0.02)
        assert manager.engine("modelcatalog").passes == 0
    for kind, name in ((builtin.Deployment, NAME), (builtin.ServiceAccount, NAME), (builtin.Secret, DATABASE)):
        assert owners_of(await scene.ground.client.get(kind, scene.namespace, name))


async def test_q9_an_update_that_is_forbidden_deletes_nothing(scene: CatalogScene) -> None:
    assert isinstance(scene.ground, ApiGround)
    forbidding = True

    def forbid(request: AdmissionRequest) -> Denied | None:
        return Denied("not now", code=400) if request.namespace == scene.namespace and forbidding else None

    await scene.start()
    before = uid_of(await scene.ground.until(builtin.Deployment, NAME))
    await scene.settled()
    hook = Webhook(
        "forbid.example.com", "validating", "/forbid", forbid, kinds=(builtin.Deployment,), operations=("UPDATE",)
    )
    await scene.ground.serve_webhooks(Operator("forbidding", "", "", [], webhooks=[hook]))
    await scene.source("a-src")
    errors = scene.ground.manager.engine("modelcatalog").errors if scene.ground.manager else {}
    async with asyncio.timeout(60):
        while not any("not now" in error.message for error in errors.values()):
            await asyncio.sleep(0.02)
    assert uid_of(await scene.ground.client.get(builtin.Deployment, scene.namespace, NAME)) == before
    forbidding = False
    found = await scene.ground.until(builtin.Deployment, NAME, lambda d: "labeled-a-src" in str(d["spec"]))
    assert uid_of(found) == before


async def test_q21_after_the_platforms_end_the_catalog_goes_on_by_itself(scene: CatalogScene) -> None:
    await scene.ground.serve(PlatformRegistry)
    await scene.ground.create(PlatformRegistry, PLATFORM_NAME)
    await scene.start()
    before = await scene.ground.until(builtin.Deployment, NAME, owners_of)
    await scene.settled()
    lists = uid_of(await scene.ground.get(builtin.ConfigMap, "model-catalog-sources"))
    await scene.ground.delete(PlatformRegistry, PLATFORM_NAME)
    await scene.ground.until(builtin.Deployment, NAME, lambda d: uid_of(d) != uid_of(before) or not owners_of(d))
    await scene.ground.until(builtin.Deployment, NAME, lambda d: not owners_of(d))
    await scene.settled()
    assert uid_of(await scene.ground.get(builtin.ConfigMap, "model-catalog-sources")) == lists
    rested = await scene.versions()
    await scene.restart()
    await scene.settled()
    assert await scene.versions() == rested
