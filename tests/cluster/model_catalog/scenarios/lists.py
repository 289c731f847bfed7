"""Scenarios 13-22: the lists, and who may edit them."""

from __future__ import annotations

from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.model_registry.catalog.children import NAME
from modelyard.operators.model_registry.catalog.sources import KEY
from modelyard.operators.parts.platform import Auth
from tests.cluster.model_catalog.scenarios.scene import CREATED_BY, Book, CatalogScene
from tests.cluster.stories import Server

book = Book()
lists = book.scenario
BINDING = "model-catalog-admin-binding"


def entry(id: str, **more: Any) -> Object:
    return {"name": id.title(), "id": id, "type": "yaml", **more}


async def user_list(scene: CatalogScene, **sections: Any) -> None:
    data = {KEY: yaml.safe_dump(sections, sort_keys=False)}
    await scene.ground.create(builtin.ConfigMap, "model-catalog-sources", data=data)


@lists(13)
async def our_list_is_kept_and_theirs_is_left(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    original = await scene.text("default-catalog-sources")
    for name in ("default-catalog-sources", "mcp-catalog-sources", "agent-catalog-sources"):
        await scene.ground.edit(builtin.ConfigMap, name, lambda obj: obj["data"].update({KEY: "mcp_catalogs: null\n"}))
    await scene.ground.until(builtin.ConfigMap, "default-catalog-sources", lambda obj: obj["data"][KEY] == original)
    for name in ("mcp-catalog-sources", "agent-catalog-sources"):
        assert await scene.text(name) == "mcp_catalogs: null\n"


@lists(14)
async def a_lost_list_comes_back_empty(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.ground.edit(builtin.ConfigMap, "model-catalog-sources", lambda obj: obj["data"].update({KEY: "a: b\n"}))
    await scene.ground.delete(builtin.ConfigMap, "model-catalog-sources")
    await scene.ground.until(
        builtin.ConfigMap, "model-catalog-sources", lambda obj: obj["data"][KEY] == "catalogs: []\n"
    )


def volumes(deployment: Object) -> set[str]:
    return {name for name in Server(deployment).volumes if name.startswith("labeled-")}


@lists(15)
async def labelled_maps_are_sources(scene: CatalogScene) -> None:
    await scene.start()
    await scene.source("z-src")
    await scene.source("a-src")
    await scene.ground.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-a-src", "labeled-z-src"})
    assert await scene.paths() == [
        "default-sources/sources.yaml",
        "user-model-sources/sources.yaml",
        "user-mcp-sources/sources.yaml",
        "user-agent-sources/sources.yaml",
        "labeled-sources/a-src/sources.yaml",
        "labeled-sources/z-src/sources.yaml",
    ]
    server = await scene.server()
    assert server.mounts["/data/labeled-sources/a-src"]["name"] == "labeled-a-src"
    assert server.args[-1] == "--performance-metrics=/shared-benchmark-data"


@lists(16)
async def sources_come_and_go(scene: CatalogScene) -> None:
    await scene.start()
    await scene.source("a-src")
    await scene.source("b-src", data={})
    await scene.ground.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-a-src"})
    await scene.ground.edit(builtin.ConfigMap, "b-src", lambda obj: obj.update(data={KEY: "catalogs: []"}))
    await scene.ground.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-a-src", "labeled-b-src"})
    await scene.ground.delete(builtin.ConfigMap, "a-src")
    await scene.ground.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-b-src"})
    await scene.ground.edit(builtin.ConfigMap, "b-src", lambda obj: obj["metadata"].update(labels={}))
    await scene.ground.until(builtin.Deployment, NAME, lambda d: volumes(d) == set())
    assert len(await scene.paths()) == 4


@lists(17)
async def an_old_list_of_ours_goes(scene: CatalogScene) -> None:
    name = "model-catalog-default-sources"
    await scene.ground.create(builtin.ConfigMap, name, data={})
    await scene.start()
    await scene.settled()
    await scene.ground.get(builtin.ConfigMap, name)
    await scene.ground.edit(builtin.ConfigMap, name, lambda obj: obj["metadata"].update(labels=dict(CREATED_BY)))
    await scene.ground.gone(builtin.ConfigMap, name)


@lists(18)
async def the_old_default_entry_is_taken_out(scene: CatalogScene) -> None:
    await user_list(scene, catalogs=[entry("default_catalog"), entry("custom", labels=["mine"]), entry("other")])
    await scene.start()
    await scene.settled()
    kept = yaml.safe_load(await scene.text("model-catalog-sources"))
    assert kept == {"catalogs": [entry("custom", labels=["mine"]), entry("other")]}


@lists(19)
async def a_list_with_nothing_else_is_empty(scene: CatalogScene) -> None:
    await user_list(scene, model_catalogs=[entry("default_catalog")])
    mcp = {"mcp_catalogs": [entry("default_catalog")]}
    await scene.ground.create(builtin.ConfigMap, "mcp-catalog-sources", data={KEY: yaml.safe_dump(mcp)})
    await scene.start()
    await scene.settled()
    assert await scene.text("model-catalog-sources") == "{}\n"
    assert yaml.safe_load(await scene.text("mcp-catalog-sources")) == mcp


@lists(20)
async def a_list_that_cannot_be_read_stays(scene: CatalogScene) -> None:
    broken = "catalogs: [\n"
    await scene.ground.create(builtin.ConfigMap, "model-catalog-sources", data={KEY: broken})
    await scene.start()
    await scene.settled()
    assert await scene.text("model-catalog-sources") == broken
    await scene.ground.get(builtin.Service, NAME)


def groups(binding: Object) -> list[str]:
    return [subject["name"] for subject in binding["subjects"]]


@lists(21)
async def the_platforms_admins_may_edit(scene: CatalogScene) -> None:
    await scene.ground.serve(Auth)
    await scene.ground.create(Auth, "auth", spec={"adminGroups": ["odh-admins", "ops"]})
    await scene.start()
    await scene.ground.until(builtin.RoleBinding, BINDING, lambda binding: groups(binding) == ["odh-admins", "ops"])
    await scene.ground.edit(Auth, "auth", lambda auth: auth.update(spec={"adminGroups": ["ops", "new"]}))
    await scene.ground.until(builtin.RoleBinding, BINDING, lambda binding: groups(binding) == ["ops", "new"])
    await scene.ground.edit(Auth, "auth", lambda auth: auth.update(spec={"adminGroups": []}))
    await scene.ground.gone(builtin.RoleBinding, BINDING)
    await scene.ground.edit(Auth, "auth", lambda auth: auth.update(spec={"adminGroups": ["ops"]}))
    await scene.ground.until(builtin.RoleBinding, BINDING)
    await scene.ground.delete(Auth, "auth")
    await scene.ground.gone(builtin.RoleBinding, BINDING)
    await scene.ground.get(builtin.Role, "model-catalog-admin")


@lists(22)
async def without_admins_there_is_no_binding(scene: CatalogScene) -> None:
    await scene.start()
    await scene.settled()
    await scene.ground.absent(builtin.RoleBinding, BINDING)
    await scene.ground.serve(Auth)
    await scene.ground.create(Auth, "auth", spec={})
    await scene.ground.absent(builtin.RoleBinding, BINDING)
