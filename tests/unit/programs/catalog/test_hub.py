"""Sources of the Hugging Face hub, against a hub of our own on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from modelyard.programs.catalog.config import Asset, Source
from modelyard.programs.catalog.hub import BadSource, Plan
from modelyard.programs.database import Source as Store
from tests.unit.programs.catalog.conftest import Api, Json, Place, settled, text

KEY = "hf_goodkey"


@dataclass
class Hub:
    """The two requests that we send to the hub, and its question who one is."""

    models: dict[str, Json] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Paths with the keys that came with them."""
    next_page: str = ""
    address: str = ""

    def add(self, name: str, **more: Any) -> None:
        self.models[name] = {"id": name, "tags": [], "private": False, "gated": False, **more}

    async def one(self, request: web.Request) -> web.Response:
        self._note(request)
        found = self.models.get(f"{request.match_info['author']}/{request.match_info['name']}")
        if found is None or (found["gated"] and request.headers.get("Authorization") != f"Bearer {KEY}"):
            return web.json_response({"error": "not found"}, status=404)
        return web.json_response(found)

    async def listed(self, request: web.Request) -> web.Response:
        self._note(request)
        author, start = request.query["author"], int(request.query.get("cursor", 0))
        found = [each for name, each in sorted(self.models.items()) if name.startswith(f"{author}/")]
        headers = {}
        if start + 2 < len(found):
            following = self.next_page or f"{self.address}/api/models?author={author}&cursor={start + 2}"
            headers["Link"] = f'<{following}>; rel="next"'
        return web.json_response(found[start : start + 2], headers=headers)

    async def who(self, request: web.Request) -> web.Response:
        good = request.headers.get("Authorization") == f"Bearer {KEY}"
        return web.json_response({"name": "me"}) if good else web.json_response({}, status=401)

    def _note(self, request: web.Request) -> None:
        self.asked.append((request.path, request.headers.get("Authorization", "")))


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    made, app = Hub(), web.Application()
    app.router.add_get("/api/whoami-v2", made.who)
    app.router.add_get("/api/models", made.listed)
    app.router.add_get("/api/models/{author}/{name}", made.one)
    async with TestServer(app) as server:
        made.address = str(server.make_url("")).rstrip("/")
        yield made


@pytest.fixture
async def place(hub: Hub, tmp_path: Path) -> AsyncIterator[Place]:
    async with aiohttp.ClientSession() as client:
        made = Place(tmp_path, Store("sqlite", str(tmp_path / "c.db")), {"HF_ENDPOINT": hub.address}, client=client)
        yield made
        await made.stop()


def source(*included: str, excluded: tuple[str, ...] = (), **properties: object) -> Json:
    made: Json = {"id": "h", "name": "Hub", "type": "hf", "includedModels": list(included), "properties": properties}
    return made | ({"excludedModels": list(excluded)} if excluded else {})


async def becomes(api: Api, status: str, *names: str) -> Json:
    async def does() -> bool:
        return (await api.source("h"))["status"] == status and await api.names() == list(names)

    await settled(does, f"{status} with {names}")
    return await api.source("h")


async def test_models_are_listed_by_name_and_by_prefix(place: Place, hub: Hub) -> None:
    hub.add(
        "org/m1",
        author="org",
        pipeline_tag="text-generation",
        library_name="transformers",
        tags=["license:apache-2.0", "en"],
        cardData={"language": "en"},
        config={"architectures": ["X"], "model_type": "x"},
        createdAt="2026-01-01T00:00:00.000Z",
    )
    for name in ("team/a-1", "team/a-2", "team/a-3", "team/a-bad", "team/b"):
        hub.add(name)
    place.sources({"model_catalogs": [source("org/m1", "team/a*", excluded=("*bad",))]})
    api = await place.start()
    await becomes(api, "available", "org/m1", "team/a-1", "team/a-2", "team/a-3")
    found = (await api.get("/sources/h/models/org/m1")).body
    shown = {
        key: found[key] for key in ("provider", "license", "libraryName", "tasks", "language", "createTimeSinceEpoch")
    }
    assert shown == {
        "provider": "org", "license": "Apache 2.0", "libraryName": "transformers", "tasks": ["text-generation"],
        "language": ["en"], "createTimeSinceEpoch": "1767225600000",
    }  # fmt: skip
    given = found["customProperties"]
    assert (given["model_type"], given["hf_private"], given["hf_gated"]) == (
        text("generative"),
        text("false"),
        text("false"),
    )
    assert (given["hf_architectures"], given["hf_model_type"]) == (text('["X"]'), text("x"))
    assert "last_synced" in given
    (artifact,) = (await api.get("/sources/h/models/org/m1/artifacts")).body["items"]
    assert artifact["uri"] == "hf://org/m1"
    assert await api.names(filterQuery="hf_tags.array_value = 'en'") == ["org/m1"]


async def test_what_the_hub_does_not_give_is_named_and_the_rest_is_listed(place: Place, hub: Hub) -> None:
    hub.add("org/there")
    place.sources({"model_catalogs": [source("org/there", "org/missing")]})
    api = await place.start()
    shown = await becomes(api, "partially-available", "org/there")
    assert "Failed to fetch models: org/missing: not found" in shown["error"]


async def test_a_hub_that_is_away_leaves_what_was_listed_also_after_a_restart(place: Place, hub: Hub) -> None:
    hub.add("org/m")
    place.sources({"model_catalogs": [source("org/m")]})
    api = await place.start()
    await becomes(api, "available", "org/m")

    async def stored() -> bool:
        return not place.servers[0].library.good

    await settled(stored, "the list is stored")
    await place.stop()
    place.environ["HF_ENDPOINT"] = "http://127.0.0.1:1"
    api = await place.start()
    assert await api.names() == ["org/m"], "from the store, before the hub was asked"
    shown = await becomes(api, "error", "org/m")
    assert "org/m: the hub cannot be reached" in shown["error"]


async def test_a_key_goes_only_to_the_hub_and_only_if_it_knows_it(place: Place, hub: Hub) -> None:
    hub.add("org/gated", gated="manual")
    place.environ |= {"HF_API_KEY_TEAM": KEY, "HF_API_KEY": "hf_unknown"}
    with_key = source("org/gated", apiKeyEnvVar="HF_API_KEY_TEAM", url="http://127.0.0.1:1/elsewhere")
    without = source("org/gated") | {"id": "other"}
    place.sources({"model_catalogs": [with_key, without]})
    api = await place.start()
    await becomes(api, "available", "org/gated")
    assert (await api.get("/sources/h/models/org/gated")).body["customProperties"]["hf_gated"] == text("manual")

    async def refused() -> bool:
        return bool((await api.source("other"))["status"] == "error")

    await settled(refused, "the other source has no key that counts")
    assert {key for _, key in hub.asked} == {f"Bearer {KEY}", ""}


async def test_the_next_page_is_only_ever_the_hubs(place: Place, hub: Hub) -> None:
    for number in range(4):
        hub.add(f"team/{number}")
    hub.next_page = "http://127.0.0.1:1/api/models"
    place.sources({"model_catalogs": [source("team/*", maxModels=3)]})
    api = await place.start()
    await becomes(api, "available", "team/0", "team/1")
    hub.next_page = ""
    place.sources({"model_catalogs": [source("team/*", maxModels=3, syncInterval="1h")]})
    await becomes(api, "available", "team/0", "team/1", "team/2")


async def test_a_source_is_asked_for_again_after_its_interval(place: Place, hub: Hub) -> None:
    hub.add("org/m")
    place.sources({"model_catalogs": [source("org/*", syncInterval="1s")]})
    api = await place.start()
    await becomes(api, "available", "org/m")
    hub.add("org/n")
    await becomes(api, "available", "org/m", "org/n")


@pytest.mark.parametrize(
    ("included", "properties", "said"),
    [
        ((), {}, "includedModels is missing"),
        (("*",), {}, "neither org/name nor"),
        (("org/m",), {"apiKeyEnvVar": "PGPASSWORD"}, "HF_API_KEY"),
        (("org/m",), {"maxModels": 0}, "maxModels"),
        (("org/m",), {"syncInterval": "soon"}, "syncInterval"),
        (("other/m",), {"allowedOrganization": "org"}, "allowedOrganization"),
        (("../../x",), {}, "neither org/name nor"),
    ],
)
def test_a_wrong_source_says_what_is_wrong(included: tuple[str, ...], properties: Json, said: str) -> None:
    with pytest.raises(BadSource, match=said):
        Plan.of(Source("h", Asset.MODELS, type="hf", included=included, properties=properties))


def test_a_source_of_one_organization_need_not_repeat_its_name() -> None:
    given = Source("h", Asset.MODELS, type="hf", included=("m", "a*"), properties={"allowedOrganization": "org"})
    plan = Plan.of(given)
    assert (plan.names, plan.prefixes) == (("org/m",), (("org", "a"),))
    assert given.admits("org/a-1")
