"""A tenant with some rights tries to get further than these: by paths, roles, old tokens, and reviews."""

from __future__ import annotations

import base64
import json

import pytest

from modelyard.kube.builtin import ClusterRole, ClusterRoleBinding, LocalSubjectAccessReview, Namespace, Secret
from modelyard.kube.errors import Forbidden
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.apiserver.requests.messages import Request, UserInfo

TENANT = UserInfo("tenant", groups=("system:authenticated",))


async def grant(server: ApiServer, rules: list[Object]) -> None:
    """Gives the tenant rights, in the whole cluster."""
    client = server.client()
    await client.create(ClusterRole, {"metadata": {"name": "granted"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "granted"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]
    await client.create(
        ClusterRoleBinding, {"metadata": {"name": "granted"}, "roleRef": reference, "subjects": subjects}
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST"])
@pytest.mark.parametrize("below", ["namespaces/victim", "namespaces", "nodes", "namespaces/victim/finalize"])
async def test_what_has_no_namespace_is_not_found_below_one(method: str, below: str) -> None:
    async with ApiServer() as server:
        await server.client().create(Namespace, {"metadata": {"name": "victim"}})
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await grant(server, [everything])
        path = f"/api/v1/namespaces/default/{below}"
        reply = await server.handle(Request(method, path, {}, {}, b"{}", TENANT))
        assert reply.status == 404
        assert await server.client().get(Namespace, "", "victim")


async def test_a_label_cannot_make_a_role_part_of_another() -> None:
    """`patch clusterroles` alone must not be worth all that any role may do."""
    async with ApiServer() as server:
        roles = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["get", "patch"]}
        await grant(server, [roles])
        label = {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}}
        with pytest.raises(Forbidden, match="attempting to grant RBAC permissions not currently held"):
            await server.client("tenant").patch(ClusterRole, "", "cluster-admin", label)
        await server.settle()
        view = await server.client().get(ClusterRole, "", "view")
        assert not any("*" in (rule.get("resources") or ()) for rule in view["rules"])


async def secret_token(server: ApiServer) -> str:
    secret = {
        "metadata": {
            "name": "legacy",
            "namespace": "default",
            "annotations": {"kubernetes.io/service-account.name": "default"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    await server.client().create(Secret, secret)
    await server.settle()
    held = await server.client().get(Secret, "default", "legacy")
    return base64.b64decode(held["data"]["token"]).decode()


async def status_with(server: ApiServer, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return (await server.handle(Request("GET", "/apis", {}, headers))).status


async def test_a_token_of_a_secret_that_was_made_again_is_worth_nothing() -> None:
    async with ApiServer() as server:
        old = await secret_token(server)
        assert await status_with(server, old) == 200
        await server.client().delete(Secret, "default", "legacy")
        assert await status_with(server, old) == 401
        made_again = {"metadata": {"name": "legacy", "namespace": "default"}, "stringData": {"token": "another"}}
        await server.client().create(Secret, made_again)
        assert await status_with(server, old) == 401


async def test_a_local_review_answers_for_the_namespace_of_its_path_only() -> None:
    async with ApiServer() as server:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": "kube-system"},
            "spec": {
                "user": "tenant",
                "resourceAttributes": {"namespace": "kube-system", "verb": "get", "resource": "secrets"},
            },
        }
        path = LocalSubjectAccessReview.path("default")
        headers = {"content-type": "application/json"}
        admin = UserInfo("admin", groups=("system:masters",))
        reply = await server.handle(Request("POST", path, {}, headers, json.dumps(review).encode(), admin))
        assert reply.status == 400
