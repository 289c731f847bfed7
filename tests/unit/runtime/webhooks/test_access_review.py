"""A webhook asks the API server what the sender of a request may do, with all that is known of the sender."""

from __future__ import annotations

import json

from modelyard.kube.builtin import Secret
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.runtime.webhooks import AdmissionRequest, Answer, Denied, Webhook, Webhooks
from modelyard.runtime.webhooks.access_review import ApiAccessReviews, User, review_spec


async def only_secret_readers(request: AdmissionRequest) -> Answer:
    if await request.access.may(request.sender, "get", Secret, "team", "db"):
        return None
    return Denied(f"{request.user} may not read the Secret")


HOOK = Webhook("w.test.dev", "validating", "/v", only_secret_readers, reviews_access=True)


def review(user: Object) -> bytes:
    asked = {"uid": "u1", "operation": "CREATE", "object": {"spec": {}}, "userInfo": user}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}).encode()


async def answer(hooks: Webhooks, user: Object) -> Object:
    response: Object = json.loads((await hooks.answer("/v", review(user))).body)["response"]
    return response


async def test_a_webhook_lets_pass_whom_the_api_server_lets_read() -> None:
    async with ApiServer() as server:
        hooks = Webhooks([HOOK], access=ApiAccessReviews(server.client()))
        admin = await answer(hooks, {"username": "someone", "groups": ["system:masters"]})
        stranger = await answer(hooks, {"username": "someone", "groups": ["system:authenticated"]})
    assert admin["allowed"] is True
    assert (stranger["allowed"], stranger["status"]["message"]) == (False, "someone may not read the Secret")


def test_the_review_carries_all_that_is_known_of_the_sender() -> None:
    user = User("ann", "u-1", ("team",), {"scopes": ("a", "b")})
    assert review_spec(user, "get", Secret, "team", "db") == {
        "user": "ann",
        "uid": "u-1",
        "groups": ["team"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "version": "v1",
            "resource": "secrets",
            "namespace": "team",
            "name": "db",
            "verb": "get",
        },
    }


async def test_the_sender_of_an_admission_request_is_read_whole() -> None:
    seen: list[User] = []

    def note(request: AdmissionRequest) -> Answer:
        seen.append(request.sender)
        return None

    hooks = Webhooks([Webhook("w.test.dev", "validating", "/v", note)])
    await answer(hooks, {"username": "ann", "uid": "u-1", "groups": ["team"], "extra": {"scopes": ["a"]}})
    assert seen == [User("ann", "u-1", ("team",), {"scopes": ["a"]})]


async def test_without_anybody_to_ask_a_request_is_refused_for_now() -> None:
    refused = await answer(Webhooks([HOOK]), {"username": "ann"})
    assert (refused["allowed"], refused["status"]["code"]) == (False, 503)
