"""A webhook that asks what a user may do is tested without an API server; on a cluster it gets the right to ask."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import Pod, Secret
from modelyard.runtime.declaring.rbac import grants
from modelyard.runtime.testing import FakeAccessReviews, Question, drive
from modelyard.runtime.webhooks import AdmissionRequest, Answer, Denied, Webhook
from modelyard.runtime.webhooks.access_review import NotAsked, User


async def only_pod_makers(request: AdmissionRequest) -> Answer:
    if await request.access.may(request.sender, "create", Pod, request.namespace):
        return None
    return Denied(f"{request.user} may not create pods in {request.namespace}")


HOOK = Webhook("w.test.dev", "validating", "/v", only_pod_makers, reviews_access=True)


def request(access: FakeAccessReviews) -> AdmissionRequest:
    return AdmissionRequest(
        "CREATE",
        {},
        namespace="team",
        user="ann",
        groups=["makers"],
        user_uid="u-1",
        user_extra={"scopes": ["all"]},
        access=access,
    )


def test_the_fake_decides_and_keeps_what_was_asked() -> None:
    access = FakeAccessReviews(lambda asked: "makers" in asked.user.groups)
    assert drive(only_pod_makers(request(access))) is None
    ann = User("ann", "u-1", ("makers",), {"scopes": ["all"]})
    assert access.asked == [Question(ann, "create", Pod, "team")]


def test_without_more_it_allows_nothing() -> None:
    assert drive(only_pod_makers(request(FakeAccessReviews()))) == Denied("ann may not create pods in team")


def test_it_can_be_out_of_reach() -> None:
    with pytest.raises(NotAsked, match="whether ann may create pods was not asked"):
        drive(only_pod_makers(request(FakeAccessReviews(reachable=False))))


def test_only_a_webhook_that_declares_it_gets_the_right_to_ask() -> None:
    silent = Webhook("s.test.dev", "validating", "/s", lambda request: None, reads=[Secret])
    assert "subjectaccessreviews" not in str(grants([], webhooks=[silent]).rules(""))
    rules = [r for r in grants([], webhooks=[HOOK]).rules("") if r["resources"] == ["subjectaccessreviews"]]
    assert [rule["verbs"] for rule in rules] == [["create"]]
