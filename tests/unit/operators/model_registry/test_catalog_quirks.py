"""Defects of upstream's catalog, by their number in its specification's section 12, that this one does not have."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from modelyard.kube import builtin
from modelyard.kube.kinds import Key, Object
from modelyard.kube.objects import owners_of
from modelyard.operators.certificates.controller import wanted_secret
from modelyard.operators.certificates.reach import makers_of
from modelyard.operators.model_registry.catalog.children import DATABASE, NAME
from modelyard.operators.model_registry.catalog.controller import catalog_controller
from modelyard.operators.model_registry.catalog.sources import (
    KEY,
    SOURCE_LABEL,
    default_sources,
    labelled,
    without_default_catalog,
)
from modelyard.operators.model_registry.config import Settings
from modelyard.operators.model_registry.operator import operator
from modelyard.operators.parts.network import BackendTLSPolicy
from modelyard.operators.parts.platform import Auth
from modelyard.operators.parts.references import CONFIG_DIGEST
from modelyard.runtime.declaring.controller import Owns, Watch
from modelyard.runtime.testing import Bench, bench, make_ready
from tests.cluster.stories import Server

NS = "reg"


def config_map(name: str, text: str | None = "catalogs: []\n", **labels: str) -> Object:
    metadata = {"name": name, "namespace": NS, "labels": labels or dict(SOURCE_LABEL)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text} if text else {}}


def secret(**metadata: Any) -> Object:
    data = {"database-password": base64.b64encode(b"x").decode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": DATABASE, "namespace": NS, **metadata},
        "data": data,
    }


def ground(*objects: Object, served: Any = (), **settings: Any) -> Bench:
    made = catalog_controller(Settings(namespace=NS, **settings))
    return bench(made, Key(NS, NAME), objects, served=served)


def test_q2_credentials_that_someone_owns_stay_his() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "sync", "uid": "u1"}
    made = ground(secret(ownerReferences=[owner]))
    outcome = made.settle()
    found = made.cluster.get(builtin.Secret, Key(NS, DATABASE)) or {}
    assert owners_of(found) == [owner]
    assert not outcome.failures
    assert DATABASE in outcome.children.names(builtin.Deployment)


def test_q5_the_service_gets_a_certificate_anywhere() -> None:
    outcome = ground().settle()
    assert (
        wanted_secret(outcome.children[builtin.Service, NAME], makers_of([operator({})]))
        == "model-catalog-kube-rbac-proxy"
    )


def test_q5_the_server_is_not_open_to_the_cluster() -> None:
    outcome = ground().settle()
    (rule,) = outcome.children[builtin.NetworkPolicy, "model-catalog-proxy"]["spec"]["ingress"]
    assert rule == {"ports": [{"protocol": "TCP", "port": 8443}]}


def test_q10_no_secret_of_others_is_held() -> None:
    controller = catalog_controller(Settings(namespace=NS))
    declared: tuple[Owns | Watch, ...] = (*controller.owns, *controller.watches)
    rows = [row for row in declared if row.kind in (builtin.Secret, builtin.ConfigMap)]
    assert rows
    assert all(row.namespace == NS and (row.labels or (isinstance(row, Watch) and row.name)) for row in rows)


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        (config_map("team-a"), True),
        (config_map("default-catalog-sources"), False),
        (config_map("model-catalog-sources"), False),
        (config_map("a" * 55), True),
        (config_map("a" * 56), False),
        (config_map("has.dot"), False),
        (config_map("no-key", None), False),
        (config_map("other", other="label"), False),
    ],
)
def test_q11_what_counts_as_a_source(source: Object, is_one: bool) -> None:
    assert labelled([source])[0] == ([source["metadata"]["name"]] if is_one else [])


COMMENTED = """\
# Our models
catalogs:
  # from the old operator
  - name: Default
    id: default_catalog
    type: yaml
  # ours
  - name: Team
    id: team  # keep me
    type: yaml
agent_catalogs: []
"""


def test_q12_comments_and_newer_keys_stay() -> None:
    edited = without_default_catalog(COMMENTED)
    assert edited is not None
    assert "# keep me" in edited
    assert "# ours" in edited
    assert yaml.safe_load(edited) == {
        "catalogs": [{"name": "Team", "id": "team", "type": "yaml"}],
        "agent_catalogs": [],
    }


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("catalogs: [{id: default_catalog}, {id: b}]\n", {"catalogs": [{"id": "b"}]}),
        ("catalogs:\n- id: a\n- id: default_catalog\nlabels: [x]\n", {"catalogs": [{"id": "a"}], "labels": ["x"]}),
        ("catalogs:\n-\n  id: default_catalog\n-\n  id: a\n", {"catalogs": [{"id": "a"}]}),
        ("model_catalogs:\n- id: default_catalog\nlabels: 1\n", {"labels": 1}),
        ("catalogs:\n- id: default_catalog\n- id: default_catalog\n", {}),
    ],
)
def test_q12_any_layout_is_understood(text: str, left: Object) -> None:
    edited = without_default_catalog(text)
    assert edited is not None
    assert yaml.safe_load(edited) == left


@pytest.mark.parametrize(
    "text", ["", "{}", "catalogs: []", "catalogs: [", "- a", "catalogs: x", "mcp_catalogs: [{id: default_catalog}]"]
)
def test_q12_nothing_to_take_out_is_nothing_done(text: str) -> None:
    assert without_default_catalog(text) is None


def test_q12_an_entry_that_comes_later_goes_too() -> None:
    made = ground()
    made.settle()
    text = "catalogs:\n- id: default_catalog\n- id: mine\n"
    made.edit(builtin.ConfigMap, NS, "model-catalog-sources", lambda obj: obj["data"].update({KEY: text}))
    made.settle()
    found = made.cluster.get(builtin.ConfigMap, Key(NS, "model-catalog-sources")) or {}
    assert yaml.safe_load(found["data"][KEY]) == {"catalogs": [{"id": "mine"}]}


def test_q14_pods_follow_the_password() -> None:
    made = ground(secret())

    def digests() -> set[str]:
        outcome = made.settle()
        deployments = (outcome.children[builtin.Deployment, name] for name in (NAME, DATABASE))
        return {Server(deployment).template["metadata"]["annotations"][CONFIG_DIGEST] for deployment in deployments}

    before = digests()
    assert len(before) == 1
    changed = base64.b64encode(b"new").decode()
    made.edit(builtin.Secret, NS, DATABASE, lambda obj: obj["data"].update({"database-password": changed}))
    assert digests() != before


def test_q15_its_health_can_be_read() -> None:
    made = ground()
    outcome = made.settle()
    health = outcome.children[builtin.ConfigMap, "model-catalog-health"]["data"]
    assert health == {"available": "false", "message": "the Deployment is not available yet"}
    health = made.settle(react=make_ready).children[builtin.ConfigMap, "model-catalog-health"]["data"]
    assert health["available"] == "true"


def test_agents_have_a_list_of_their_own() -> None:
    made = ground()
    outcome = made.settle()
    users = made.cluster.get(builtin.ConfigMap, Key(NS, "agent-catalog-sources")) or {}
    assert users["data"][KEY] == "agent_catalogs: []\n"
    lists = yaml.safe_load(outcome.children[builtin.ConfigMap, "default-catalog-sources"]["data"][KEY])
    (agents,) = lists["agent_catalogs"]
    assert (agents["id"], agents["properties"]) == (
        "rh_agents",
        {"yamlCatalogPath": "/shared-data/redhat-agents-catalog.yaml"},
    )
    assert [label["displayName"] for label in lists["labels"] if label["assetType"] == "agents"] == ["Agent templates"]
    server = Server(outcome.children[builtin.Deployment, NAME], "catalog")
    assert server.mounts["/data/user-agent-sources"]["name"] == "user-agent-sources"
    assert server.volumes["user-agent-sources"]["configMap"]["name"] == "agent-catalog-sources"


def test_q16_admins_may_edit_the_lists_and_nothing_else() -> None:
    outcome = ground(config_map("team-a")).settle()
    (rule,) = outcome.children[builtin.Role, "model-catalog-admin"]["rules"]
    assert rule["resources"] == ["configmaps"]
    assert rule["resourceNames"] == [
        "default-catalog-sources",
        "model-catalog-sources",
        "mcp-catalog-sources",
        "agent-catalog-sources",
        "team-a",
    ]


def test_q17_every_container_may_run_restricted() -> None:
    outcome = ground().settle()
    for name in (NAME, DATABASE):
        pod = outcome.children[builtin.Deployment, name]["spec"]["template"]["spec"]
        assert pod["securityContext"].items() >= {"runAsNonRoot": True}.items()
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            security = container["securityContext"]
            assert (security["allowPrivilegeEscalation"], security["capabilities"]) == (False, {"drop": ["ALL"]})


def test_q18_an_auth_that_comes_and_goes_is_followed() -> None:
    made = ground()
    assert "model-catalog-admin-binding" not in made.settle().children.names(builtin.RoleBinding)
    made.cluster.serve(Auth)
    made.cluster.put(
        {"apiVersion": Auth.api_version, "kind": "Auth", "metadata": {"name": "auth"}, "spec": {"adminGroups": ["ops"]}}
    )
    assert "model-catalog-admin-binding" in made.settle().children.names(builtin.RoleBinding)
    made.cluster.serve(Auth, False)
    assert "model-catalog-admin-binding" not in made.settle().children.names(builtin.RoleBinding)


def test_q19_the_password_is_nowhere_but_in_its_secret() -> None:
    outcome = ground().settle()
    made = outcome.children[builtin.Secret, DATABASE]
    held = {**(made.get("data") or {}), **(made.get("stringData") or {})}
    elsewhere = [obj for obj in outcome.objects if obj["kind"] != "Secret"]
    assert held["database-password"] not in repr(elsewhere)
    assert held["database-password"] not in repr(made["metadata"])


def test_q14_the_password_is_made_before_anything_starts() -> None:
    made = ground()
    first = made.run()
    assert first.children.names() == [f"Secret {DATABASE}"]
    assert first.live.waiting


def test_the_lists_that_come_with_it() -> None:
    lists = yaml.safe_load(default_sources())
    assert [entry["id"] for entry in lists["catalogs"]] == [
        "redhat_ai_models",
        "redhat_ai_validated_models",
        "other_models",
    ]
    assert [entry["id"] for entry in lists["mcp_catalogs"]] == [
        "rh_mcp_servers",
        "rh_partner_mcp_servers",
        "community_mcp_servers",
    ]
    assert [(label["name"], label.get("displayName")) for label in lists["labels"]] == [
        ("Red Hat AI validated", None),
        ("Red Hat AI", None),
        (None, "Other models"),
        ("Red Hat", "Red Hat MCP servers"),
        ("Red Hat Partners", "Red Hat Partner MCP servers"),
        ("Red Hat Agents", "Agent templates"),
    ]
    assert set(lists["namedQueries"]) == {"default-performance-filters"}


def test_the_gateway_leads_to_the_catalog_where_its_domain_is_known() -> None:
    made = ground(served=(builtin.HTTPRoute, BackendTLSPolicy), gateway_domain="g.example.com:8443")
    made.settle()
    route = made.cluster.get(builtin.HTTPRoute, Key(NS, NAME)) or {}
    (rule,) = route["spec"]["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/catalog/"}}]
    assert rule["backendRefs"] == [
        {"group": "", "kind": "Service", "name": NAME, "namespace": NS, "port": 8443, "weight": 1}
    ]
    service = made.cluster.get(builtin.Service, Key(NS, NAME)) or {}
    address = service["metadata"]["annotations"]["routing.opendatahub.io/external-address-rest"]
    assert address == "g.example.com:8443/catalog"
    assert made.cluster.get(BackendTLSPolicy, Key(NS, NAME)) is None, "nobody knows yet who signs the certificate"
    certificate = secret(name="model-catalog-kube-rbac-proxy") | {"data": {"ca.crt": base64.b64encode(b"CA").decode()}}
    made.cluster.put(certificate)
    made.settle()
    trust = made.cluster.get(BackendTLSPolicy, Key(NS, NAME)) or {}
    assert trust["spec"]["validation"]["hostname"] == f"{NAME}.{NS}.svc"
    bundle = made.cluster.get(builtin.ConfigMap, Key(NS, "model-catalog-serving-ca")) or {}
    assert bundle["data"] == {"ca.crt": "CA"}


def test_without_the_gateways_domain_nothing_of_it_is_made() -> None:
    made = ground(served=(builtin.HTTPRoute, BackendTLSPolicy))
    made.settle()
    assert made.cluster.get(builtin.HTTPRoute, Key(NS, NAME)) is None


def test_a_route_in_the_platforms_namespace_is_let_in() -> None:
    made = ground(
        served=(builtin.HTTPRoute, builtin.ReferenceGrant), gateway_domain="g.example.com", route_namespace="platform"
    )
    made.settle()
    assert made.cluster.get(builtin.HTTPRoute, Key("platform", NAME)) is not None
    grant = made.cluster.get(builtin.ReferenceGrant, Key(NS, "allow-gateway-httproutes")) or {}
    assert grant["spec"]["from"][0]["namespace"] == "platform"
    made.settle()
    assert made.cluster.get(builtin.ReferenceGrant, Key(NS, "allow-gateway-httproutes")) == grant
