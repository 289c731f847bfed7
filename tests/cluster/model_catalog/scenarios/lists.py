"""Scenarios 13-22: the lists, and who may edit them."""

from __future__ import annotations

from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.operators.model_registry.catalog.children import NAME
from modelyard.operators.model_registry.catalog.sources import KEY
from modelyard.operators.parts.platform import Auth
from tests.cluster.model_catalog.scenarios.story import CREATED_BY, Book, Story
from tests.cluster.stories import Server

book = Book()
lists = book.scenario
BINDING = "model-catalog-admin-binding"


def entry(id: str, **more: Any) -> Object:
    return {"name": id.title(), "id": id, "type": "yaml", **more}


async def user_list(story: Story, **sections: Any) -> None:
    data = {KEY: yaml.safe_dump(sections, sort_keys=False)}
    await story.yard.create(builtin.ConfigMap, "model-catalog-sources", data=data)


@lists(13)
async def our_list_is_kept_and_theirs_is_left(story: Story) -> None:
    await story.start()
    await story.settled()
    original = await story.text("default-catalog-sources")
    for name in ("default-catalog-sources", "mcp-catalog-sources"):
        await story.yard.edit(builtin.ConfigMap, name, lambda obj: obj["data"].update({KEY: "mcp_catalogs: null\n"}))
    await story.yard.until(builtin.ConfigMap, "default-catalog-sources", lambda obj: obj["data"][KEY] == original)
    assert await story.text("mcp-catalog-sources") == "mcp_catalogs: null\n"


@lists(14)
async def a_lost_list_comes_back_empty(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.yard.edit(builtin.ConfigMap, "model-catalog-sources", lambda obj: obj["data"].update({KEY: "a: b\n"}))
    await story.yard.delete(builtin.ConfigMap, "model-catalog-sources")
    await story.yard.until(builtin.ConfigMap, "model-catalog-sources", lambda obj: obj["data"][KEY] == "catalogs: []\n")


def volumes(deployment: Object) -> set[str]:
    return {name for name in Server(deployment).volumes if name.startswith("labeled-")}


@lists(15)
async def labelled_maps_are_sources(story: Story) -> None:
    await story.start()
    await story.source("z-src")
    await story.source("a-src")
    await story.yard.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-a-src", "labeled-z-src"})
    assert await story.paths() == [
        "default-sources/sources.yaml",
        "user-model-sources/sources.yaml",
        "user-mcp-sources/sources.yaml",
        "labeled-sources/a-src/sources.yaml",
        "labeled-sources/z-src/sources.yaml",
    ]
    server = await story.server()
    assert server.mounts["/data/labeled-sources/a-src"]["name"] == "labeled-a-src"
    assert server.args[-1] == "--performance-metrics=/shared-benchmark-data"


@lists(16)
async def sources_come_and_go(story: Story) -> None:
    await story.start()
    await story.source("a-src")
    await story.source("b-src", data={})
    await story.yard.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-a-src"})
    await story.yard.edit(builtin.ConfigMap, "b-src", lambda obj: obj.update(data={KEY: "catalogs: []"}))
    await story.yard.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-a-src", "labeled-b-src"})
    await story.yard.delete(builtin.ConfigMap, "a-src")
    await story.yard.until(builtin.Deployment, NAME, lambda d: volumes(d) == {"labeled-b-src"})
    await story.yard.edit(builtin.ConfigMap, "b-src", lambda obj: obj["metadata"].update(labels={}))
    await story.yard.until(builtin.Deployment, NAME, lambda d: volumes(d) == set())
    assert len(await story.paths()) == 3


@lists(17)
async def an_old_list_of_ours_goes(story: Story) -> None:
    name = "model-catalog-default-sources"
    await story.yard.create(builtin.ConfigMap, name, data={})
    await story.start()
    await story.settled()
    await story.yard.get(builtin.ConfigMap, name)
    await story.yard.edit(builtin.ConfigMap, name, lambda obj: obj["metadata"].update(labels=dict(CREATED_BY)))
    await story.yard.gone(builtin.ConfigMap, name)


@lists(18)
async def the_old_default_entry_is_taken_out(story: Story) -> None:
    await user_list(story, catalogs=[entry("default_catalog"), entry("custom", labels=["mine"]), entry("other")])
    await story.start()
    await story.settled()
    kept = yaml.safe_load(await story.text("model-catalog-sources"))
    assert kept == {"catalogs": [entry("custom", labels=["mine"]), entry("other")]}


@lists(19)
async def a_list_with_nothing_else_is_empty(story: Story) -> None:
    await user_list(story, model_catalogs=[entry("default_catalog")])
    mcp = {"mcp_catalogs": [entry("default_catalog")]}
    await story.yard.create(builtin.ConfigMap, "mcp-catalog-sources", data={KEY: yaml.safe_dump(mcp)})
    await story.start()
    await story.settled()
    assert await story.text("model-catalog-sources") == "{}\n"
    assert yaml.safe_load(await story.text("mcp-catalog-sources")) == mcp


@lists(20)
async def a_list_that_cannot_be_read_stays(story: Story) -> None:
    broken = "catalogs: [\n"
    await story.yard.create(builtin.ConfigMap, "model-catalog-sources", data={KEY: broken})
    await story.start()
    await story.settled()
    assert await story.text("model-catalog-sources") == broken
    await story.yard.get(builtin.Service, NAME)


def groups(binding: Object) -> list[str]:
    return [subject["name"] for subject in binding["subjects"]]


@lists(21)
async def the_platforms_admins_may_edit(story: Story) -> None:
    await story.yard.serve(Auth)
    await story.yard.create(Auth, "auth", spec={"adminGroups": ["odh-admins", "ops"]})
    await story.start()
    await story.yard.until(builtin.RoleBinding, BINDING, lambda binding: groups(binding) == ["odh-admins", "ops"])
    await story.yard.edit(Auth, "auth", lambda auth: auth.update(spec={"adminGroups": ["ops", "new"]}))
    await story.yard.until(builtin.RoleBinding, BINDING, lambda binding: groups(binding) == ["ops", "new"])
    await story.yard.edit(Auth, "auth", lambda auth: auth.update(spec={"adminGroups": []}))
    await story.yard.gone(builtin.RoleBinding, BINDING)
    await story.yard.edit(Auth, "auth", lambda auth: auth.update(spec={"adminGroups": ["ops"]}))
    await story.yard.until(builtin.RoleBinding, BINDING)
    await story.yard.delete(Auth, "auth")
    await story.yard.gone(builtin.RoleBinding, BINDING)
    await story.yard.get(builtin.Role, "model-catalog-admin")


@lists(22)
async def without_admins_there_is_no_binding(story: Story) -> None:
    await story.start()
    await story.settled()
    await story.yard.absent(builtin.RoleBinding, BINDING)
    await story.yard.serve(Auth)
    await story.yard.create(Auth, "auth", spec={})
    await story.yard.absent(builtin.RoleBinding, BINDING)
