"""Discovery: what the server says it serves."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import CustomResourceDefinition
from modelyard.kube.kinds import Object
from tests.cluster.api.calls import call, eventually
from tests.cluster.api.definitions import definition, install, version
from tests.cluster.conftest import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


async def test_core_versions(api: Api) -> None:
    body = (await call(api, "GET", "/api")).body
    assert (body["kind"], body["versions"]) == ("APIVersions", ["v1"])
    assert body["serverAddressByClientCIDRs"][0]["clientCIDR"] == "0.0.0.0/0"


async def test_groups_prefer_their_newest_stable_version(api: Api) -> None:
    body = (await call(api, "GET", "/apis")).body
    assert (body["kind"], body["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in body["groups"]}
    assert groups["autoscaling"]["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    assert [v["version"] for v in groups["autoscaling"]["versions"]] == ["v2", "v1"]
    assert {"apps", "batch", "rbac.authorization.k8s.io", "apiextensions.k8s.io"} <= set(groups)


async def test_one_group(api: Api) -> None:
    version = {"groupVersion": "apps/v1", "version": "v1"}
    assert (await call(api, "GET", "/apis/apps")).body == {
        "kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version], "preferredVersion": version,
    }  # fmt: skip


async def test_unknown_groups_and_versions_are_not_found(api: Api) -> None:
    assert (await call(api, "GET", "/apis/nothing.example.com")).status == 404
    answer = await call(api, "GET", "/apis/apps/v9")
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.message == "the server could not find the requested resource"


async def resources(api: Api, path: str) -> dict[str, Object]:
    body = (await call(api, "GET", path)).body
    assert body["kind"] == "APIResourceList"
    return {
        resource["name"]: {k: v for k, v in resource.items() if k not in ("name", "storageVersionHash")}
        for resource in body["resources"]
    }


async def test_resources_of_a_group(api: Api) -> None:
    found = await resources(api, "/apis/apps/v1")
    assert found["deployments"] == {
        "singularName": "deployment", "namespaced": True, "kind": "Deployment", "verbs": ALL, "shortNames": ["deploy"],
        "categories": ["all"],
    }  # fmt: skip
    assert found["deployments/scale"] == {
        "singularName": "", "namespaced": True, "group": "autoscaling", "version": "v1", "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }  # fmt: skip
    assert found["deployments/status"]["kind"] == "Deployment"


@pytest.mark.parametrize(
    ("name", "kind", "short", "namespaced"),
    [
        ("pods", "Pod", ["po"], True),
        ("services", "Service", ["svc"], True),
        ("namespaces", "Namespace", ["ns"], False),
        ("endpoints", "Endpoints", ["ep"], True),
        ("serviceaccounts", "ServiceAccount", ["sa"], True),
        ("secrets", "Secret", None, True),
    ],
)
async def test_core_resources(api: Api, name: str, kind: str, short: list[str] | None, namespaced: bool) -> None:
    found = (await resources(api, "/api/v1"))[name]
    assert (found["kind"], found.get("shortNames"), found["namespaced"]) == (kind, short, namespaced)
    assert "watch" in found["verbs"]


async def test_subresources_of_pods(api: Api) -> None:
    found = await resources(api, "/api/v1")
    assert found["pods/log"]["verbs"] == ["get"]
    assert found["pods/exec"]["verbs"] == ["create", "get"]
    assert found["serviceaccounts/token"] == {
        "singularName": "", "namespaced": True, "group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest",
        "verbs": ["create"],
    }  # fmt: skip


async def test_aggregated_discovery(api: Api) -> None:
    answer = await call(api, "GET", "/apis", accept=f"{AGGREGATED},application/json")
    assert answer.headers["Content-Type"] == AGGREGATED
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {item["metadata"]["name"]: item for item in answer.body["items"]}
    [apps] = groups["apps"]["versions"]
    assert (apps["version"], apps["freshness"]) == ("v1", "Current")
    [deployments] = [r for r in apps["resources"] if r["resource"] == "deployments"]
    assert deployments == {
        "resource": "deployments",
        "responseKind": {"group": "", "version": "", "kind": "Deployment"},
        "scope": "Namespaced",
        "singularResource": "deployment",
        "verbs": ALL,
        "shortNames": ["deploy"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            },
            {
                "subresource": "status",
                "responseKind": {"group": "", "version": "", "kind": "Deployment"},
                "verbs": ["get", "patch", "update"],
            },
        ],
    }
    core = (await call(api, "GET", "/api", accept=AGGREGATED)).body
    assert core["items"][0]["versions"][0]["version"] == "v1"


async def test_aggregated_discovery_has_an_etag(api: Api) -> None:
    first = await call(api, "GET", "/apis", accept=AGGREGATED)
    headers = {"Accept": AGGREGATED, "If-None-Match": first.headers["ETag"]}
    again = await api.client.transport.send("GET", "/apis", headers=headers)
    assert again.status == 304
    assert await again.read() == b""


async def test_definitions_come_and_go(api: Api) -> None:
    obj = definition(version(subresources={"status": {}}))
    obj["spec"]["names"] |= {"shortNames": ["thx"], "categories": ["all"]}
    custom = await install(api, obj)
    group, names = custom.kind.group, obj["spec"]["names"]
    found = await resources(api, f"/apis/{group}/v1")
    verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    assert found == {
        names["plural"]: {
            "singularName": names["singular"], "namespaced": True, "kind": names["kind"], "verbs": verbs,
            "shortNames": ["thx"], "categories": ["all"],
        },
        f"{names['plural']}/status": {
            "singularName": "", "namespaced": True, "kind": names["kind"], "verbs": ["get", "patch", "update"],
        },
    }  # fmt: skip
    items = (await call(api, "GET", "/apis", accept=AGGREGATED)).body["items"]
    [item] = [item for item in items if item["metadata"]["name"] == group]
    response_kind = item["versions"][0]["resources"][0]["responseKind"]
    assert response_kind == {"group": group, "version": "v1", "kind": names["kind"]}
    await api.client.delete(CustomResourceDefinition, "", custom.name)

    async def gone() -> bool:
        body = (await call(api, "GET", "/apis")).body
        return group not in {g["name"] for g in body["groups"]}

    await eventually(gone)
    assert (await call(api, "GET", f"/apis/{group}/v1")).status == 404


async def test_version(api: Api) -> None:
    body = (await call(api, "GET", "/version")).body
    assert body["gitVersion"].startswith(f"v{body['major']}.{body['minor']}.")
    assert {"gitCommit", "buildDate", "goVersion", "compiler", "platform"} <= set(body)


async def test_root_lists_paths(api: Api) -> None:
    paths = (await call(api, "GET", "/")).body["paths"]
    assert {"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/version"} <= set(
        paths
    )
