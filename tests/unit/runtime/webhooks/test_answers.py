"""Webhooks answer every request properly: allowed, denied, patched, or told what is wrong with it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from modelyard.kube.crd import Definition, Resource, Version
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.patches import json_patch
from modelyard.runtime.webhooks import (
    AdmissionRequest,
    Allowed,
    Answer,
    Conversion,
    ConversionFailed,
    Denied,
    FieldError,
    ServiceAddress,
    Webhook,
    Webhooks,
    invalid,
    json_diff,
    webhook_configurations,
)

GREETING = Definition(
    "demo.dev", "Greeting", "greetings", [Version("v1", Resource), Version("v1beta1", Resource, storage=False)]
)


def review(**request: Any) -> bytes:
    asked = {"uid": "u1", "operation": "CREATE", "object": {"spec": {"text": "hi"}}} | request
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


async def ask(handler: Any, type: Any = "validating", **request: Any) -> Object:
    hooks = Webhooks([Webhook("greeting.demo.dev", type, "/v", handler, kinds=[GREETING.kind])])
    reply = await hooks.answer("/v", review(**request))
    assert reply.status == 200
    answer: Object = json.loads(reply.body)
    assert answer["response"]["uid"] == "u1"
    response: Object = answer["response"]
    return response


async def test_nothing_to_say_allows() -> None:
    assert await ask(lambda request: None) == {"uid": "u1", "allowed": True}


async def test_a_mutating_handler_gives_the_object_as_it_should_be() -> None:
    def fill(request: AdmissionRequest) -> Answer:
        assert request.object is not None
        request.object["spec"]["tone"] = "warm"
        return request.object

    response = await ask(fill, "mutating")
    patch = json.loads(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec/tone", "value": "warm"}]
    assert response["patchType"] == "JSONPatch"


async def test_a_mutating_handler_that_changes_nothing_sends_no_patch() -> None:
    assert "patch" not in await ask(lambda request: request.object, "mutating")


async def test_a_denial_carries_the_message_and_the_fields() -> None:
    kind = Kind("demo.dev", "v1", "Greeting", "greetings")
    error = FieldError("spec.text", 'Invalid value: "": must not be empty')
    response = await ask(lambda request: invalid(kind, "hi", [error]))
    assert not response["allowed"]
    assert response["status"]["code"] == 422
    assert (
        response["status"]["message"]
        == 'Greeting.demo.dev "hi" is invalid: spec.text: Invalid value: "": must not be empty'
    )
    assert response["status"]["details"]["causes"][0]["field"] == "spec.text"


async def test_warnings_reach_the_user() -> None:
    assert (await ask(lambda request: Allowed(warnings=["old field"])))["warnings"] == ["old field"]
    assert (await ask(lambda request: Denied("no", warnings=["w"])))["warnings"] == ["w"]


async def test_a_handler_that_fails_denies_with_its_reason_and_no_traceback() -> None:
    async def broken(request: AdmissionRequest) -> Answer:
        raise KeyError("text")

    response = await ask(broken)
    assert not response["allowed"]
    assert response["status"]["message"] == "webhook greeting.demo.dev failed: KeyError: 'text'"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        (b'{"kind":"\xff"}', "not JSON"),
        (b"[]", "not of kind AdmissionReview"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v9"}', "not understood"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "no request"),
        (review(operation="PUNCH"), "operation 'PUNCH'"),
        (review(object=7), "request.object is not an object"),
    ],
)
async def test_a_bad_request_is_told_what_is_wrong(body: bytes, said: str) -> None:
    reply = await Webhooks([Webhook("w", "validating", "/v", lambda request: None)]).answer("/v", body)
    assert reply.status == 400
    assert said in reply.body.decode()


async def test_an_unknown_path_is_told_what_there_is() -> None:
    reply = await Webhooks([Webhook("w", "validating", "/v", lambda request: None)]).answer("/x", b"")
    assert (reply.status, reply.body) == (404, b"there is no webhook at /x; there is /v")


def convert(obj: Object, wanted: str) -> Object:
    if obj["spec"].get("text") == "bad":
        raise ConversionFailed("bad text")
    return {"spec": obj["spec"] | {"from": obj["apiVersion"]}}


async def converted(*objects: Object, wanted: str = "demo.dev/v1") -> Object:
    body = {"uid": "u", "desiredAPIVersion": wanted, "objects": list(objects)}
    whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": body}
    reply = await Webhooks(conversions=[Conversion("/convert", GREETING, convert)]).answer(
        "/convert", json.dumps(whole).encode()
    )
    assert reply.status == 200
    response: Object = json.loads(reply.body)["response"]
    return response


async def test_conversion_keeps_identity_and_sets_the_version() -> None:
    old = {"apiVersion": "demo.dev/v1beta1", "kind": "Greeting", "metadata": {"name": "a", "uid": "1"}, "spec": {}}
    response = await converted(old)
    assert response["result"] == {"status": "Success"}
    made = response["convertedObjects"][0]
    assert made == {
        "apiVersion": "demo.dev/v1", "kind": "Greeting", "metadata": {"name": "a", "uid": "1"}, "spec": {"from": "demo.dev/v1beta1"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "wanted", "said"),
    [
        ({"spec": {"text": "bad"}}, "demo.dev/v1", "bad text"),
        ({"spec": None}, "demo.dev/v1", "cannot be converted"),
        ({"kind": "Other"}, "demo.dev/v1", "only Greeting"),
        ({}, "demo.dev/v9", "has no version demo.dev/v9"),
    ],
)
async def test_a_failed_conversion_says_why(change: Object, wanted: str, said: str) -> None:
    old = {"apiVersion": "demo.dev/v1beta1", "kind": "Greeting", "metadata": {"name": "a"}, "spec": {}} | change
    response = await converted(old, wanted=wanted)
    assert response["result"]["status"] == "Failure"
    assert said in response["result"]["message"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 1}, {"a": 2, "b/c": {"~": None}}),
        ({"a": [1, 2]}, {"a": [1, 3]}),
        ({"a": [1, 2]}, {"a": [1]}),
        ({"a": {"b": 1}}, {"a": "x"}),
        ({"a": True}, {"a": 1}),
    ],
)
def test_a_diff_makes_the_new_of_the_old(old: Object, new: Object) -> None:
    assert json_patch(old, json_diff(old, new)) == new


def test_configurations_hold_rules_for_all_versions_and_point_to_the_service() -> None:
    kinds = [GREETING.kind, GREETING.kind.at("v1beta1")]
    hooks = [Webhook("m.demo.dev", "mutating", "/m", lambda r: None, kinds=kinds, configuration="demo"),
             Webhook("v.demo.dev", "validating", "/v", lambda r: None, kinds=kinds, operations=("DELETE",))]  # fmt: skip
    first, second = webhook_configurations(hooks, ServiceAddress("hooks", "plane"), ca_bundle=b"ca")
    assert (first["kind"], first["metadata"]["name"]) == ("MutatingWebhookConfiguration", "demo")
    entry = first["webhooks"][0]
    assert entry["clientConfig"] == {
        "service": {"name": "hooks", "namespace": "plane", "path": "/m", "port": 443},
        "caBundle": "Y2E=",
    }
    assert entry["rules"][0]["apiVersions"] == ["v1", "v1beta1"]
    assert second["webhooks"][0]["rules"][0]["operations"] == ["DELETE"]


def test_two_webhooks_on_one_path_are_refused() -> None:
    with pytest.raises(ValueError, match="share the path /v"):
        Webhooks([Webhook("a", "validating", "/v", lambda r: None), Webhook("b", "validating", "/v", lambda r: None)])
