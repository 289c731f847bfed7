"""A tenant who may write resources names what belongs to others: Secrets that the tenant may not read, accounts that are not theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from modelyard.cli.offline import offline_server
from modelyard.kube.builtin import (
    ClusterRole,
    ClusterRoleBinding,
    CustomResourceDefinition,
    Namespace,
    Role,
    RoleBinding,
    ValidatingWebhookConfiguration,
)
from modelyard.kube.client import Client
from modelyard.kube.crd import definition_of
from modelyard.kube.errors import ApiError, Forbidden
from modelyard.kube.kinds import Kind, Object
from modelyard.local.apiserver import ApiServer
from modelyard.operators.mlflow.api import MLFLOW
from modelyard.operators.mlflow.operator import operator as mlflow_operator
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.model_registry.operator import operator as registry_operator
from modelyard.runtime.webhooks import ServiceAddress, webhook_configurations

HOME = "platform"
VICTIMS, OWN = {"name": "victims", "key": "uri"}, {"name": "own", "key": "uri"}
MYSQL = {"host": "db", "username": "u", "database": "d"}
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A tenant may write MLflows and ModelRegistries, and in their namespace read the Secret `own`."""
    operators = [mlflow_operator({"MLFLOW_NAMESPACE": HOME}), registry_operator({})]
    async with offline_server(operators) as server:
        client = server.client()
        await client.create(Namespace, {"metadata": {"name": HOME}})
        writing = [
            {"apiGroups": [definition.group], "resources": [definition.plural], "verbs": ["*"]}
            for definition in (MLFLOW, MODEL_REGISTRY)
        ]
        await client.create(ClusterRole, {"metadata": {"name": "writer"}, "rules": writing})
        await client.create(ClusterRoleBinding, _binding("writer", "ClusterRole", "writer"))
        await grant(client, "secrets", "get", "own")
        yield server


def _binding(name: str, kind: str, role: str, namespace: str = "") -> Object:
    place = {"name": name} | ({"namespace": namespace} if namespace else {})
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "tenant"}]
    return {"metadata": place, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": subjects}


async def grant(client: Client, resource: str, verb: str, *names: str) -> None:
    rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb]} | (
        {"resourceNames": list(names)} if names else {}
    )
    await client.create(Role, {"metadata": {"name": resource, "namespace": HOME}, "rules": [rule]})
    await client.create(RoleBinding, _binding(resource, "Role", resource, HOME))


def mlflow(**spec: Any) -> Object:
    given = {"serveArtifacts": True, **spec}
    given |= {} if "backendStoreUriFrom" in spec else {"backendStoreUri": "postgresql://db/x"}
    return {
        "apiVersion": MLFLOW.kind.api_version,
        "kind": MLFLOW.kind_name,
        "metadata": {"name": "mlflow"},
        "spec": given,
    }


def registry(**spec: Any) -> Object:
    place = {"name": "mr", "namespace": HOME}
    given = {"rest": {}, "mysql": MYSQL, **spec}
    return {
        "apiVersion": MODEL_REGISTRY.kind.api_version,
        "kind": MODEL_REGISTRY.kind_name,
        "metadata": place,
        "spec": given,
    }


MLFLOW_NAMES_ONE: dict[str, Callable[[Object], Object]] = {
    "backendStoreUriFrom": lambda secret: {"backendStoreUriFrom": secret},
    "readReplicaBackendStoreUriFrom": lambda secret: {"readReplicaBackendStoreUriFrom": secret},
    "registryStoreUriFrom": lambda secret: {"registryStoreUriFrom": secret},
    "env": lambda secret: {"env": [{"name": "A", "valueFrom": {"secretKeyRef": secret}}]},
    "optional env": lambda secret: {
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {**secret, "optional": True}}}]
    },
    "envFrom": lambda secret: {"envFrom": [{"secretRef": {"name": secret["name"]}}]},
}
REGISTRY_NAMES_ONE = {
    "passwordSecret": lambda secret: {"mysql": {**MYSQL, "passwordSecret": secret}},
    "sslKeySecret": lambda secret: {"mysql": {**MYSQL, "sslKeySecret": secret}},
    "tlsKeySecret": lambda secret: {"kubeRBACProxy": {"tlsKeySecret": secret, "tlsCertificateSecret": OWN}},
    "tlsCertificateSecret": lambda secret: {"kubeRBACProxy": {"tlsKeySecret": OWN, "tlsCertificateSecret": secret}},
}
NAMING = [
    *(pytest.param(MLFLOW.kind, mlflow, spec, id=f"MLflow {field}") for field, spec in MLFLOW_NAMES_ONE.items()),
    *(
        pytest.param(MODEL_REGISTRY.kind, registry, spec, id=f"ModelRegistry {field}")
        for field, spec in REGISTRY_NAMES_ONE.items()
    ),
]


@pytest.mark.parametrize(("kind", "resource", "spec"), NAMING)
async def test_a_secret_is_named_only_by_who_may_read_it(
    server: ApiServer, kind: Kind, resource: Any, spec: Any
) -> None:
    tenant = server.client("tenant")
    with pytest.raises(Forbidden, match=f"tenant may not read the Secret victims in namespace {HOME}"):
        await tenant.create(kind, resource(**spec(VICTIMS)))
    await tenant.create(kind, resource(**spec(OWN)))


@pytest.mark.parametrize(
    ("kind", "made", "change"),
    [
        pytest.param(MLFLOW.kind, mlflow(registryStoreUriFrom=VICTIMS), {"image": {"image": "theirs"}}, id="MLflow image"),
        pytest.param(
            MLFLOW.kind, mlflow(registryStoreUriFrom=VICTIMS), {"artifactsDestination": "s3://x"}, id="MLflow destination"
        ),
        pytest.param(
            MODEL_REGISTRY.kind, registry(mysql={**MYSQL, "passwordSecret": VICTIMS}), {"mysql": {"host": "theirs"}},
            id="registry host",
        ),
        pytest.param(
            MODEL_REGISTRY.kind, registry(mysql={**MYSQL, "passwordSecret": VICTIMS}), {"rest": {"image": "theirs"}},
            id="registry image",
        ),
    ],
)  # fmt: skip
async def test_a_secret_that_others_named_does_not_go_to_an_image_or_host_of_the_tenants(
    server: ApiServer, kind: Kind, made: Object, change: Object
) -> None:
    await server.client().create(kind, made)
    place = (made["metadata"].get("namespace", ""), made["metadata"]["name"])
    tenant = server.client("tenant")
    with pytest.raises(Forbidden, match="tenant may not read the Secret victims"):
        await tenant.patch(kind, *place, {"spec": change})
    size: Object = {"replicas": 2} if kind == MLFLOW.kind else {"rest": {"resources": {"limits": {"memory": "1Gi"}}}}
    await tenant.patch(kind, *place, {"metadata": {"labels": {"a": "b"}}, "spec": size})
    await tenant.delete(kind, *place)


async def test_a_server_runs_as_a_chosen_account_only_for_who_may_run_pods_as_it(server: ApiServer) -> None:
    tenant, chosen = server.client("tenant"), mlflow(serviceAccountName="deployer")
    with pytest.raises(Forbidden, match=f"tenant may not run pods in namespace {HOME}.*ServiceAccount deployer"):
        await tenant.create(MLFLOW.kind, chosen)
    await server.client().create(MLFLOW.kind, chosen)
    with pytest.raises(Forbidden, match="ServiceAccount deployer"):
        await tenant.patch(MLFLOW.kind, "", "mlflow", {"spec": {"image": {"image": "theirs"}}})
    await grant(server.client(), "pods", "create")
    await tenant.patch(MLFLOW.kind, "", "mlflow", {"spec": {"image": {"image": "theirs"}}})


@pytest.fixture
async def alone() -> AsyncIterator[Client]:
    """A server that is told of the webhooks of a plane that does not run."""
    async with ApiServer() as server:
        client = server.client()
        await client.create(CustomResourceDefinition, definition_of(MLFLOW))
        hooks = mlflow_operator({"MLFLOW_NAMESPACE": HOME}).webhooks
        for config in webhook_configurations(hooks, ServiceAddress(url="https://127.0.0.1:1")):
            await client.create(ValidatingWebhookConfiguration, config)
        await server.settle()
        yield client


async def test_an_mlflow_that_names_nothing_of_others_needs_no_plane(alone: Client) -> None:
    made = await alone.create(MLFLOW.kind, mlflow(env=[{"name": "A", "value": "b"}], serviceAccountName="mlflow-sa"))
    await alone.update(MLFLOW.kind, made | {"spec": made["spec"] | {"replicas": 2}})


@pytest.mark.parametrize(
    "spec",
    [*(names(VICTIMS) for names in MLFLOW_NAMES_ONE.values()), {"serviceAccountName": "deployer"}],
    ids=[*MLFLOW_NAMES_ONE, "account"],
)
async def test_one_that_does_waits_for_the_plane(alone: Client, spec: Object) -> None:
    with pytest.raises(ApiError, match=r"failed calling webhook .*vmlflow\.opendatahub\.io"):
        await alone.create(MLFLOW.kind, mlflow(**spec))
