"""Custom resources in several versions, converted by a webhook."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.kube.errors import ApiError
from modelyard.kube.kinds import Object
from tests.cluster.api.admission.webhook_server import webhook_server
from tests.cluster.api.definitions import Custom, definition, install, spec, version
from tests.cluster.conftest import Api

STRING: Object = {"type": "string"}


class Converter:
    """v1 has `host` and `port`, v2 has `address`."""

    def __init__(self) -> None:
        self.failure = ""
        self.sizes: list[int] = []

    async def answer(self, review: Object) -> Object:
        request = review["request"]
        self.sizes.append(len(request["objects"]))
        response: Object = {"uid": request["uid"], "result": {"status": "Success"}}
        if self.failure:
            response["result"] = {"status": "Failed", "message": self.failure}
        else:
            response["convertedObjects"] = [
                self._convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]
            ]
        return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}

    @staticmethod
    def _convert(obj: Object, api_version: str) -> Object:
        given = obj.get("spec") or {}
        if api_version.endswith("/v2"):
            converted = {"address": f"{given.get('host', '')}:{given.get('port', '')}"}
        else:
            host, _, port = given.get("address", ":").partition(":")
            converted = {"host": host, "port": port}
        return obj | {"apiVersion": api_version, "spec": converted}


@pytest.fixture
def converter() -> Converter:
    return Converter()


@pytest.fixture
async def things(api: Api, converter: Converter) -> AsyncIterator[Custom]:
    async with webhook_server(converter.answer) as config:
        webhook = {"clientConfig": config, "conversionReviewVersions": ["v1"]}
        obj = definition(
            version("v1", spec(host=STRING, port=STRING)),
            version("v2", spec(address=STRING), storage=False),
            conversion={"strategy": "Webhook", "webhook": webhook},
        )
        yield await install(api, obj)


async def test_objects_are_seen_in_both_versions(things: Custom) -> None:
    await things.create({"host": "h", "port": "1"})
    newer = things.at("v2")
    seen = await things.api.client.get(newer, things.namespace, "x")
    assert (seen["apiVersion"], seen["spec"]) == (newer.api_version, {"address": "h:1"})
    seen["spec"]["address"] = "i:2"
    updated = await things.api.client.update(newer, seen)
    assert updated["spec"] == {"address": "i:2"}
    assert (await things.get())["spec"] == {"host": "i", "port": "2"}


async def test_object_is_created_in_the_other_version(things: Custom) -> None:
    newer = things.at("v2")
    obj = {
        "apiVersion": newer.api_version,
        "kind": newer.kind,
        "metadata": {"name": "y", "namespace": things.namespace},
    }
    made = await things.api.client.create(newer, obj | {"spec": {"address": "a:9"}})
    assert (made["apiVersion"], made["spec"]) == (newer.api_version, {"address": "a:9"})
    assert (await things.get("y"))["spec"] == {"host": "a", "port": "9"}


async def test_list_and_watch_are_converted(things: Custom) -> None:
    for name in ("a", "b"):
        await things.create({"host": name, "port": "1"}, name=name)
    newer = things.at("v2")
    listed = await things.api.client.list(newer, things.namespace)
    assert [obj["spec"]["address"] for obj in listed.items] == ["a:1", "b:1"]
    await things.create({"host": "c", "port": "1"}, name="c")
    async for event in things.api.client.watch(newer, things.namespace, resource_version=listed.resource_version):
        if event.type == "ADDED":
            break
    listed = await things.api.client.list(newer, things.namespace)
    assert [obj["apiVersion"] for obj in listed.items] == [newer.api_version] * 3


async def test_failing_webhook_fails_the_request_and_says_why(things: Custom, converter: Converter) -> None:
    await things.create({"host": "h", "port": "1"})
    converter.failure = "out of order"
    with pytest.raises(ApiError) as refused:
        await things.api.client.get(things.at("v2"), things.namespace, "x")
    expected = f"conversion webhook for {things.kind.api_version}, Kind={things.kind.kind} failed: out of order"
    # The real server puts more words in front: where the object is stored.
    assert (refused.value.code, refused.value.message[-len(expected) :]) == (500, expected)
    converter.failure = ""
    assert (await things.api.client.get(things.at("v2"), things.namespace, "x"))["spec"] == {"address": "h:1"}
