"""What the API, the webhooks and the conversion do together to a registry that is written."""

from __future__ import annotations

import pytest

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from tests.cluster.model_registry.scenarios.scene import GENERATED, MYSQL, OLD, OPENSHIFT, REGISTRY, RegistryScene
from tests.cluster.stories import refused
from tests.ground import ApiGround

CLOSED = {"serviceRoute": "disabled", "port": 9443}


@pytest.mark.parametrize("database", [{"postgres": GENERATED}, {"mysql": MYSQL}], ids=["generated", "mysql"])
async def test_a_label_through_the_old_version_changes_nothing_else(scene: RegistryScene, database: Object) -> None:
    assert isinstance(scene.ground, ApiGround)
    client, place = scene.ground.client, (scene.namespace, "mr")
    await scene.start(*OPENSHIFT, hooks=True, default_domain="example.com")
    await scene.create(kubeRBACProxy=CLOSED, **database)
    await scene.ground.until(builtin.Deployment, "mr")
    await scene.ground.quiet()
    before = (await scene.resource())["spec"]
    await client.patch(OLD, *place, {"metadata": {"labels": {"team": "a"}}})
    read = await client.get(OLD, *place)
    read["metadata"]["labels"]["team"] = "b"
    del read["metadata"]["annotations"]
    await client.update(OLD, read)
    after = await scene.resource()
    assert (after["spec"], after["metadata"]["labels"]) == (before, {"team": "b"})
    await scene.ground.quiet()
    assert await scene.ground.names(builtin.Route) == []


async def test_two_proxies_are_refused_also_where_webhooks_fill_in_defaults(scene: RegistryScene) -> None:
    message = "Cannot use both oauthProxy and kubeRBACProxy"
    await scene.start(hooks=True)
    await refused(scene.create(oauthProxy={}, kubeRBACProxy={}), message)
    await scene.create(kubeRBACProxy={})
    await refused(scene.edit(oauthProxy={}), message)
    mesh = scene.create("old", kind=OLD, grpc={}, istio={}, oauthProxy={})
    await refused(mesh, "Cannot use both istio and oauthProxy")
    assert "oauthProxy" not in (await scene.ground.get(REGISTRY, "mr"))["spec"]


async def test_the_longest_name_that_is_accepted_gets_all_its_objects(scene: RegistryScene) -> None:
    await scene.start(*OPENSHIFT, hooks=True, default_domain="example.com")
    await refused(scene.create("x" * 49), "must be no more than 48 characters")
    name = "1" + "x" * 47
    await scene.create(name, postgres=GENERATED)
    await scene.ground.until(builtin.Route, f"{name}-https")
    await scene.ground.quiet()
    assert "Reconciled" not in {one["type"] for one in (await scene.status(name))["conditions"]}
