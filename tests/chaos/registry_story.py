"""The life of a model registry: made, given other databases and ways in, and deleted; and that of the catalog."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.client import Client
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import labels_of, owners_of
from modelyard.operators.model_registry.api import DEFINITIONS, MODEL_REGISTRY
from modelyard.operators.model_registry.catalog.controller import catalog_controller
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.controller import registry_controller
from modelyard.operators.model_registry.facts import CREATED_BY, ReferenceGrant
from modelyard.operators.parts.platform import Auth
from modelyard.runtime.ownership import OWNER_KIND
from tests.chaos.sweeps import Stage, Step, Story, namespace

NS, ROUTES = "shop", "routes"
SETTINGS = Settings(default_domain="example.com", gateway_domain="g.example.com", route_namespace=ROUTES)
PASSWORD = {"passwordSecret": {"name": "db", "key": "pw"}}
MYSQL = {"host": "h", "username": "u", "database": "d", **PASSWORD}
POSTGRES = {"host": "pg", "username": "u", "database": "d", **PASSWORD}
GENERATED = {"generateDeployment": True}


def registry(**spec: Any) -> Step:
    """The registry is as given here, and nothing else."""

    async def step(client: Client) -> None:
        kind = MODEL_REGISTRY.kind
        metadata = {"name": "mr", "namespace": NS}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {"rest": {}, **spec}}
        await client.apply(kind, body, field_manager="user", force=True)

    return step


async def password_changed(client: Client) -> None:
    await client.patch(builtin.Secret, NS, "db", {"data": {"pw": "bmV3"}})


async def deleted(client: Client) -> None:
    await client.delete(MODEL_REGISTRY.kind, NS, "mr")


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


def story(name: str, *steps: Step) -> Story:
    return Story(
        name=name,
        controllers=lambda: [registry_controller(SETTINGS)],
        definitions=DEFINITIONS,
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
        steps=steps,
        generated=["Secret mr-postgres-credentials"],
    )


LIFE = story(
    "a registry's life",
    registry(mysql=MYSQL),
    registry(postgres=GENERATED, kubeRBACProxy={}),
    registry(postgres=POSTGRES, kubeRBACProxy={"serviceRoute": "disabled"}),
    password_changed,
    registry(postgres=GENERATED, kubeRBACProxy={"port": 9443}, rest={"port": 8081}),
)

PHASES = story(
    "a registry with one database after the other",
    registry(mysql=MYSQL),
    registry(postgres=GENERATED, kubeRBACProxy={}),
    registry(postgres=POSTGRES, kubeRBACProxy={"serviceRoute": "disabled"}),
    registry(postgres=GENERATED),
)
"""Its registry is deleted in every phase of this."""

END = story(
    "a registry's end",
    registry(postgres=GENERATED, kubeRBACProxy={}),
    deleted,
    registry(mysql=MYSQL, oauthProxy={"port": 9443}),
    deleted,
)

OWNED = (
    builtin.Deployment, builtin.Service, builtin.ServiceAccount, builtin.NetworkPolicy, builtin.ConfigMap, builtin.Role,
    builtin.RoleBinding, builtin.ClusterRoleBinding, builtin.Route, builtin.Group, builtin.HTTPRoute,
)  # fmt: skip


async def owned(stage: Stage) -> list[tuple[Kind, Object]]:
    """The children that may be deleted and changed by someone: not the data."""
    return [
        (kind, obj)
        for kind in OWNED
        for obj in (await stage.client.list(kind)).items
        if any(owner["kind"] == "ModelRegistry" for owner in owners_of(obj))
        or labels_of(obj).get(OWNER_KIND, "").startswith("ModelRegistry.")
    ]


# The catalog


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


CATALOG = Story(
    name="the catalog",
    controllers=lambda: [catalog_controller(Settings(namespace=NS, default_domain="example.com"))],
    definitions=(),
    served=[builtin.Route, Auth],
    setup=[namespace(NS)],
    foreign=[(builtin.ConfigMap, named("bystander", data={"a": "b"}))],
    steps=[source("a-src"), old_entry, admins, source("a-src", labels={})],
    generated=["Secret model-catalog-postgres"],
)
CATALOG_OWNED = (
    builtin.Deployment, builtin.Service, builtin.ServiceAccount, builtin.NetworkPolicy, builtin.Role, builtin.RoleBinding,
    builtin.ClusterRoleBinding, builtin.Route,
)  # fmt: skip


async def catalog_owned(stage: Stage) -> list[tuple[Kind, Object]]:
    return [
        (kind, obj)
        for kind in CATALOG_OWNED
        for obj in (await stage.client.list(kind)).items
        if labels_of(obj).get(OWNER_KIND) == "modelcatalog"
    ]
