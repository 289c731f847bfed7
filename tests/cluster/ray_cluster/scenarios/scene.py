"""What the scenarios have in common: a RayCluster, the platform around it, and short names for what they look at."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from modelyard.kube import builtin
from modelyard.kube.errors import Forbidden
from modelyard.kube.kinds import Kind, Object
from modelyard.kube.objects import labels_of, owner_reference
from modelyard.operators.codeflare.config import CONFIG_KEY, CONFIG_MAP, Settings
from modelyard.operators.codeflare.configuration import configuration_controller
from modelyard.operators.codeflare.ray_cluster.controller import ray_cluster_controller
from modelyard.operators.codeflare.ray_cluster.names import Names, RayCluster
from modelyard.operators.codeflare.ray_cluster.webhooks import check, ray_cluster_webhooks, secure
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.testing import FakeWorld
from modelyard.runtime.webhooks import AdmissionRequest, Denied
from tests.cluster import stories
from tests.ground import ApiGround, Ground, MemoryGround

OPENSHIFT = (builtin.Route,)
RAY_IMAGE = "docker.io/rayproject/ray:2.47.1"


def group(name: str, **fields: Any) -> Object:
    container = {"name": name, "image": RAY_IMAGE}
    return {"rayStartParams": {}, "template": {"spec": {"containers": [container], **fields}}}


def spec(**fields: Any) -> Object:
    workers = {"groupName": "small", "replicas": 1, "minReplicas": 0, "maxReplicas": 2, **group("ray-worker")}
    made: Object = {"headGroupSpec": group("ray-head"), "workerGroupSpecs": [workers], **fields}
    return {name: value for name, value in made.items() if value is not None}


@dataclass
class RayScene:
    """A ground in which CodeFlare is at work."""

    ground: Ground
    settings: Settings = field(default_factory=Settings)
    hooks: bool = False

    @property
    def namespace(self) -> str:
        return self.ground.namespace

    @property
    def names(self) -> Names:
        """The names around the cluster `demo`; without the webhooks nothing gives it the annotation for those with digests."""
        return Names("demo", self.namespace, hashed=self.hooks)

    async def start(self, *served: Kind, hooks: bool = True, kuberay: Object | None = None, **settings: Any) -> None:
        """Serves the optional kinds and starts the operator, with its webhooks if asked."""
        for kind in served:
            await self.ground.serve(kind)
        if await self.ground.find(builtin.Namespace, self.namespace) is None:
            await self.ground.create(builtin.Namespace, self.namespace)  # In memory there is none yet.
        self.settings = Settings(namespace=self.namespace, **settings)
        if kuberay is not None:
            await self.configure(**kuberay)
        controllers = [configuration_controller(self.settings), ray_cluster_controller(self.settings)]
        await self.ground.start(controllers)
        self.hooks = hooks
        if hooks and isinstance(self.ground, ApiGround):
            made = Operator("codeflare", "", "", controllers, webhooks=ray_cluster_webhooks(self.settings))
            await self.ground.serve_webhooks(made)

    async def configure(self, **kuberay: Any) -> None:
        """The ConfigMap says this about RayClusters, from now on."""
        data = {CONFIG_KEY: yaml.safe_dump({"kuberay": kuberay})}
        if await self.ground.find(builtin.ConfigMap, CONFIG_MAP) is None:
            await self.ground.create(builtin.ConfigMap, CONFIG_MAP, data=data)
        else:
            await self.ground.edit(builtin.ConfigMap, CONFIG_MAP, lambda obj: obj.update(data=data))

    async def create(self, name: str = "demo", *, annotations: dict[str, str] | None = None, **fields: Any) -> Object:
        body: Object = {"spec": spec(**fields), **({"annotations": annotations} if annotations else {})}
        if self.hooks and isinstance(self.ground, MemoryGround):
            metadata = {"name": name, "namespace": self.namespace, "annotations": annotations or {}}
            sent = {"apiVersion": RayCluster.api_version, "kind": RayCluster.kind, "metadata": metadata, **body}
            admitted = self._admitted("CREATE", sent, None)
            body = {"spec": admitted["spec"], "annotations": admitted["metadata"]["annotations"]}
        return await self.ground.create(RayCluster, name, **body)

    async def edit(self, change: Callable[[Object], Any], name: str = "demo") -> Object:
        if not (self.hooks and isinstance(self.ground, MemoryGround)):
            return await self.ground.edit(RayCluster, name, change)

        def admitted(cluster: Object) -> None:
            before = copy.deepcopy(cluster)
            change(cluster)
            cluster.update(self._admitted("UPDATE", cluster, before))

        return await self.ground.edit(RayCluster, name, admitted)

    def _admitted(self, operation: Any, cluster: Object, old: Object | None) -> Object:
        """What the API does with the webhooks, where there is no API."""
        assert isinstance(self.ground, MemoryGround)
        request = AdmissionRequest(
            operation,
            copy.deepcopy(cluster),
            old,
            kind=RayCluster,
            namespace=self.namespace,
            reader=FakeWorld(
                self.ground.cluster.objects.values(),
                kinds=[RayCluster],
                served=[kind for kind in OPENSHIFT if self.ground.cluster.serves(kind)],
            ),
        )
        changed = secure(request, self.settings)
        secured = cluster if changed is None else _object(changed)
        refusal = check(replace(request, object=copy.deepcopy(secured)), self.settings)
        return secured if refusal is None else _object(refusal)

    async def suspend(self, value: bool) -> None:
        await self.edit(lambda cluster: cluster["spec"].update(suspend=value))

    async def pod(self, name: str, node_type: str, *, ip: str = "", **fields: Any) -> Object:
        """A pod of the cluster, as KubeRay makes it."""
        cluster = await self.ground.get(RayCluster, "demo")
        labels = {"ray.io/cluster": "demo", "ray.io/node-type": node_type, "ray.io/is-ray-node": "yes"}
        pod: Object = {"containers": [{"name": "ray", "image": RAY_IMAGE}], **fields}
        made = await self.ground.create(
            builtin.Pod, name, labels=labels, ownerReferences=[owner_reference(cluster)], spec=pod
        )
        if ip:
            status = {"phase": "Pending", "podIP": ip, "podIPs": [{"ip": ip}]}
            await self.ground.set_status(builtin.Pod, name, status)
        return made

    async def secret(self, name: str) -> dict[str, str]:
        found = await self.ground.get(builtin.Secret, name)
        data: dict[str, str] = found["data"]
        return data

    async def ours(self, kind: Kind) -> list[str]:
        """The names of what there is around clusters."""
        await self.ground.quiet()
        found = []
        for name in await self.ground.names(kind):
            obj = await self.ground.find(kind, name)
            if obj is not None and "ray.openshift.ai/cluster-name" in labels_of(obj):
                found.append(name)
        return found

    async def close(self) -> None:
        """Lets the clusters go while someone is there to finish them."""
        if not isinstance(self.ground, ApiGround) or self.ground.manager is None:
            return
        if await self.ground.find(RayCluster, "demo") is not None:
            await self.ground.delete(RayCluster, "demo")
            await self.ground.gone(RayCluster, "demo")


def _object(answer: object) -> Object:
    if isinstance(answer, Denied):
        raise Forbidden({"message": answer.message, "code": 403})
    assert isinstance(answer, dict)
    return answer


Scenario = Callable[[RayScene], Awaitable[None]]


class Book(stories.Book[RayScene]):
    """The scenarios of one chapter, by number."""
