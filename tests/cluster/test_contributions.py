"""Shares in objects of others, on an API server that tracks who applied which field: items of one text, and entries of a list."""

from __future__ import annotations

import pytest

from modelyard.kube.builtin import ConfigMap, Deployment
from modelyard.kube.kinds import Object
from modelyard.runtime.acting import text_items
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Child, Desired, Ownership, TextItem
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.manager import Manager
from tests.cluster.conftest import Api
from tests.cluster.test_runtime import until

VARIABLE = "MM_PAYLOAD_PROCESSORS"
URLS = ("spec", "template", "spec", "containers", ("name", "mm"), "env", ("name", VARIABLE), "value")


def payloads(namespace: str) -> Controller:
    """A ConfigMap with a `url` puts it into the variable of the Deployment, and a variable of its own beside it."""
    made = Controller("payloads", ConfigMap, owns=[Deployment], namespaces=[namespace])

    @made.reconcile
    def reconcile(resource: Object, world: World) -> Desired:
        url = (resource.get("data") or {}).get("url")
        if not url:
            return Desired()
        variable = {"name": f"FROM_{resource['metadata']['name'].upper()}", "value": url}
        share = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "mesh", "namespace": namespace},
            "spec": {"template": {"spec": {"containers": [{"name": "mm", "env": [variable]}]}}},
        }
        return Desired([Child(share, ownership=Ownership.CONTRIBUTED, items=[TextItem(URLS, url)])])

    return made


def mesh(namespace: str, *variables: Object) -> Object:
    labels = {"app": "mesh"}
    container = {"name": "mm", "image": "mm", "env": list(variables)}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    return {"metadata": {"name": "mesh", "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize("value", ["http://x", None], ids=["beside a stranger's", "alone"])
async def test_items_of_several_owners_share_one_text_and_are_taken_back(api: Api, value: str | None) -> None:
    namespace = await api.namespace()
    given = [{"name": VARIABLE, "value": value}] if value else [{"name": "OTHER", "value": "1"}]
    await api.client.create(Deployment, mesh(namespace, *given))

    async def env() -> list[Object]:
        found = await api.client.get(Deployment, namespace, "mesh")
        variables: list[Object] = found["spec"]["template"]["spec"]["containers"][0].get("env") or []
        return variables

    async def say(name: str, url: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}
        await api.client.apply(ConfigMap, body | {"data": {"url": url}}, field_manager="user", force=True)

    async def shared(*urls: str) -> bool:
        text = next((v.get("value", "") for v in await env() if v["name"] == VARIABLE), "")
        return sorted(text.split()) == sorted([*([value] if value else []), *urls])

    async with Manager(api.client, [payloads(namespace)], namespace=namespace) as manager:
        await say("a", "https://a")
        await say("b", "https://b")
        await until(lambda: shared("https://a", "https://b"))
        await manager.idle()
        assert {v["name"] for v in await env()} >= {"FROM_A", "FROM_B"}
        settled = await api.client.get(Deployment, namespace, "mesh")
    async with Manager(api.client, [payloads(namespace)], namespace=namespace) as manager:
        await manager.idle()
        again = await api.client.get(Deployment, namespace, "mesh")
        assert again["metadata"]["resourceVersion"] == settled["metadata"]["resourceVersion"]
        await say("a", "")
        await until(lambda: shared("https://b"))
        await say("b", "")
        await until(lambda: shared())
        await manager.idle()
    assert await env() == given
    found = await api.client.get(Deployment, namespace, "mesh")
    assert not [name for name in found["metadata"].get("annotations") or () if name.startswith(text_items.PREFIX)]
