"""The tokens that services get to see: each is good for its own service, and for nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from modelyard.cli.installation import crds
from modelyard.cli.laptop.access import service_token
from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.errors import ApiError
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer
from modelyard.local.network.published import Published
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.registry import load
from modelyard.runtime.webhooks import ServiceAddress

STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SPEC = {"backendStoreUri": "sqlite:////mlflow/mlflow.db", "serveArtifacts": True, "storage": STORAGE}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        client = server.client()
        for name in ("team", "victim"):
            await client.create(builtin.Namespace, {"metadata": {"name": name}})
            spec = {"ports": [{"port": 80}]}
            await client.create(builtin.Service, {"metadata": {"name": "web", "namespace": name}, "spec": spec})
        yield server


async def ingress(client: Client, owner: Object | None = None) -> Published:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": "/web", "pathType": "Prefix", "backend": backend}]}}
    metadata: Object = {"name": "web", "namespace": "team"}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    made = await client.create(builtin.Ingress, {"metadata": metadata, "spec": {"rules": [rule]}})
    return Published.read(builtin.Ingress, made)


async def owned(client: Client) -> Published:
    parent = await client.create(builtin.ConfigMap, {"metadata": {"name": "x", "namespace": "team"}})
    uid = parent["metadata"]["uid"]
    return await ingress(client, {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uid, "controller": True})


async def may(client: Client, verb: str, resource: str, namespace: str, name: str = "", group: str = "") -> bool:
    asked = {"verb": verb, "resource": resource, "namespace": namespace, "name": name, "group": group}
    review = {"spec": {"resourceAttributes": asked}}
    return bool((await client.create(builtin.SelfSubjectAccessReview, review))["status"]["allowed"])


async def test_a_services_token_may_use_that_service_and_nothing_else(server: ApiServer) -> None:
    one = await owned(server.client())
    user = server.client(token=(await service_token(server.client(), one)).text)
    assert await may(user, "get", "services", "team", "web")
    assert not await may(user, "get", "services", "victim", "web")
    assert not await may(user, "list", "secrets", "team")
    assert not await may(user, "create", "pods", "team")


async def test_the_token_for_a_route_that_anybody_made_is_not_good_at_the_api(server: ApiServer) -> None:
    one = await ingress(server.client())
    token = (await service_token(server.client(), one)).text
    with pytest.raises(ApiError, match="refused our credentials"):
        await server.client(token=token).list(builtin.Service, "team")
    review = {"spec": {"token": token, "audiences": ["modelyard.dev/Ingress/team/web"]}}
    answer = await server.client().create(builtin.TokenReview, review)
    assert answer["status"]["authenticated"]


async def test_the_account_goes_with_the_route(server: ApiServer) -> None:
    one = await owned(server.client())
    await service_token(server.client(), one)
    for kind in (builtin.ServiceAccount, builtin.Role, builtin.RoleBinding):
        found = await server.client().get(kind, "team", f"login-{one.label}")
        assert found["metadata"]["ownerReferences"][0]["uid"] == one.uid


async def test_only_the_route_of_an_mlflows_own_server_gets_the_rights_of_its_users(server: ApiServer) -> None:
    client = server.client()
    for crd in crds(load(["mlflow"], {}), ServiceAddress()):
        crd["spec"].pop("conversion", None)
        await client.create(builtin.CustomResourceDefinition, crd)
    body = {"apiVersion": MLFLOW.kind.api_version, "kind": "MLflow", "metadata": {"name": "mlflow"}, "spec": SPEC}
    made = await client.create(MLFLOW.kind, body)
    owner = {
        "apiVersion": MLFLOW.kind.api_version,
        "kind": "MLflow",
        "name": "mlflow",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    one = await ingress(client, owner)
    for namespace, allowed in (("victim", False), ("team", True)):
        status = {"status": {"address": {"url": f"https://web.{namespace}.svc:8443"}}}
        await client.patch(MLFLOW.kind, "", "mlflow", status, subresource="status")
        user = server.client(token=(await service_token(client, one)).text)
        assert await may(user, "create", "experiments", "victim", group="mlflow.kubeflow.org") is allowed
        assert not await may(user, "delete", "mlflows", "", group=MLFLOW.kind.group)
