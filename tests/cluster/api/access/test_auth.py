"""Authentication: service-account tokens, what they are bound to, token reviews, and nobody at all."""

from __future__ import annotations

import base64
import json

import pytest

from modelyard.kube.builtin import Pod, Role, RoleBinding, Secret, ServiceAccount
from modelyard.kube.errors import ApiError, Forbidden, Unauthorized
from modelyard.kube.kinds import Object
from tests.cluster.api.calls import call, eventually
from tests.cluster.conftest import Api

REVIEW = "/apis/authentication.k8s.io/v1/tokenreviews"


async def account(api: Api, name: str = "robot") -> tuple[str, Object]:
    namespace = await api.namespace()
    made = await api.client.create(ServiceAccount, {"metadata": {"name": name, "namespace": namespace}})
    return namespace, made


async def token_for(api: Api, namespace: str, name: str = "robot", **spec: object) -> Object:
    answer = await call(api, "POST", ServiceAccount.path(namespace, name, "token"), {"spec": spec})
    assert answer.status == 201, answer.body
    result: Object = answer.body
    return result


def claims(token: str) -> Object:
    payload = token.split(".")[1]
    decoded: Object = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return decoded


async def test_token_says_who_and_how_long(api: Api) -> None:
    namespace, made = await account(api)
    request = await token_for(api, namespace, expirationSeconds=700)
    assert (request["kind"], request["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert request["metadata"]["name"] == "robot"
    found = claims(request["status"]["token"])
    assert found["sub"] == f"system:serviceaccount:{namespace}:robot"
    assert found["exp"] - found["iat"] == 700
    assert found["aud"] == request["spec"]["audiences"] == [found["iss"]]
    assert found["kubernetes.io"] == {
        "namespace": namespace,
        "serviceaccount": {"name": "robot", "uid": made["metadata"]["uid"]},
    }


async def test_token_acts_as_its_account(api: Api) -> None:
    namespace, _ = await account(api)
    token = (await token_for(api, namespace))["status"]["token"]
    robot = api.as_user(token)
    with pytest.raises(Forbidden, match=f'User "system:serviceaccount:{namespace}:robot" cannot list resource "pods"'):
        await robot.list(Pod, namespace)
    metadata = {"name": "r", "namespace": namespace}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    await api.client.create(Role, {"metadata": metadata, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "robot"}]
    await api.client.create(
        RoleBinding, {"metadata": metadata, "roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}
    )

    async def allowed() -> bool:
        try:
            await robot.list(Pod, namespace)
        except Forbidden:
            return False
        return True

    await eventually(allowed)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"expirationSeconds": 60}, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**33}, "may not specify a duration larger than 2^32 seconds"),
        (
            {"boundObjectRef": {"kind": "Other", "apiVersion": "v1", "name": "x"}},
            "cannot bind token to object of type /v1, Kind=Other",
        ),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 'pods "x" not found'),
    ],
)
async def test_impossible_tokens(api: Api, spec: Object, message: str) -> None:
    namespace, _ = await account(api)
    answer = await call(api, "POST", ServiceAccount.path(namespace, "robot", "token"), {"spec": spec})
    assert answer.status >= 400
    assert message in answer.message


async def test_token_of_an_unknown_account(api: Api) -> None:
    answer = await call(api, "POST", ServiceAccount.path(await api.namespace(), "none", "token"), {})
    assert (answer.status, answer.message) == (404, 'serviceaccounts "none" not found')


async def review(api: Api, token: str, *audiences: str) -> Object:
    answer = await call(
        api, "POST", REVIEW, {"spec": {"token": token} | ({"audiences": list(audiences)} if audiences else {})}
    )
    assert answer.status == 201, answer.body
    status: Object = answer.body["status"]
    return status


async def test_review_of_a_good_token(api: Api) -> None:
    namespace, made = await account(api)
    request = await token_for(api, namespace)
    token = request["status"]["token"]
    status = await review(api, token)
    assert status["authenticated"] is True
    assert status["audiences"] == request["spec"]["audiences"]
    assert status["user"] == {
        "username": f"system:serviceaccount:{namespace}:robot",
        "uid": made["metadata"]["uid"],
        "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={claims(token)['jti']}"]},
    }


async def test_review_of_nonsense(api: Api) -> None:
    assert await review(api, "nonsense") == {"user": {}, "error": "invalid bearer token"}
    answer = await call(api, "POST", REVIEW, {"spec": {}})
    assert (answer.status, answer.message) == (400, "token is required for TokenReview in authentication")


async def test_token_is_good_for_its_audience_only(api: Api) -> None:
    namespace, _ = await account(api)
    token = (await token_for(api, namespace, audiences=["vault"]))["status"]["token"]
    assert (await review(api, token, "vault"))["audiences"] == ["vault"]
    assert "error" in await review(api, token)
    with pytest.raises(Unauthorized):
        await api.as_user(token).list(Pod, namespace)


async def test_changed_token_is_refused(api: Api) -> None:
    namespace, _ = await account(api)
    header, payload, signature = (await token_for(api, namespace))["status"]["token"].split(".")
    forged = (
        base64.urlsafe_b64encode(json.dumps(claims(f"{header}.{payload}.x") | {"sub": "admin"}).encode())
        .decode()
        .rstrip("=")
    )
    for token in (f"{header}.{forged}.{signature}", f"{header}.{payload}.", f"{header}.{payload}", "x"):
        with pytest.raises(Unauthorized, match="Unauthorized"):
            await api.as_user(token).list(Pod, namespace)


async def refused(api: Api, token: str) -> bool:
    return "error" in await review(api, token)


async def test_token_ends_with_its_account(api: Api) -> None:
    namespace, _ = await account(api)
    token = (await token_for(api, namespace))["status"]["token"]
    await api.client.delete(ServiceAccount, namespace, "robot")
    await eventually(lambda: refused(api, token))
    await api.client.create(ServiceAccount, {"metadata": {"name": "robot", "namespace": namespace}})
    assert await refused(api, token)


async def test_bound_token_ends_with_its_pod(api: Api) -> None:
    namespace, _ = await account(api)
    spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "x"}]}
    pod = await api.client.create(Pod, {"metadata": {"name": "p", "namespace": namespace}, "spec": spec})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    token = (await token_for(api, namespace, boundObjectRef=reference))["status"]["token"]
    status = await review(api, token)
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    await api.client.delete(Pod, namespace, "p", grace=0)
    await eventually(lambda: refused(api, token))


async def test_bound_token_needs_the_right_uid(api: Api) -> None:
    namespace, _ = await account(api)
    await api.client.create(Secret, {"metadata": {"name": "s", "namespace": namespace}})
    reference = {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "other"}
    path = ServiceAccount.path(namespace, "robot", "token")
    answer = await call(api, "POST", path, {"spec": {"boundObjectRef": reference}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "the UID in the bound object reference (other) does not match the UID in record" in answer.message


async def test_token_secret_is_filled_and_goes_with_its_account(api: Api) -> None:
    namespace, made = await account(api)
    metadata = {
        "name": "s",
        "namespace": namespace,
        "annotations": {"kubernetes.io/service-account.name": "robot"},
    }
    await api.client.create(Secret, {"metadata": metadata, "type": "kubernetes.io/service-account-token"})

    async def filled() -> bool:
        return "token" in ((await api.client.get(Secret, namespace, "s")).get("data") or {})

    await eventually(filled)
    secret = await api.client.get(Secret, namespace, "s")
    assert secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == made["metadata"]["uid"]
    assert base64.b64decode(secret["data"]["namespace"]).decode() == namespace
    assert "BEGIN CERTIFICATE" in base64.b64decode(secret["data"]["ca.crt"]).decode()
    token = base64.b64decode(secret["data"]["token"]).decode()
    status = await review(api, token)
    assert status["user"]["username"] == f"system:serviceaccount:{namespace}:robot"
    await api.client.delete(ServiceAccount, namespace, "robot")

    async def gone() -> bool:
        return await api.client.find(Secret, namespace, "s") is None

    await eventually(gone)


async def test_nobody_sees_health_and_version_only(api: Api) -> None:
    """Without credentials: the transport of a real cluster's client without token, ours without user."""
    nobody = {"Impersonate-User": "system:anonymous", "Impersonate-Group": "system:unauthenticated"}
    for path, expected in (
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/version", 200),
        ("/api", 403),
        ("/apis", 403),
    ):
        response = await api.client.transport.send("GET", path, headers=nobody)
        await response.read()
        assert response.status == expected, path
    answer = await api.client.transport.send("GET", Pod.path(), headers={"Accept": "application/json", **nobody})
    message = json.loads(await answer.read())["message"]
    assert (
        message
        == 'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope'
    )


async def test_bad_bearer_token(api: Api) -> None:
    with pytest.raises(ApiError) as caught:
        await api.as_user("wrong").list(Pod, "default")
    assert (caught.value.code, caught.value.status["reason"]) == (401, "Unauthorized")
