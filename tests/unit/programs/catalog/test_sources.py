"""Scenarios C1 to C10 of the catalog: sources, their files, and edits of both while the server runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelyard.programs.catalog.documents import BadDocument
from tests.unit.programs.catalog.conftest import Api, Json, Place, settled


def source(identity: str, **more: object) -> Json:
    return {
        "id": identity,
        "name": identity.upper(),
        "type": "yaml",
        "properties": {"yamlCatalogPath": f"{identity}.yaml"},
        **more,
    }


def models(*names: str) -> Json:
    return {"models": [{"name": name} for name in names]}


async def becomes(api: Api, *names: str) -> None:
    async def does() -> bool:
        return await api.names() == list(names)

    await settled(does, f"the models are {names}")


async def reports(api: Api, identity: str, status: str, said: str = "") -> None:
    async def does() -> bool:
        found = await api.source(identity)
        return found.get("status") == status and said in found.get("error", "")

    await settled(does, f"source {identity} is {status}")


async def test_c01_a_later_file_overrides_field_by_field(place: Place) -> None:
    place.sources({"model_catalogs": [source("b", enabled=False)]}, "one/sources.yaml")
    place.write("one/b.yaml", models("m"))
    place.sources({"model_catalogs": [{"id": "b", "enabled": True, "name": "B2"}]}, "two/sources.yaml")
    api = await place.start()
    assert await api.names() == ["m"]
    assert (await api.source("b"))["name"] == "B2"


async def test_c02_patterns_include_and_exclude_whole_names_in_any_case(place: Place) -> None:
    place.sources({"model_catalogs": [source("a", includedModels=["x/*", "Y*"], excludedModels=["x/bad*"])]})
    place.write("a.yaml", models("x/one", "X/Two", "yes", "x/bad1", "zed"))
    api = await place.start()
    assert await api.names() == ["x/one", "X/Two", "yes"]
    shown = await api.source("a")
    assert (shown["includedModels"], shown["excludedModels"]) == (["x/*", "Y*"], ["x/bad*"])


async def test_c03_an_edited_file_is_served_without_a_restart(place: Place) -> None:
    place.sources({"model_catalogs": [source("a")]})
    place.write("a.yaml", models("old"))
    api = await place.start()
    assert await api.names() == ["old"]
    place.write("a.yaml", models("new"))
    await becomes(api, "new")


async def test_c03_the_swap_of_a_config_map_is_seen(place: Place) -> None:
    """The kubelet writes a new directory and swaps the link `..data`; the file itself is a link through it."""
    volume = place.directory / "volume"
    for number, name in enumerate(("old", "new")):
        (volume / f"..{number}").mkdir(parents=True)
        (volume / f"..{number}" / "a.yaml").write_text(f"models: [{{name: {name}}}]")
    (volume / "..data").symlink_to("..0")
    (volume / "a.yaml").symlink_to(Path("..data") / "a.yaml")
    place.sources({"model_catalogs": [source("a", properties={"yamlCatalogPath": "volume/a.yaml"})]})
    api = await place.start()
    assert await api.names() == ["old"]
    (volume / "..next").symlink_to("..1")
    os.replace(volume / "..next", volume / "..data")
    await becomes(api, "new")


async def test_c04_a_file_with_an_unknown_key_leaves_what_was_served(place: Place) -> None:
    place.sources({"model_catalogs": [source("a")]})
    place.write("a.yaml", models("m"))
    api = await place.start()
    place.write("a.yaml", {"models": [{"name": "m"}, {"name": "n", "nonsense": 1}]})
    await reports(api, "a", "error", "nonsense")
    assert await api.names() == ["m"]
    assert (await api.get("/readyz")).body["status"] == "ready"


async def test_c05_one_bad_model_is_left_out_and_named(place: Place) -> None:
    place.models({"name": "good"}, {"name": "bad", "artifacts": [{"uri": "ftp://x"}]})
    api = await place.start()
    assert await api.names() == ["good"]
    shown = await api.source("a")
    assert shown["status"] == "partially-available"
    assert "'bad'" in shown["error"]
    assert "'ftp'" in shown["error"]


async def test_c06_an_invalid_configuration_changes_nothing_and_is_told(place: Place) -> None:
    path = place.sources({"model_catalogs": [source("a")]})
    place.write("a.yaml", models("m"))
    api = await place.start()
    good = path.read_text()
    place.sources("model_catalogs: [{id: a, nonsense: 1}]\nlabels: [{name: x}]")
    await reports(api, "a", "error", "nonsense")
    assert await api.names() == ["m"]
    assert (await api.get("/labels")).body["items"] == [], "all or nothing"
    ready = await api.get("/readyz")
    assert (ready.status, ready.body["status"]) == (200, "ready")
    assert "nonsense" in ready.body["details"]["configuration"]
    place.sources(good)
    await reports(api, "a", "available")
    assert "details" not in (await api.get("/readyz")).body


async def test_c07_a_source_that_is_off_or_gone_loses_its_models(place: Place) -> None:
    place.sources({"model_catalogs": [source("a"), source("b")]})
    place.write("a.yaml", models("m"))
    place.write("b.yaml", models("n"))
    api = await place.start()
    assert await api.names() == ["m", "n"]
    place.sources({"model_catalogs": [source("a", enabled=False), source("b")]})
    await becomes(api, "n")
    assert (await api.source("a"))["status"] == "disabled"
    place.sources({"model_catalogs": [source("b")]})
    await settled(lambda: _gone(api, "a"), "the source is gone")


async def _gone(api: Api, identity: str) -> bool:
    return not await api.source(identity)


async def test_c08_a_source_that_cannot_be_read_says_why_and_harms_no_other(place: Place) -> None:
    wrong = [
        source("nope", type="nope"),
        source("rhec", type="rhec"),
        {"id": "none"},
        {"id": "pathless", "type": "yaml"},
    ]
    place.sources({"model_catalogs": [*wrong, source("lost"), source("a")]})
    place.write("a.yaml", models("m"))
    api = await place.start()
    assert await api.names() == ["m"]
    said = {item["id"]: (item["status"], item.get("error", "")) for item in (await api.get("/sources")).body["items"]}
    assert said["a"] == ("available", "")
    for identity, words in {
        "nope": "'nope' not registered",
        "rhec": "'rhec' not registered",
        "none": "no type",
        "pathless": "yamlCatalogPath",
        "lost": "No such file",
    }.items():
        assert said[identity][0] == "error"
        assert words in said[identity][1]


@pytest.mark.parametrize(
    "content",
    [
        {"model_catalogs": [{"id": "a"}], "mcp_catalogs": [{"id": "a"}]},
        {"model_catalogs": [{"id": "a"}, {"id": "a"}]},
    ],
)
async def test_c09_an_id_twice_refuses_the_whole_file(place: Place, content: Json) -> None:
    place.sources(content)
    with pytest.raises(BadDocument, match="'a'"):
        await place.start()


async def test_c10_labels_have_names_kinds_and_an_order(place: Place) -> None:
    labels = [
        {"name": "x", "displayName": "b"},
        {"name": None, "assetType": "models"},
        {"name": "y", "displayName": "a"},
        {"name": "s", "assetType": "mcp_servers"},
    ]
    place.sources({"labels": labels})
    api = await place.start()
    assert await api.names("/labels") == ["x", None, "y"]
    assert await api.names("/labels", assetType="mcp_servers") == ["s"]
    assert await api.names("/labels", orderBy="displayName") == ["y", "x", None]
    assert await api.names("/labels", orderBy="displayName", sortOrder="DESC") == ["x", "y", None]
    assert await api.pages("/labels", 2, orderBy="displayName") == [["y", "x"], [None]]
    wrong = await api.get("/labels", assetType="zz")
    assert wrong.status == 400
    assert "invalid value" in wrong.message


async def test_c10_a_label_in_two_files_is_refused(place: Place) -> None:
    place.sources({"labels": [{"name": "x"}]})
    place.sources({"labels": [{"name": "x"}]}, "more.yaml")
    with pytest.raises(BadDocument, match="two files"):
        await place.start()


async def test_a_list_of_the_last_start_is_served_when_its_file_is_lost(place: Place) -> None:
    place.sources({"model_catalogs": [source("a")]})
    place.write("a.yaml", models("m"))
    api = await place.start()
    stored = place.servers[0].library
    await settled(lambda: _empty(stored.good), "the list is stored")
    await place.stop()
    (place.directory / "a.yaml").unlink()
    api = await place.start()
    assert await api.names() == ["m"]
    assert (await api.source("a"))["status"] == "error"
    place.write("a.yaml", models("n"))
    await becomes(api, "n")
    await reports(api, "a", "available")


async def _empty(good: object) -> bool:
    return not good


async def test_aliases_that_multiply_do_not_hang_the_server(place: Place) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(11)
    )
    assert len(bomb) < 600
    place.sources({"model_catalogs": [source("a"), source("b")]})
    place.write("a.yaml", bomb)
    place.write("b.yaml", models("m"))
    api = await place.start()
    assert await api.names() == ["m"]
    assert "alias" in (await api.source("a"))["error"]
    place.sources(bomb)
    await reports(api, "b", "error", "alias")
    assert await api.names() == ["m"]
