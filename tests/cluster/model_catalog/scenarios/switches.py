"""Scenarios 23-25 and 29-34: what can be switched, and what others bring."""

from __future__ import annotations

import base64

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import labels_of, resource_version_of
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME
from modelyard.operators.model_registry.config import Settings
from tests.cluster.model_catalog.scenarios.story import ALWAYS, DATABASE_KINDS, Book, Story
from tests.yard import ApiYard

book = Book()
switches = book.scenario
LISTS = ("default-catalog-sources", "model-catalog-sources", "mcp-catalog-sources")


@switches(23)
async def someone_else_may_bring_the_database(story: Story) -> None:
    await story.start(catalog_database=False)
    server = await story.server()
    assert server.env["PGHOST"] == DATABASE
    assert server.env["PGPASSWORD"]["secretKeyRef"]["name"] == DATABASE
    for kind in DATABASE_KINDS:
        await story.yard.absent(kind, DATABASE)


@switches(24)
async def a_database_given_away_is_not_touched(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.restart(catalog_database=False)
    await story.settled()
    edited = await story.yard.edit(
        builtin.Deployment, DATABASE, lambda deployment: deployment["spec"].update(replicas=2)
    )
    for kind in DATABASE_KINDS:
        await story.yard.get(kind, DATABASE)
    after = await story.yard.get(builtin.Deployment, DATABASE)
    assert resource_version_of(after) == resource_version_of(edited)


@switches(25)
async def credentials_by_hand_are_completed(story: Story) -> None:
    data = {"database-password": base64.b64encode(b"x").decode()}
    await story.yard.create(builtin.Secret, DATABASE, data=data)
    await story.start()
    await story.settled()
    expected = {"database-name": "model_catalog", "database-user": "catalog_user", "database-password": "x"}
    assert await story.credentials() == expected
    labels = labels_of(await story.yard.get(builtin.Secret, DATABASE))
    assert labels["component"] == DATABASE
    assert labels["app.kubernetes.io/created-by"] == "model-registry-operator"
    await story.yard.get(builtin.Deployment, DATABASE)


@switches(29)
async def an_old_cookie_goes(story: Story) -> None:
    await story.yard.create(builtin.Secret, "model-catalog-oauth-cookie-secret", data={})
    await story.start()
    await story.yard.gone(builtin.Secret, "model-catalog-oauth-cookie-secret")


@switches(30)
async def the_catalog_can_be_switched_off(story: Story) -> None:
    await story.start()
    await story.settled()
    password = await story.credentials()
    await story.restart(catalog=False)
    for kind, name in ALWAYS:
        if name not in LISTS:
            await story.yard.gone(kind, name)
    for name in LISTS:
        await story.yard.get(builtin.ConfigMap, name)
    for kind in (builtin.Deployment, builtin.Service, builtin.NetworkPolicy):
        await story.yard.gone(kind, DATABASE)
    # Upstream throws the data away; here it is kept, and used again, unless asked for.
    await story.restart()
    await story.settled()
    assert await story.credentials() == password
    await story.restart(catalog=False, catalog_delete_data=True)
    await story.yard.gone(builtin.Secret, DATABASE)
    if isinstance(story.yard, ApiYard):
        claim = await story.yard.find(builtin.PersistentVolumeClaim, DATABASE)
        assert claim is None or "deletionTimestamp" in claim["metadata"]
    else:
        await story.yard.gone(builtin.PersistentVolumeClaim, DATABASE)


@switches(31)
async def switched_off_it_makes_nothing(story: Story) -> None:
    await story.start(catalog=False)
    await story.yard.quiet()
    for kind, name in ALWAYS:
        await story.yard.absent(kind, name)


@switches(32)
async def switched_off_a_database_given_away_stays(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.restart(catalog=False, catalog_database=False)
    await story.yard.gone(builtin.Deployment, NAME)
    for kind in DATABASE_KINDS:
        await story.yard.get(kind, DATABASE)


@switches(33)
async def only_the_very_word_switches_it_off(story: Story) -> None:
    for word, on in (("False", True), ("", True), ("0", True), ("false", False)):
        assert Settings.from_environ({"ENABLE_MODEL_CATALOG": word}).catalog is on
    for word, on in (("True", True), ("", True), ("true", False)):
        assert Settings.from_environ({"SKIP_MODEL_CATALOG_DB_CREATION": word}).catalog_database is on


@switches(34)
async def without_a_namespace_it_rests(story: Story) -> None:
    # Upstream fails for ever.
    await story.start(namespace="")
    await story.yard.quiet()
    found: list[Object | None] = [await story.yard.find(kind, name) for kind, name in ALWAYS]
    assert found == [None] * len(ALWAYS)
