"""The life of a model registry: made, given other databases and ways in, and deleted; and that of the catalog."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Key, Object
from modelyard.operators.model_registry.api import MODEL_REGISTRY
from modelyard.operators.model_registry.facts import CREATED_BY, ReferenceGrant
from modelyard.operators.model_registry.operator import operator
from modelyard.operators.parts.platform import Auth
from modelyard.operators.parts.references import CONFIG_DIGEST
from tests.chaos.subject import Subject
from tests.chaos.sweeps import Step, namespace

NS, ROUTES = "shop", "routes"
PASSWORD = {"passwordSecret": {"name": "db", "key": "pw"}}
MYSQL = {"host": "h", "username": "u", "database": "d", **PASSWORD}
POSTGRES = {"host": "pg", "username": "u", "database": "d", **PASSWORD}
GENERATED = {"generateDeployment": True}
OF_A_PASSWORD = "the digest of a password that is random"


async def password_changed(client: Client) -> None:
    await client.patch(builtin.Secret, NS, "db", {"data": {"pw": "bmV3"}})


def named(name: str, **fields: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": NS, "labels": {"app": "mr", "component": "model-registry"}},
        **fields,
    }


def pod() -> Object:
    containers = ("rest-container", "kube-rbac-proxy")
    spec = {"containers": [{"name": name, "image": "x"} for name in containers], "automountServiceAccountToken": False}
    made = named("mr-1", spec=spec)
    made["metadata"]["labels"]["app.kubernetes.io/name"] = "mr"
    return made


def endpoints() -> Object:
    made = named("mr-x", addressType="IPv4", endpoints=[{"addresses": ["10.0.0.7"]}], ports=[])
    made["metadata"]["labels"] = {"kubernetes.io/service-name": "mr", **CREATED_BY}
    return made


REGISTRIES = Subject(
    operator,
    kind=MODEL_REGISTRY.kind,
    key=Key(NS, "mr"),
    spec={"rest": {}},
    environ={"DEFAULT_DOMAIN": "example.com", "GATEWAY_DOMAIN": "g.example.com", "HTTPROUTE_NAMESPACE": ROUTES},
    served=[builtin.Route, builtin.Group, builtin.HTTPRoute, ReferenceGrant],
    setup=[
        namespace(NS),
        namespace(ROUTES),
        (builtin.Secret, {"metadata": {"name": "db", "namespace": NS}, "data": {"pw": "b2xk"}}),
        (builtin.EndpointSlice, endpoints()),
        (builtin.Pod, pod()),
    ],
    foreign=[
        (builtin.ConfigMap, named("mr-kube-rbac-proxy-config-2", data={"a": "b"})),
        (builtin.Service, named("bystander", spec={"ports": [{"port": 1}]})),
        (builtin.Secret, named("mr-postgres", data={"a": "Yg=="})),
    ],
    generated=["Secret mr-postgres-credentials"],
)
GENERATED_PASSWORD = {
    ("Deployment mr", CONFIG_DIGEST): OF_A_PASSWORD,
    ("Deployment mr-postgres", CONFIG_DIGEST): OF_A_PASSWORD,
}
registry = REGISTRIES.made

LIFE = REGISTRIES.story(
    "a registry's life",
    registry(mysql=MYSQL),
    registry(postgres=GENERATED, kubeRBACProxy={}),
    registry(postgres=POSTGRES, kubeRBACProxy={"serviceRoute": "disabled"}),
    password_changed,
    registry(postgres=GENERATED, kubeRBACProxy={"port": 9443}, rest={"port": 8081}),
    masked=GENERATED_PASSWORD,
)

PHASES = REGISTRIES.story(
    "a registry with one database after the other",
    registry(mysql=MYSQL),
    registry(postgres=GENERATED, kubeRBACProxy={}),
    registry(postgres=POSTGRES, kubeRBACProxy={"serviceRoute": "disabled"}),
    registry(postgres=GENERATED),
    masked=GENERATED_PASSWORD,
)
"""Its registry is deleted in every phase of this."""

END = REGISTRIES.story(
    "a registry's end",
    registry(postgres=GENERATED, kubeRBACProxy={}),
    REGISTRIES.deleted,
    registry(mysql=MYSQL, oauthProxy={"port": 9443}),
    REGISTRIES.deleted,
)


def source(name: str, **metadata: Any) -> Step:
    async def step(client: Client) -> None:
        labels = {"labels": {"opendatahub.io/catalog-source": "true"}}
        body = {
            "metadata": {"name": name, "namespace": NS, **labels, **metadata},
            "data": {"sources.yaml": "catalogs: []"},
        }
        await client.apply(
            builtin.ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", **body}, field_manager="user", force=True
        )

    return step


async def old_entry(client: Client) -> None:
    text = "catalogs:\n- id: default_catalog\n- id: mine\n"
    await client.patch(builtin.ConfigMap, NS, "model-catalog-sources", {"data": {"sources.yaml": text}})


async def admins(client: Client) -> None:
    body = {"apiVersion": Auth.api_version, "kind": Auth.kind, "metadata": {"name": "auth"}}
    await client.create(Auth, body | {"spec": {"adminGroups": ["ops"]}})


CATALOGS = Subject(
    operator,
    environ={"REGISTRIES_NAMESPACE": NS, "DEFAULT_DOMAIN": "example.com"},
    served=[builtin.Route, Auth],
    setup=[namespace(NS)],
    foreign=[(builtin.ConfigMap, named("bystander", data={"a": "b"}))],
    generated=["Secret model-catalog-postgres"],
)
CATALOG = CATALOGS.story(
    "the catalog",
    source("a-src"),
    old_entry,
    admins,
    source("a-src", labels={}),
    masked={
        ("Deployment model-catalog", CONFIG_DIGEST): OF_A_PASSWORD,
        ("Deployment model-catalog-postgres", CONFIG_DIGEST): OF_A_PASSWORD,
    },
)
