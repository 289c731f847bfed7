"""Scenarios 23-25 and 29-34: what can be switched, and what others bring."""

from __future__ import annotations

import base64

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of, resource_version_of
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME
from modelyard.operators.model_registry.config import Settings
from tests.cluster.model_catalog.scenarios.scene import ALWAYS, DATABASE_KINDS, Book, CatalogScene
from tests.ground import ApiGround

book = Book()
switches = book.scenario
LISTS = ("default-catalog-sources", "model-catalog-sources", "mcp-catalog-sources", "agent-catalog-sources")


@switches(23)
async def someone_else_may_bring_the_database(scene: CatalogScene) -> None:
    await scene.start(catalog_database=False)
    server = await scene.server()
    assert server.env["PGHOST"] == DATABASE
    assert server.env["PGPASSWORD"]["secretKeyRef"]["name"] == DATABASE
    for kind in DATABASE_KINDS:
        await scene.ground.absent(kind, DATABASE)


@switches(24)
async def a_database_given_away_is_not_touched(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.restart(catalog_database=False)
    await scene.settled()
    edited = await scene.ground.edit(
        builtin.Deployment, DATABASE, lambda deployment: deployment["spec"].update(replicas=2)
    )
    for kind in DATABASE_KINDS:
        await scene.ground.get(kind, DATABASE)
    after = await scene.ground.get(builtin.Deployment, DATABASE)
    assert resource_version_of(after) == resource_version_of(edited)


@switches(25)
async def credentials_by_hand_are_completed(scene: CatalogScene) -> None:
    data = {"database-password": base64.b64encode(b"x").decode()}
    await scene.ground.create(builtin.Secret, DATABASE, data=data)
    await scene.start()
    await scene.settled()
    expected = {"database-name": "model_catalog", "database-user": "catalog_user", "database-password": "x"}
    assert await scene.credentials() == expected
    labels = labels_of(await scene.ground.get(builtin.Secret, DATABASE))
    assert labels["component"] == DATABASE
    assert labels["app.kubernetes.io/created-by"] == "model-registry-operator"
    await scene.ground.get(builtin.Deployment, DATABASE)


@switches(29)
async def an_old_cookie_goes(scene: CatalogScene) -> None:
    await scene.ground.create(builtin.Secret, "model-catalog-oauth-cookie-secret", data={})
    await scene.start()
    await scene.ground.gone(builtin.Secret, "model-catalog-oauth-cookie-secret")


@switches(30)
async def the_catalog_can_be_switched_off(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    password = await scene.credentials()
    await scene.restart(catalog=False)
    for kind, name in ALWAYS:
        if name not in LISTS:
            await scene.ground.gone(kind, name)
    for name in LISTS:
        await scene.ground.get(builtin.ConfigMap, name)
    for kind in (builtin.Deployment, builtin.Service, builtin.NetworkPolicy):
        await scene.ground.gone(kind, DATABASE)
    # Upstream throws the data away; here it is kept, and used again, unless asked for.
    await scene.restart()
    await scene.settled()
    assert await scene.credentials() == password
    await scene.restart(catalog=False, catalog_delete_data=True)
    await scene.ground.gone(builtin.Secret, DATABASE)
    if isinstance(scene.ground, ApiGround):
        claim = await scene.ground.find(builtin.PersistentVolumeClaim, DATABASE)
        assert claim is None or "deletionTimestamp" in claim["metadata"]
    else:
        await scene.ground.gone(builtin.PersistentVolumeClaim, DATABASE)


@switches(31)
async def switched_off_it_makes_nothing(scene: CatalogScene) -> None:
    await scene.start(catalog=False)
    await scene.ground.quiet()
    for kind, name in ALWAYS:
        await scene.ground.absent(kind, name)


@switches(32)
async def switched_off_a_database_given_away_stays(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.restart(catalog=False, catalog_database=False)
    await scene.ground.gone(builtin.Deployment, NAME)
    for kind in DATABASE_KINDS:
        await scene.ground.get(kind, DATABASE)


@switches(33)
async def only_the_very_word_switches_it_off(scene: CatalogScene) -> None:
    for word, on in (("False", True), ("", True), ("0", True), ("false", False)):
        assert Settings.from_environ({"ENABLE_MODEL_CATALOG": word}).catalog is on
    for word, on in (("True", True), ("", True), ("true", False)):
        assert Settings.from_environ({"SKIP_MODEL_CATALOG_DB_CREATION": word}).catalog_database is on


@switches(34)
async def without_a_namespace_it_rests(scene: CatalogScene) -> None:
    # Upstream fails for ever.
    await scene.start(namespace="")
    await scene.ground.quiet()
    found: list[Object | None] = [await scene.ground.find(kind, name) for kind, name in ALWAYS]
    assert found == [None] * len(ALWAYS)
