"""What the differential fuzzer found: small behaviours of kube-apiserver that are easy to get wrong."""

from __future__ import annotations

import msgspec

from modelyard.kube.builtin import ConfigMap, Deployment, Job, PodDisruptionBudget, Role
from modelyard.kube.kinds import Object
from modelyard.local.apiserver import ApiServer

_TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}], "restartPolicy": "Never"},
}


async def test_a_job_keeps_its_pods_unless_told_otherwise() -> None:
    async with ApiServer() as server:
        client = server.client()
        await client.create(Job, {"metadata": {"name": "a", "namespace": "default"}, "spec": {"template": _TEMPLATE}})
        answer = await client.delete(Job, "default", "a")
        assert answer["metadata"]["finalizers"] == ["orphan"]


async def test_an_empty_list_of_rules_is_owned_and_stored_as_null() -> None:
    async with ApiServer() as server:
        role = {"metadata": {"name": "a", "namespace": "default"}, "rules": []}
        made = await server.client().create(Role, role, field_manager="me")
        assert made["rules"] is None
        assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:rules": {}}


async def test_a_full_page_goes_on_even_if_nothing_more_matches() -> None:
    async with ApiServer() as server:
        client = server.client()
        for name, app in (("a", "web"), ("b", "db")):
            await client.create(ConfigMap, {"metadata": {"name": name, "namespace": "default", "labels": {"app": app}}})
        path = ConfigMap.path("default")
        page = await client.request("GET", path, query={"labelSelector": "app=web", "limit": "1"})
        assert msgspec.json.decode(page)["metadata"]["continue"]


async def test_nobody_owns_the_zero_replicas_that_a_scale_asked_for() -> None:
    async with ApiServer() as server:
        client = server.client()
        template = {**_TEMPLATE, "spec": {"containers": _TEMPLATE["spec"]["containers"]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        await client.create(Deployment, {"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
        await client.patch(Deployment, "default", "a", {"spec": {"replicas": 0}}, subresource="scale")
        found = await client.get(Deployment, "default", "a")
        assert found["spec"]["replicas"] == 0
        assert all("f:replicas" not in entry["fieldsV1"]["f:spec"] for entry in found["metadata"]["managedFields"])


async def test_a_disruption_budget_may_have_any_name_that_fits_a_path() -> None:
    async with ApiServer() as server:
        spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
        made = await server.client().create(
            PodDisruptionBudget, {"metadata": {"name": "Not_DNS", "namespace": "default"}, "spec": spec}
        )
        assert made["metadata"]["name"] == "Not_DNS"
