"""Scenarios C27 to C29 of the catalog: MCP servers and their tools, agents, the preview of a source."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
import yaml

from tests.unit.programs.catalog.conftest import AGENTS, MCP, Api, Json, Place
from tests.unit.programs.registry.conftest import Answer

FLAGS = ("verifiedSource", "secureEndpoint", "sast")


def server(name: str, *tools: str, good: bool = True) -> Json:
    return {
        "name": name,
        "version": "1",
        "provider": "p",
        "tags": ["t"],
        "tools": [
            {"name": tool, "description": "d", "parameters": [{"name": "x", "type": "string"}]} for tool in tools
        ],
        "securityIndicators": dict.fromkeys(FLAGS, good),
    }


async def serving(place: Place, *servers: Json) -> Api:
    source = {"id": "s", "type": "yaml", "labels": ["Red"], "properties": {"yamlCatalogPath": "s.yaml"}}
    safe = {"assetType": "mcp_servers", "filters": {flag: {"operator": "=", "value": True} for flag in FLAGS}}
    place.sources({"mcp_catalogs": [source], "namedQueries": {"safe": safe}})
    place.write("s.yaml", {"mcp_servers": list(servers)})
    return await place.start()


async def test_c27_mcp_servers_by_named_query_and_with_their_tools(place: Place) -> None:
    api = await serving(place, server("good", *(f"t{number:02}" for number in range(12))), server("bad", good=False))
    path = f"{MCP}/mcp_servers"
    assert await api.names(path, namedQuery="safe") == ["good"]
    unknown = await api.get(path, namedQuery="zz")
    assert unknown.status == 400
    assert "unknown named query" in unknown.message
    for limit in ("101", "-1", "x"):
        assert (await api.get(path, toolLimit=limit)).status == 400
    (plain,) = (await api.get(path, name="GOO")).body["items"]
    assert plain["toolCount"] == 12
    assert "tools" not in plain
    (full,) = (await api.get(path, name="good", includeTools="true", toolLimit=3)).body["items"]
    assert (full["toolCount"], [tool["name"] for tool in full["tools"]]) == (12, ["t00", "t01", "t02"])
    assert len((await api.get(path, name="good", includeTools="true")).body["items"][0]["tools"]) == 10
    assert sorted(await api.names(path, sourceLabel="red")) == ["bad", "good"]
    assert await api.names(
        path, filterQuery="tags = 't' AND sast = true AND deploymentMode != 'local' OR name = 'bad'"
    ) == ["bad"]
    options = (await api.get(f"{path}/filter_options")).body
    assert options["filters"]["tags"] == {"type": "string", "values": ["t"]}
    assert set(options["namedQueries"]["safe"]) == set(FLAGS)


async def test_c28_a_tool_has_an_address(place: Place) -> None:
    api = await serving(place, server("good", "look", "a/b"))
    (found,) = (await api.get(f"{MCP}/mcp_servers")).body["items"]
    path = f"{MCP}/mcp_servers/{found['id']}"
    assert (await api.get(path)).body["name"] == "good"
    assert (await api.get(f"{path}/tools/look")).body["accessType"] == "read_only"
    assert (await api.get(f"{path}/tools/a%2Fb")).body["name"] == "a/b"
    assert (await api.get(f"{path}/tools/none")).status == 404
    assert (await api.get(f"{MCP}/mcp_servers/abc")).status == 400
    assert (await api.get(f"{MCP}/mcp_servers/1")).status == 404
    assert await api.pages(f"{path}/tools", 1) == [["a/b"], ["look"]]


async def test_agents_have_templates_and_skills_are_empty(place: Place) -> None:
    source = {"id": "s", "type": "yaml", "properties": {"yamlCatalogPath": "s.yaml"}}
    place.sources({"agent_catalogs": [source], "skill_catalogs": [{"id": "k", "type": "git-skills-plugin"}]})
    agent = {"name": "helper", "framework": "f", "templates": [{"name": "t.py", "content": "print()"}]}
    place.write("s.yaml", {"agents": [agent, {"name": "other"}]})
    api = await place.start()
    assert await api.names(f"{AGENTS}/agents") == ["helper", "other"]
    (found,) = (await api.get(f"{AGENTS}/agents", q="HELP")).body["items"]
    templates = await api.get(f"{AGENTS}/agents/{found['id']}/artifacts")
    assert [(each["artifactType"], each["content"]) for each in templates.body["items"]] == [
        ("template-artifact", "print()")
    ]
    assert (await api.get(f"{AGENTS}/agents/abc")).status == 400
    assert (await api.get(f"{AGENTS}/agents/filter_options")).body["filters"]["framework"]["values"] == ["f"]
    skills = "/api/skill_catalog/v1alpha1/skills"
    assert (await api.get(skills)).body == {"items": [], "nextPageToken": "", "pageSize": 10, "size": 0}
    assert (await api.get(f"{skills}/1")).status == 404
    shown = (await api.get("/sources", assetType="skills")).body["items"]
    assert [each["status"] for each in shown] == ["error"]


async def preview(api: Api, path: str = "/sources/preview", **parts: Any) -> Answer:
    form = aiohttp.FormData()
    for name, content in parts.items():
        form.add_field(name, content if isinstance(content, str) else yaml.safe_dump(content), filename=f"{name}.yaml")
    return await api.send("POST", path, form)


async def test_c29_a_preview_says_what_a_source_would_list(place: Place) -> None:
    place.models({"name": "x"})
    secret = place.write("secret/s.yaml", "models: [{name: hidden}]")
    place.write("one/more.yaml", "models: [{name: beside}]")
    api = await place.start()
    config = {"id": "n", "type": "yaml", "includedModels": ["a*"], "unknown": 1}
    data = {"models": [{"name": "abc"}, {"name": "b"}, {"name": "Ax"}]}
    found = await preview(api, config=config, catalogData=data)
    assert found.status == 200
    assert found.body["items"] == [
        {"name": "abc", "included": True}, {"name": "Ax", "included": True}, {"name": "b", "included": False},
    ]  # fmt: skip
    assert found.body["summary"] == {"totalModels": 3, "includedModels": 2, "excludedModels": 1}
    assert found.body["assetType"] == "models"
    excluded = await preview(api, "/sources/preview?filterStatus=excluded", config=config, catalogData=data)
    assert excluded.names == ["b"]
    paged = await preview(api, "/sources/preview?pageSize=2", config=config, catalogData=data)
    assert (paged.names, bool(paged.body["nextPageToken"])) == (["abc", "Ax"], True)
    beside = await preview(api, config={"type": "yaml", "properties": {"yamlCatalogPath": "m.yaml"}})
    assert beside.names == ["x"]
    assert (await preview(api, "/sources/preview?filterStatus=zz", config=config)).status == 400
    assert (await preview(api, config={"type": "nope"}, catalogData=data)).status == 422
    assert (await preview(api, catalogData=data)).status == 400
    assert (await api.send("POST", "/sources/preview", b"{}")).status == 400
    assert (await preview(api, config="a: [", catalogData=data)).status == 422
    outside = place.directory.parent
    for path in (
        str(secret.parent.parent / ".." / "passwd"),
        "/etc/passwd",
        "../../../../etc/passwd",
        f"{outside}/x.yaml",
    ):
        answer = await preview(api, config={"type": "yaml", "properties": {"yamlCatalogPath": path}})
        assert answer.status == 422
        assert "root" not in answer.message


@pytest.mark.parametrize("asset", ["mcp_servers", "agents"])
async def test_c29_a_preview_of_other_assets_counts_them(place: Place, asset: str) -> None:
    place.models()
    api = await place.start()
    found = await preview(api, config={"type": "yaml", "assetType": asset}, catalogData={asset: [{"name": "a"}]})
    assert found.body["summary"] == {"totalAssets": 1, "includedAssets": 1, "excludedAssets": 0}
