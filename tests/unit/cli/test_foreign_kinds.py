"""`plan` and `status` know the kinds that others define and that a controller of ours works on where they are served."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from modelyard.cli import plan as command
from modelyard.cli.simulation import simulate
from modelyard.cli.survey import UnknownKind, view
from modelyard.failure import Failed
from modelyard.kube.builtin import ConfigMap, CustomResourceDefinition
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import name_of
from modelyard.local.apiserver import ApiServer
from modelyard.local.platform import crd_of
from modelyard.runtime.declaring.controller import Controller
from modelyard.runtime.declaring.desired import Desired
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.world import World
from modelyard.runtime.process.manager import Manager

RAY = Kind("ray.io", "v1", "RayCluster", "rayclusters")


def rays() -> Operator:
    """A ConfigMap for each RayCluster."""
    made = Controller("rays", RAY, owns=[ConfigMap], optional=True)

    @made.reconcile
    def reconcile(ray: Object, world: World) -> Desired:
        return Desired([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"ca-{name_of(ray)}"}}])

    return Operator("rays", "Rays", controllers=[made])


def ray(**metadata: str) -> Object:
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"} | metadata, "spec": {}}


async def test_a_plan_shows_what_is_made_for_a_resource_of_someone_elses_kind() -> None:
    async with ApiServer() as server:
        client = server.client()
        await client.create(CustomResourceDefinition, crd_of(RAY))
        await server.settle()
        asked, others = command.sort_out([rays()], [ray()])
        assert not others
        (made,) = await command.plan_all(client, asked)
        assert [f"{change.action} {change.key}" for change in made.changes] == ["create default/ca-r"]


async def test_a_plan_says_where_the_cluster_lacks_the_kind_and_works_offline() -> None:
    asked, others = command.sort_out([rays()], [ray()])
    async with ApiServer() as server:
        with pytest.raises(
            Failed, match=r"does not serve RayCluster \(ray.io/v1\): install the software that defines it"
        ):
            await command.plan_all(server.client(), asked)
    (made,) = await simulate([rays()], [(a.kind, a.resource) for a in asked], others, "kubernetes")
    assert [str(change.key) for change in made.of("create")] == ["default/ca-r"]


async def test_an_offline_plan_takes_the_definition_from_the_files() -> None:
    strict = crd_of(RAY)
    strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}}},
    }
    asked, others = command.sort_out([rays()], [strict, ray()])
    with pytest.raises(Exception, match=r"spec\.size: Required value"), redirect_stderr(io.StringIO()):
        await simulate([rays()], [(a.kind, a.resource) for a in asked], others, "kubernetes")


async def test_status_shows_resources_of_someone_elses_kind_with_what_belongs_to_them() -> None:
    operator = rays()
    async with ApiServer() as server:
        client = server.client()
        assert not (await view(client, [operator])).roots
        await client.create(CustomResourceDefinition, crd_of(RAY))
        await server.settle()
        await client.create(RAY, ray(namespace="default"))
        async with Manager(server.client(), operator.controllers) as manager:
            await manager.idle()
        (root,) = (await view(client, [operator], ("rayclusters", "r"))).roots
        assert root.title == "RayCluster r"
        assert [child.title for child in root.children] == ["ConfigMap ca-r"]
        assert root.ready is not False
        with pytest.raises(UnknownKind, match=r"there are: RayCluster"):
            await view(client, [operator], ("raycluster2", ""))
