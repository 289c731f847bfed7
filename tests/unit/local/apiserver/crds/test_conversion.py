"""Conversion of custom resources by a webhook: what is sent, what is taken from the answer, and what is refused."""

from typing import Any

import pytest

from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver.crds.conversion import WebhookConverter, WebhookFailure, rename
from modelyard.local.apiserver.requests.problems import Problem

KIND = Kind("example.com", "v1", "Thing", "things")


def thing(version: str, name: str = "x", **more: Any) -> Object:
    return {"apiVersion": f"example.com/{version}", "kind": "Thing", "metadata": {"name": name, "uid": "u"}} | more


class Webhook:
    """Answers reviews: converts by a function, then lets a test spoil the answer."""

    def __init__(self, spoil: Any = None, versions: tuple[str, ...] = ("v1",)) -> None:
        self.reviews: list[Object] = []
        self._spoil = spoil
        self.converter = WebhookConverter(
            KIND, {"clientConfig": {"url": "u"}, "conversionReviewVersions": list(versions)}, self._call
        )

    async def _call(self, config: Object, review: Object, seconds: float) -> Object:
        self.reviews.append(review)
        request = review["request"]
        converted = [obj | {"apiVersion": request["desiredAPIVersion"], "moved": True} for obj in request["objects"]]
        answer: Object = {
            "kind": "ConversionReview",
            "apiVersion": review["apiVersion"],
            "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
        }
        if self._spoil is not None:
            self._spoil(answer)
        return answer


async def test_only_objects_of_other_versions_are_sent() -> None:
    webhook = Webhook()
    objects = [thing("v1", "a"), thing("v2", "b"), thing("v1", "c")]
    converted = await webhook.converter(objects, "example.com/v2")
    assert [obj["metadata"]["name"] for obj in webhook.reviews[0]["request"]["objects"]] == ["a", "c"]
    assert [(o["apiVersion"], o["metadata"]["name"], o.get("moved")) for o in converted] == [
        ("example.com/v2", "a", True),
        ("example.com/v2", "b", None),
        ("example.com/v2", "c", True),
    ]
    assert await webhook.converter([thing("v2")], "example.com/v2") == [thing("v2")]
    assert len(webhook.reviews) == 1


async def test_first_review_version_that_is_known_is_spoken() -> None:
    webhook = Webhook(versions=("v7", "v1beta1", "v1"))
    await webhook.converter([thing("v1")], "example.com/v2")
    assert webhook.reviews[0]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


async def test_webhook_may_change_labels_but_no_other_metadata() -> None:
    def spoil(answer: Object) -> None:
        answer["response"]["convertedObjects"][0]["metadata"] = {
            "name": "x", "uid": "u", "labels": {"new": "1"}, "finalizers": ["evil"],
        }  # fmt: skip

    original = thing("v1")
    original["metadata"] |= {"labels": {"old": "1"}, "annotations": {"a": "b"}, "generation": 3}
    [converted] = await Webhook(spoil).converter([original], "example.com/v2")
    assert converted["metadata"] == {"name": "x", "uid": "u", "labels": {"new": "1"}, "generation": 3}


def fail(answer: Object) -> None:
    answer["response"]["result"] = {"status": "Failed", "message": "no idea"}


def fail_silently(answer: Object) -> None:
    answer["response"]["result"] = {"status": "Failed"}


def other_uid(answer: Object) -> None:
    answer["response"]["uid"] = "other"


def no_response(answer: Object) -> None:
    del answer["response"]


def lose_objects(answer: Object) -> None:
    answer["response"]["convertedObjects"] = []


def wrong_version(answer: Object) -> None:
    answer["response"]["convertedObjects"][0]["apiVersion"] = "example.com/v3"


def rename_object(answer: Object) -> None:
    answer["response"]["convertedObjects"][0]["metadata"] = {"name": "y", "uid": "u"}


SUBJECT = "conversion webhook for example.com/v1, Kind=Thing"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (fail, f"{SUBJECT} failed: no idea"),
        (fail_silently, f"{SUBJECT} failed: response.result.status was 'Failed', not 'Success'"),
        (no_response, f"{SUBJECT} failed: no response provided"),
        (lose_objects, f"{SUBJECT} returned 0 objects, expected 1"),
        (
            wrong_version,
            f"{SUBJECT} returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
        (rename_object, f"{SUBJECT} returned invalid object: must have the same name: x != y"),
    ],
)
async def test_bad_answer_is_an_error_that_names_the_kind(spoil: Any, message: str) -> None:
    with pytest.raises(Problem) as refused:
        await Webhook(spoil).converter([thing("v1")], "example.com/v2")
    assert (refused.value.code, refused.value.message) == (500, message)


async def test_answer_to_another_request_is_refused() -> None:
    with pytest.raises(Problem, match=r'failed: expected response\.uid=".*", got "other"'):
        await Webhook(other_uid).converter([thing("v1")], "example.com/v2")


async def test_failed_call_is_told() -> None:
    async def call(config: Object, review: Object, seconds: float) -> Object:
        raise WebhookFailure("connection refused")

    converter = WebhookConverter(KIND, {"clientConfig": {}, "conversionReviewVersions": ["v1"]}, call)
    with pytest.raises(Problem, match="failed: connection refused"):
        await converter([thing("v1")], "example.com/v2")


async def test_renaming_leaves_the_original_alone() -> None:
    original = thing("v1", spec={"a": [1]})
    [renamed] = await rename([original], "example.com/v2")
    renamed["spec"]["a"].append(2)
    assert original == thing("v1", spec={"a": [1]})
    assert renamed["apiVersion"] == "example.com/v2"
