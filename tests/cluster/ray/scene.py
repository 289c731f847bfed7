"""What the Ray scenarios have in common: a RayCluster, its pods by their place, and the part that kubelets play."""

from __future__ import annotations

from typing import Any

from modelyard.kube import builtin
from modelyard.kube.kinds import Object
from modelyard.kube.objects import is_deleting, labels_of, metadata_of, name_of, spec_of, status_of
from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from modelyard.operators.ray.config import Settings
from modelyard.operators.ray.controller import ray_controller
from modelyard.operators.ray.names import CLUSTER, GROUP, NODE_TYPE
from tests.cluster import stories
from tests.ground import LONG_AGO

NAME = "demo"


def template(container: str = "ray", **spec: Any) -> Object:
    return {"spec": {"containers": [{"name": container, "image": "rayproject/ray:2.60.0"}], **spec}}


def workers(**fields: Any) -> Object:
    return {"groupName": "small", "replicas": 1, "minReplicas": 0, "maxReplicas": 4, "template": template(), **fields}


def cluster(*groups: Object, head: Object | None = None, **spec: Any) -> Object:
    """A valid spec."""
    return {
        "rayVersion": "2.60.0",
        "headGroupSpec": {"template": template(), **(head or {})},
        "workerGroupSpecs": list(groups or [workers()]),
        **spec,
    }


class RayScene(stories.Scene):
    """A ground in which the Ray operator is at work."""

    kind = RAY_CLUSTER.kind
    usual_name = NAME
    definitions = (RAY_CLUSTER,)

    async def start(self, **settings: Any) -> None:
        await self.ground.start([ray_controller(Settings(**settings))])

    async def create(self, spec: Object, name: str = NAME, **metadata: Any) -> Object:
        return await self.ground.create(RAY_CLUSTER.kind, name, spec=spec, **metadata)

    async def state(self, wanted: str) -> Object:
        """The status, once the cluster is in this state."""
        found = await self.ground.until(RAY_CLUSTER.kind, NAME, lambda obj: status_of(obj).get("state") == wanted)
        return status_of(found)

    async def pods(self, group: str = "", name: str = NAME) -> list[Object]:
        """Those that are there to stay, of all groups or of one."""
        await self.ground.quiet()
        every = [await self.ground.find(builtin.Pod, pod) for pod in await self.ground.names(builtin.Pod)]
        found = [pod for pod in every if pod is not None and not is_deleting(pod) and labels_of(pod)[CLUSTER] == name]
        return [pod for pod in found if group in ("", labels_of(pod)[GROUP])]

    async def head(self) -> Object:
        (found,) = await self.pods("headgroup")
        return found

    async def workers(self, group: str = "small") -> list[Object]:
        return await self.pods(group)

    async def until_pods(self, heads: int, workers: int) -> None:
        """Until there are so many; on a server deletions take a moment."""

        def as_wanted(obj: Object) -> bool:
            return status_of(obj).get("desiredWorkerReplicas") is not None

        await self.ground.until(RAY_CLUSTER.kind, NAME, as_wanted)
        found = [labels_of(pod)[NODE_TYPE] for pod in await self.pods()]
        assert sorted(found) == sorted(["head"] * heads + ["worker"] * workers)

    async def run_pods(self) -> None:
        """Plays the kubelet: every pod runs and is ready."""
        for number, pod in enumerate(await self.pods(), start=1):
            await self.run(pod, f"10.0.0.{number}")

    async def run(self, pod: Object, address: str) -> None:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
        await self.ground.set_status(builtin.Pod, name_of(pod), status)

    async def fail(self, pod: Object) -> None:
        await self.ground.set_status(builtin.Pod, name_of(pod), {"phase": "Failed"})

    async def ready(self, spec: Object) -> None:
        """A cluster that has come up."""
        await self.create(spec)
        await self.run_pods()
        await self.state("ready")


def names(pods: list[Object]) -> set[str]:
    return {name_of(pod) for pod in pods}


def uids(pods: list[Object]) -> set[str]:
    return {str(metadata_of(pod)["uid"]) for pod in pods}


def ray(pod: Object) -> Object:
    """The container that runs Ray."""
    found: Object = spec_of(pod)["containers"][0]
    return found


def named_container(pod: Object, name: str) -> Object:
    return next(container for container in spec_of(pod)["containers"] if container["name"] == name)


def variables(container: Object) -> dict[str, Any]:
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}
